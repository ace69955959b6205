package workflows

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

// historyScenarios are the scenarios that every version has histories of; `make histories` records them.
var historyScenarios = []string{
	"whole-rollout", "plan-only", "cancelled", "timed-out-continue", "timed-out-abort", "killed-and-resumed", "node-failed",
	"policies", "manifest-works", "windows", "maintenance-window", "prepared", "onboarding", "harbor", "entities", "portals", "objects",
}

// notReplayed explains why a history does not replay, and what to do.
const notReplayed = "a decision of the workflow, or the name, order or input of an activity, has changed. After a release, keep the old decision with workflow.GetVersion; " +
	"before the first one, record the histories again with `make histories VERSION=v0.1.0`"

// Workflows that an earlier version started continue with this version, which must repeat every decision in their histories.
func TestHistoriesOfEveryVersionReplay(t *testing.T) {
	versions, err := filepath.Glob("testdata/histories/*")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, version := range versions {
		t.Run(filepath.Base(version), func(t *testing.T) {
			require.ElementsMatch(t, historyScenarios, scenariosIn(t, version))
			for _, scenario := range historyScenarios {
				t.Run(scenario, func(t *testing.T) {
					runs, err := history.Load(filepath.Join(version, scenario+history.Suffix))
					require.NoError(t, err)
					require.NotEmpty(t, runs)
					for _, run := range runs {
						require.NoError(t, replay(run), "%s does not replay: %s", run.WorkflowID, notReplayed)
						run.RunID = "another-run" // like that of a reset run
						require.NoError(t, replay(run), "%s does not replay after a reset: %s", run.WorkflowID, notReplayed)
					}
				})
			}
		})
	}
}

func replay(run history.Run) error {
	return Replay(run, client.Options{DataConverter: temporal.DataConverter()})
}

func scenariosIn(t *testing.T, version string) []string {
	t.Helper()
	files, err := os.ReadDir(version)
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file.Name(), history.Suffix))
	}
	return names
}

// A replay must fail when one decision differs, or the replay of the histories proves nothing.
func TestAHistoryWithADifferentDecisionDoesNotReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/node-failed" + history.Suffix)
	require.NoError(t, err)
	runs, err := history.Load(files[0])
	require.NoError(t, err)
	for _, run := range runs {
		for _, event := range run.Events {
			if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil && scheduled.ActivityType.Name == "Drain" {
				scheduled.ActivityType.Name = "RunJob"
				require.Error(t, replay(run))
				return
			}
		}
	}
	t.Fatal("no history in which a node is drained")
}

// Lines of one logger share their first fields, and no others.
func TestALineOfTheLogHasItsOwnFields(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/node-failed" + history.Suffix)
	require.NoError(t, err)
	runs, err := history.Load(files[0])
	require.NoError(t, err)
	changes := 0
	for _, run := range runs {
		lines, err := Log(run, client.Options{DataConverter: temporal.DataConverter()})
		require.NoError(t, err)
		for _, line := range lines {
			changed := line.Message == "Node maintenance changed state"
			require.Equal(t, changed, slices.Contains(line.Fields, any("from")), "%s %v", line.Message, line.Fields)
			if changed {
				changes++
			}
		}
	}
	require.Positive(t, changes)
}

package workflows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// historyScenarios are what the corpus of every version must have; `make histories` records them.
var historyScenarios = []string{
	"whole-rollout", "plan-only", "cancelled", "timed-out-continue", "timed-out-abort", "killed-and-resumed", "node-failed",
	"policies", "manifest-works", "windows", "maintenance-window", "prepared", "onboarding", "harbor", "entities", "portals",
}

// notReplayed is what to do about a history that does not replay.
const notReplayed = "a decision of the workflow, or the name, order or input of an activity, has changed. After a release, keep the old decision with workflow.GetVersion; " +
	"before the first one, record the histories again with `make histories VERSION=v0.1.0`"

// Workflows that were started by an earlier version go on with this one: every decision in their histories must be made again.
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
						run.RunID = "another-run" // as that of a run that was reset
						require.NoError(t, replay(run), "%s does not replay after a reset: %s", run.WorkflowID, notReplayed)
					}
				})
			}
		})
	}
}

// replay replays a run as the workflow that it was: messages to it say to whom they are.
func replay(run history.Run) error {
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: temporal.DataConverter(), Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}},
	})
	if err != nil {
		return err
	}
	Register(replayer, false)
	return replayer.ReplayWorkflowHistoryWithOptions(nil, &historypb.History{Events: run.Events}, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: run.WorkflowID, RunID: run.RunID},
	})
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

// A replay that accepts anything would prove nothing: a history that misses one decision is refused.
func TestAHistoryThatTheWorkflowWouldNotMakeIsRefused(t *testing.T) {
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

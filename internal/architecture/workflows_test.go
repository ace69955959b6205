package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// ciWorkflows returns the text of each workflow of CI, by its file.
func ciWorkflows(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	workflows := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		workflows[file] = string(text)
	}
	return workflows
}

// The workflows of CI run what everyone runs: .ci/run, and targets of the Makefile.
func TestWorkflowsOfCIRunTargetsThatExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, target := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	for file, text := range ciWorkflows(t) {
		var workflow struct {
			Permissions map[string]string `json:"permissions"`
			Jobs        map[string]struct {
				Timeout  int `json:"timeout-minutes"`
				Strategy struct {
					Matrix struct {
						Target []string `json:"target"`
					} `json:"matrix"`
				} `json:"strategy"`
				Steps []struct {
					Run string `json:"run"`
				} `json:"steps"`
			} `json:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &workflow), file)
		require.Equal(t, map[string]string{"contents": "read"}, workflow.Permissions, "%s: jobs that need more say so", file)
		require.FileExists(t, filepath.Join(root, ".ci/run"))
		for name, job := range workflow.Jobs {
			require.Positive(t, job.Timeout, "%s: job %s", file, name)
			ran := job.Strategy.Matrix.Target
			all := ""
			for _, step := range job.Steps {
				all += step.Run + "\n"
				for _, command := range regexp.MustCompile(`(?m)^make ([a-z].*)`).FindAllStringSubmatch(step.Run, -1) {
					ran = append(ran, command[1])
				}
			}
			require.True(t, len(ran) > 0 || strings.Contains(all, ".ci/run"), "%s: job %s", file, name)
			for _, target := range ran {
				target, _, _ = strings.Cut(target, " ")
				require.True(t, targets[target], "%s: job %s: make %s", file, name, target)
			}
		}
	}
}

// A tag of an action can be moved to other code, which would run with the rights of the workflow.
func TestActionsArePinnedToCommits(t *testing.T) {
	for file, text := range ciWorkflows(t) {
		used := regexp.MustCompile(`(?m)\buses:.*`).FindAllString(text, -1)
		require.NotEmpty(t, used, file)
		for _, action := range used {
			require.Regexp(t, `^uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, action, "%s: pin it to a commit, and name its version in a comment", file)
		}
	}
}

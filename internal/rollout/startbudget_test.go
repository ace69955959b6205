package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestARunningClusterCountsAsAPossibleFailure(t *testing.T) {
	tests := []struct {
		name      string
		window    rollout.StartBudget
		free      int
		cautious  bool
		exhausted bool
	}{
		{"without a limit only the size counts", rollout.StartBudget{Size: 5, Running: 2, Failed: 100}, 3, false, false},
		{"no more clusters start than may fail", rollout.StartBudget{Size: 5, MaxFailures: 2}, 2, false, false},
		{"all running clusters could fail", rollout.StartBudget{Size: 5, Running: 2, MaxFailures: 2}, 0, true, false},
		{"a failure uses up the budget", rollout.StartBudget{Size: 5, MaxFailures: 2, Failed: 1}, 1, false, false},
		{"the last cluster that may fail is running", rollout.StartBudget{Size: 5, Running: 1, MaxFailures: 2, Failed: 1}, 0, true, false},
		{"at the limit of failures no cluster starts", rollout.StartBudget{Size: 5, MaxFailures: 2, Failed: 2}, 0, false, true},
		{"a full budget is not cautious", rollout.StartBudget{Size: 2, Running: 2, MaxFailures: 9}, 0, false, false},
		{"a reduced budget starts no cluster", rollout.StartBudget{Size: 1, Running: 2}, 0, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.free, test.window.Free())
			require.Equal(t, test.cautious, test.window.Cautious())
			require.Equal(t, test.exhausted, test.window.Exhausted())
		})
	}
}

func TestAPendingClusterSaysWhyItHasNotStarted(t *testing.T) {
	waits := map[string]rollout.StartBudget{
		"": {Size: 5, Running: 2},
		"MaxFailures: starts when a running cluster has succeeded: 1 running and 1 failed reach maxFailures (2) if all of them fail": {Size: 5, Running: 1, MaxFailures: 2, Failed: 1},
		"MaxConcurrency: starts when a running cluster has ended: at most 2 run at once":                                             {Size: 2, Running: 2, MaxFailures: 9},
	}
	for want, budget := range waits {
		reason, message := budget.PendingWait()
		require.Equal(t, want, strings.Trim(reason+": "+message, ": "))
	}
	reason, _ := rollout.StartBudget{Size: 5, MaxFailures: 2, Failed: 2}.PendingWait()
	require.Empty(t, reason, "it never starts")
}

// However clusters fail: no more fail than MaxFailures, no more run than Size, and only failures keep a cluster from starting.
func TestMaxFailuresIsNeverExceededAndNoClusterWaitsWithoutReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rollout.StartBudget{Size: rapid.IntRange(1, 6).Draw(t, "size"), MaxFailures: rapid.IntRange(0, 5).Draw(t, "max failures")}
		pending := rapid.IntRange(0, 30).Draw(t, "clusters")
		for pending+w.Running > 0 && !w.Exhausted() {
			start := min(w.Free(), pending)
			require.False(t, start == 0 && w.Running == 0, "no cluster is running, and none starts: %+v", w)
			pending, w.Running = pending-start, w.Running+start
			require.LessOrEqual(t, w.Running, w.Size)
			for range rapid.IntRange(1, w.Running).Draw(t, "end together") {
				w.Running--
				if rapid.Bool().Draw(t, "fails") {
					w.Failed++
				}
			}
			if w.MaxFailures > 0 {
				require.LessOrEqual(t, w.Failed, w.MaxFailures)
			}
		}
		if w.Exhausted() {
			require.Zero(t, w.Running, "every running cluster could fail as well")
		}
	})
}

func TestARollingRolloutMergesAllBatchesAfterTheCanaries(t *testing.T) {
	plan := [][]string{{"a"}, {"b"}, {"c", "d"}, {"e"}}
	strategy := ranv1.RemediationStrategy{Canaries: []string{"b", "a", "gone"}}
	require.Equal(t, 1, rollout.BatchGroupEnd(plan, strategy, 0))
	require.Equal(t, 3, rollout.BatchGroupEnd(plan, strategy, 2))
	strategy.Rollout = ranv1.Rolling
	require.Equal(t, []int{1, 2, 4}, []int{rollout.BatchGroupEnd(plan, strategy, 0), rollout.BatchGroupEnd(plan, strategy, 1), rollout.BatchGroupEnd(plan, strategy, 2)})
	strategy.Canaries = nil
	require.Equal(t, 4, rollout.BatchGroupEnd(plan, strategy, 0))
}

func TestEveryBatchRunsOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		strategy := d.cgu.Spec.RemediationStrategy
		strategy.Rollout = rapid.SampledFrom([]ranv1.RolloutMode{"", ranv1.Batched, ranv1.Rolling}).Draw(t, "rollout")
		plan := rollout.NewPlan(d.cgu, d.inventory, noon).RemediationPlan
		var started [][]string
		for next := 0; next < len(plan); {
			last := rollout.BatchGroupEnd(plan, strategy, next)
			require.Greater(t, last, next)
			if slices.ContainsFunc(plan[next], func(c string) bool { return slices.Contains(strategy.Canaries, c) }) {
				require.Equal(t, next+1, last, "a canary is alone")
			}
			started = append(started, plan[next:last]...)
			next = last
		}
		require.Equal(t, len(plan), len(started))
		require.Equal(t, slices.Concat(plan...), slices.Concat(started...))
	})
}

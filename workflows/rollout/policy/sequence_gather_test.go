package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A hundred clusters comply at different times. The last ones must not be reported late.
func TestExpectedChangesAreReportedSoon(t *testing.T) {
	var clusters []string
	takes := map[string]time.Duration{}
	for i := range policy.ClustersPerWatch {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
		takes[clusters[i]] = time.Duration(i+1) * time.Second
	}
	w := workflowtest.NewPolicyWorld(t, clusters)
	w.ComplyAfter = func(cluster string, _ int) time.Duration { return takes[cluster] }
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	gathers := w.GatherDurations()
	require.Greater(t, len(gathers), policy.ClustersPerWatch)
	require.Equal(t, policies.GatherPeriod(policy.ClustersPerWatch, 0, 0), slices.Max(gathers))
}

// The server terminates a run whose history is too long, and the rollout would end without a cleanup.
func TestChangesAreGatheredLongerInALongHistory(t *testing.T) {
	for name, use := range map[string]func(w *workflowtest.PolicyWorld){
		"many events":  func(w *workflowtest.PolicyWorld) { w.SetCurrentHistoryLength(kit.MaxEvents / 2) },
		"a large size": func(w *workflowtest.PolicyWorld) { w.SetCurrentHistorySize(kit.MaxBytes / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewPolicyWorld(t, []string{"c1"})
			use(w)
			w.Run()
			workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			require.Equal(t, policies.GatherPeriod(1, 0, 0.5), slices.Max(w.GatherDurations()))
		})
	}
}

package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestEachBatchIsApprovedWhenClustersAreDeferred(t *testing.T) {
	for name, test := range map[string]struct {
		offline string
		batches [][]string
		// before are the events of clusters before each approval.
		before [][]string
	}{
		"the catch-up batch gets the number of a batch that was approved": {
			"c2", [][]string{{"c1"}, {"c2"}}, [][]string{nil, {"+c1", "-c1"}, {"+c1", "-c1"}},
		},
		"the next batch gets the number of a batch that was approved": {
			"c1", [][]string{{"c1"}, {"c2"}}, [][]string{nil, nil, {"+c2", "-c2"}},
		},
		"no cluster of another batch takes a place in an approved one": {
			"c1", [][]string{{"c1", "c2"}, {"c3"}}, [][]string{nil, {"+c2", "-c2"}, {"+c2", "-c2", "+c3", "-c3"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := offlineWorld(t, []string{test.offline}, test.batches...)
			object := workflowtest.ARollout()
			object.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
			for i, before := range test.before {
				w.RegisterDelayedCallback(func() {
					require.True(t, workflowtest.AwaitsApproval(currentStatus(w)), "approval %d", i+1)
					require.Equal(t, before, clusters.Events, "approval %d", i+1)
					w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
				}, time.Duration(i+1)*time.Hour)
			}
			w.RegisterDelayedCallback(func() { w.ComeBack(test.offline) }, 150*time.Minute)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			workflowtest.RequireResult[workflowtest.GroupStatus](w)
			require.Equal(t, append(test.before[2], "+"+test.offline, "-"+test.offline), clusters.Events)
		})
	}
}

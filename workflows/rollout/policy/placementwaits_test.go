package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/workflowtest"
)

const missingBinding = "Placements in namespace policies cannot pick it: create the ManagedClusterSetBinding there for the set edge"

// unbindSet removes the ManagedClusterSetBinding of the set of c1, with which a Placement binds the policy network to it.
func unbindSet(w *workflowtest.PolicyWorld) {
	w.Change(func() {
		w.Unselectable = map[string]string{"c1": missingBinding}
		w.Compliance["c1"][1] = byte(policies.Unselected)
	})
}

func TestAClusterWaitsWhileItsSetIsNotBound(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.ComplyAfter = func(string, int) time.Duration { return 10 * time.Minute }
	w.RegisterDelayedCallback(func() { unbindSet(w) }, time.Minute)
	var during, after workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() {
		w.Change(func() {
			w.Unselectable = nil
			w.Compliance["c1"][1] = byte(policies.NonCompliant)
		})
	}, 6*time.Minute)
	w.RegisterDelayedCallback(func() { after = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 7*time.Minute)
	w.Run()

	waiting := workflowtest.StatusOfCluster(during, "c1")
	require.Equal(t, ranv1.ClusterRunning, waiting.State)
	require.Equal(t, ranv1.ReasonWaitingForPlacement, waiting.Reason)
	require.Equal(t, missingBinding, waiting.Message)
	require.Equal(t, "NonCompliant", workflowtest.StatusOfCluster(during, "c2").Reason)
	progressing := meta.FindStatusCondition(during.Conditions, ranv1.ConditionProgressing)
	require.Contains(t, progressing.Message, ranv1.ReasonWaitingForPlacement)
	require.Equal(t, "NonCompliant", workflowtest.StatusOfCluster(after, "c1").Reason, "the binding is back")
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, workflowtest.ClusterStates(status))
}

func TestAClusterWhoseSetIsNeverBoundTimesOutWithTheReason(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.ComplyAfter = func(cluster string, policy int) time.Duration {
		if cluster == "c1" {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { unbindSet(w) }, time.Minute)
	w.Run()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, workflowtest.ClusterStates(status))
	require.Contains(t, workflowtest.StatusOfCluster(status, "c1").Message, missingBinding)
	w.RequireNothingEnforced()
}

func TestWhatEnforcesAPolicyIsRestoredWhenAnotherUserChangesIt(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
	w.ComplyAfter = func(string, int) time.Duration { return 10 * time.Minute }
	restored := 0
	workflowtest.Simulate(w.World, "PlacePolicies", func(in policiesactivities.PlacePoliciesInput) any {
		placed := w.Place(in).(remediation.PlacementResult)
		for _, desired := range in.Desired {
			if desired.Displaced {
				w.Change(func() { w.Displaced = nil })
				placed.Recreated, placed.Restored = []string{"Placement policies/safe-kernel"}, []string{"PlacementBinding policies/safe-kernel"}
				restored++
			}
		}
		return placed
	})
	w.RegisterDelayedCallback(func() {
		w.Comply("c2", 0, policies.Pending) // so that a watch begins that knows that both are placed
		w.Change(func() { w.Displaced = map[string]bool{"c1": true} })
	}, time.Minute)
	var during workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 5*time.Minute)
	w.Run()
	require.Contains(t, workflowtest.StatusOfCluster(during, "c1").Message, "an object that enforces it was deleted or changed, and is restored")
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, []string{
		"Placement policies/safe-kernel had been deleted, and was created again",
		"PlacementBinding policies/safe-kernel had been changed by another user, and was restored",
	}, status.Notes)
	require.Equal(t, 1, restored)
}

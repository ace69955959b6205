package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	installplansactivities "drydock.dev/drydock/activities/installplans"
	viewsactivities "drydock.dev/drydock/activities/views"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/workflowtest"
)

// block lets approvals wait for an answer, or not.
func block(w *workflowtest.PolicyWorld, approvals bool) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Blocked["ApproveInstallPlans"] = approvals
}

// removed returns the clusters whose views and actions were removed, one list a call.
func removed(w *workflowtest.PolicyWorld) [][]string {
	var clusters [][]string
	for _, in := range w.InputsOf("RemoveViews") {
		clusters = append(clusters, in.(viewsactivities.RemoveViewsInput).Clusters)
	}
	return clusters
}

// Another attempt would approve on a cluster on which the policy is no longer enforced.
func TestAnApprovalInProgressEndsWithTheEnforcementOfItsPolicy(t *testing.T) {
	w := newPlansWorld(t, []string{"c1", "c2"})
	w.Plans["c1"] = pending("c1")
	block(w, true)
	after(w, time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	after(w, 90*time.Second, func() {
		require.Equal(t, [][]string{{"c1"}}, removed(w))
		block(w, false)
		w.SetPlans(pending("c2"))
	})
	after(w, 5*time.Minute, func() {
		require.Equal(t, []string{"c1", "c2"}, approved(w))
		w.Comply("c2", 0, policies.Compliant)
	})
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
}

func TestAnApprovalInProgressIsCancelledByAHoldAndByAPause(t *testing.T) {
	for name, stop := range workflowtest.Stops {
		t.Run(name, func(t *testing.T) {
			w := newPlansWorld(t, []string{"c1"})
			w.Plans["c1"] = pending("c1")
			block(w, true)
			after(w, time.Minute, func() { stop.Stop(w.World) })
			after(w, 2*time.Minute, func() {
				require.Equal(t, [][]string{{"c1"}}, removed(w))
				block(w, false)
			})
			after(w, 3*time.Minute, func() {
				require.Equal(t, []string{"c1"}, approved(w), "no other attempt")
				stop.Resume(w.World)
			})
			after(w, 4*time.Minute, func() {
				require.Equal(t, []string{"c1", "c1"}, approved(w))
				w.Comply("c1", 0, policies.Compliant)
			})
			w.Run()
			workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
		})
	}
}

// One activity must end in time, even if no cluster answers.
func TestManyInstallPlansAreApprovedInSeveralCalls(t *testing.T) {
	var clusters []string
	for i := range installplansactivities.MaxApprovals + 4 {
		clusters = append(clusters, fmt.Sprintf("c%02d", i))
	}
	w := newPlansWorld(t, clusters)
	for _, cluster := range clusters {
		w.Plans[cluster] = pending(cluster)
		after(w, time.Minute, func() { w.Comply(cluster, 0, policies.Compliant) })
	}
	w.Plan.ComputedMaxConcurrency = int32(len(clusters))
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, clusters, approved(w))
	for _, in := range w.InputsOf("ApproveInstallPlans") {
		require.LessOrEqual(t, len(in.(installplansactivities.ApproveInstallPlansInput).Approvals), installplansactivities.MaxApprovals)
	}
}

// The watch reports the same state again at once, to replace the message.
func TestAnActivityThatFailsIsRetriedAfterAGrowingPause(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Plans["c1"] = pending("c1")
	var calls []time.Time
	w.Fail["ApproveInstallPlans"] = func(call int) error {
		if calls = append(calls, w.Now()); call < 4 {
			return temporal.Error(temporal.ErrInvalidSpec, "the hub is odd", nil)
		}
		return nil
	}
	var failed ranv1.ClusterStatus
	after(w, time.Second, func() { failed = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] })
	after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Contains(t, failed.Message, "InstallPlans are not approved: the hub is odd")
	require.Len(t, calls, 4)
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second},
		[]time.Duration{calls[1].Sub(calls[0]).Round(time.Second), calls[2].Sub(calls[1]).Round(time.Second), calls[3].Sub(calls[2]).Round(time.Second)})
}

// Only they may be changed on the cluster by then.
func TestOnlyPoliciesUpToTheCurrentOneOfAClusterCount(t *testing.T) {
	w := newPlansWorld(t, []string{"c1", "c2"})
	w.Subscriptions = append(w.Subscriptions, []installplans.Requested{{Namespace: "ptp", Name: "sriov"}})
	w.Compliance["c2"], w.Plan.StartPolicyIndex["c2"] = []byte("-N"), 1
	after(w, 30*time.Second, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	earlier := map[string][]int{}
	for _, in := range w.InputsOf("AwaitInstallPlans") {
		for _, known := range in.(installplansactivities.AwaitInstallPlansInput).Clusters {
			earlier[fmt.Sprint(known.Cluster, " at policy ", known.Policy)] = known.Earlier
		}
	}
	require.Equal(t, map[string][]int{"c1 at policy 0": nil, "c1 at policy 1": {0}, "c2 at policy 1": nil}, earlier)
}

// An action that its agent has not begun stays in effect until it is removed.
func TestViewsOfAHeldClusterAreRemovedHoweverLongTheHubRefuses(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	began := w.Now()
	var removals []time.Duration
	workflowtest.Simulate(w.World, "RemoveViews", func(viewsactivities.RemoveViewsInput) any {
		removals = append(removals, w.Now().Sub(began))
		return nil
	})
	w.Fail["RemoveViews"] = func(int) error {
		if w.Now().Sub(began) < 30*time.Minute {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub is away", nil)
		}
		return nil
	}
	stop := workflowtest.Stops["held"]
	after(w, time.Minute, func() { stop.Stop(w.World) })
	after(w, time.Hour, func() {
		require.Len(t, removals, 1)
		require.Less(t, removals[0], 40*time.Minute)
		stop.Resume(w.World)
		w.SetPlans(pending("c1"))
	})
	after(w, time.Hour+time.Minute, func() {
		require.Equal(t, []string{"c1"}, approved(w))
		w.Comply("c1", 0, policies.Compliant)
	})
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
}

package policy_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	installplansactivities "drydock.dev/drydock/activities/installplans"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	viewsactivities "drydock.dev/drydock/activities/views"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/workflowtest"
)

// newPlansWorld plans a rollout whose first policy requires a Subscription. Clusters comply with it when the test says so.
func newPlansWorld(t *testing.T, batches ...[]string) *workflowtest.PolicyWorld {
	t.Helper()
	w := workflowtest.NewPolicyWorld(t, batches...)
	w.Subscriptions = [][]installplans.Requested{{{Namespace: "ptp", Name: "ptp"}}}
	w.ComplyAfter = func(_ string, policy int) time.Duration {
		if policy == 0 {
			return -1
		}
		return time.Minute
	}
	return w
}

func approval(cluster string) installplans.Approval {
	return installplans.Approval{Cluster: cluster, Subscription: "ptp/ptp", Namespace: "ptp", Plan: "install-abc", UID: "1"}
}

// pending is the state of a cluster whose InstallPlan waits for an approval.
func pending(cluster string) installplans.Cluster {
	return installplans.Cluster{Cluster: cluster, Message: "approving InstallPlan install-abc of Subscription ptp/ptp", Approvals: []installplans.Approval{approval(cluster)}}
}

// approved returns the clusters of the approvals, in order.
func approved(w *workflowtest.PolicyWorld) []string {
	var clusters []string
	for _, in := range w.InputsOf("ApproveInstallPlans") {
		for _, one := range in.(installplansactivities.ApproveInstallPlansInput).Approvals {
			clusters = append(clusters, one.Cluster)
		}
	}
	return clusters
}

// after runs steps of a test at times after the start.
func after(w *workflowtest.PolicyWorld, at time.Duration, step func()) {
	w.RegisterDelayedCallback(step, at)
}

func TestInstallPlansAreApprovedWhileTheirPolicyIsEnforced(t *testing.T) {
	w := newPlansWorld(t, []string{"c1", "c2"}, []string{"c3"})
	for _, cluster := range []string{"c1", "c2", "c3"} {
		w.Plans[cluster] = pending(cluster)
	}
	var waiting ranv1.ClusterStatus
	after(w, time.Minute, func() {
		require.ElementsMatch(t, []string{"c1", "c2"}, approved(w), "no cluster of a later batch")
		w.SetPlans(installplans.Cluster{Cluster: "c1", Message: "InstallPlan install-abc of Subscription ptp/ptp is approved, installing"})
		w.SetPlans(installplans.Cluster{Cluster: "c2"})
	})
	after(w, 2*time.Minute, func() {
		waiting = workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1")
	})
	for i, cluster := range []string{"c1", "c2"} {
		after(w, time.Duration(3+i)*time.Minute, func() { w.Comply(cluster, 0, policies.Compliant) })
	}
	after(w, 10*time.Minute, func() { w.Comply("c3", 0, policies.Compliant) })
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.EqualValues(t, 3, status.Counts.Complete)
	require.Equal(t, "NonCompliant", waiting.Reason)
	require.Equal(t, "waiting for the cluster to comply; InstallPlan install-abc of Subscription ptp/ptp is approved, installing", waiting.Message)
	require.ElementsMatch(t, []string{"c1", "c2", "c3"}, approved(w), "each once")
	woken := w.InputsOf("WakeSweeper")
	require.Len(t, woken, 1)
	require.Empty(t, woken[0].(sweeperactivities.WakeSweeperInput).Cluster, "the sweeper of the hub removes views and actions if the rollout is terminated")

	removed := map[string]bool{}
	all := w.InputsOf("RemoveViews")
	for _, in := range all {
		for _, cluster := range in.(viewsactivities.RemoveViewsInput).Clusters {
			removed[cluster] = true
		}
	}
	require.Equal(t, map[string]bool{"c1": true, "c2": true, "c3": true}, removed, "as soon as a cluster complies")
	require.Empty(t, all[len(all)-1].(viewsactivities.RemoveViewsInput).Clusters, "all that is left, at the end")
	for _, in := range w.InputsOf("AwaitInstallPlans") {
		for _, known := range in.(installplansactivities.AwaitInstallPlansInput).Clusters {
			require.Zero(t, known.Policy, "the other policy requires no Subscription")
		}
	}
}

func TestARolloutWithoutSubscriptionsWatchesNone(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	for _, name := range []string{"AwaitInstallPlans", "ApproveInstallPlans", "RemoveViews"} {
		require.NotContains(t, w.Called(), name)
	}
}

func TestNoInstallPlanIsApprovedWhileAClusterIsHeldOrPaused(t *testing.T) {
	for name, stop := range workflowtest.Stops {
		t.Run(name, func(t *testing.T) {
			w := newPlansWorld(t, []string{"c1"})
			after(w, time.Minute, func() { stop.Stop(w.World) })
			var stopped, resumed ranv1.ClusterStatus
			after(w, 2*time.Minute, func() {
				require.Len(t, w.InputsOf("RemoveViews"), 1, "an action that waits for its agent must not take effect now")
				w.SetPlans(pending("c1"))
			})
			after(w, 3*time.Minute, func() {
				stopped = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0]
				require.Empty(t, approved(w))
				stop.Resume(w.World)
			})
			after(w, 4*time.Minute, func() { resumed = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] })
			after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
			w.Run()
			workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			require.Contains(t, stopped.Message, "waiting for the cluster to comply; no InstallPlan is approved")
			require.Equal(t, "waiting for the cluster to comply; approving InstallPlan install-abc of Subscription ptp/ptp", resumed.Message)
			require.Equal(t, []string{"c1"}, approved(w))
		})
	}
}

// A watch that has failed pauses before it starts again.
func TestAHoldIsNotDelayedByAWatchThatFailed(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Fail["AwaitInstallPlans"] = workflowtest.Once(temporal.Error(temporal.ErrInvalidSpec, "the hub is odd", nil))
	after(w, 10*time.Second, func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1")) })
	after(w, 20*time.Second, func() {
		require.Len(t, w.InputsOf("RemoveViews"), 1)
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3))
	})
	after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
}

func TestACancelledRolloutRemovesItsViewsAndActions(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Plans["c1"] = pending("c1")
	after(w, time.Minute, func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) })
	w.Run()
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
	removals := removed(w)
	require.Equal(t, []string{"c1"}, removals[0])
	slices.SortFunc(removals, slices.Compare)
	require.Equal(t, [][]string{nil, {"c1"}}, slices.CompactFunc(removals, slices.Equal), "that of the cluster again, if the first is in progress when the cluster ends")
}

func TestAFailedApprovalIsRetriedAfterAGrowingPause(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Plans["c1"] = pending("c1")
	var calls []time.Time
	workflowtest.Simulate(w.World, "ApproveInstallPlans", func(in installplansactivities.ApproveInstallPlansInput) any {
		if calls = append(calls, w.Now()); len(calls) < 4 {
			return []installplansactivities.FailedApproval{{Approval: in.Approvals[0], Message: "the API server refuses it"}}
		}
		return nil
	})
	var failed ranv1.ClusterStatus
	after(w, time.Second, func() { failed = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] })
	after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Contains(t, failed.Message, "approving InstallPlan install-abc of Subscription ptp/ptp has failed and is retried: the API server refuses it")
	require.Len(t, calls, 4)
	require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second},
		[]time.Duration{calls[1].Sub(calls[0]).Round(time.Second), calls[2].Sub(calls[1]).Round(time.Second), calls[3].Sub(calls[2]).Round(time.Second)})
}

// An agent that refuses an action, such as one without rights, is asked again after a pause.
func TestAnActionThatFailedIsRetriedAfterAPause(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	failed := pending("c1")
	failed.Approvals[0].Failed = true
	w.Plans["c1"] = failed
	var began time.Time
	var calls []time.Duration
	workflowtest.Simulate(w.World, "ApproveInstallPlans", func(in installplansactivities.ApproveInstallPlansInput) any {
		calls = append(calls, w.Now().Sub(began).Round(time.Second))
		return nil
	})
	after(w, 0, func() { began = w.Now() })
	after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, []time.Duration{2 * time.Second}, calls)
}

// Clusters can comply without an approval: a person may have approved the InstallPlan.
func TestARolloutGoesOnIfInstallPlansCannotBeApproved(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Plans["c1"] = installplans.Cluster{Cluster: "c1", Message: "InstallPlans cannot be approved: the hub serves no ManagedClusterViews"}
	w.Fail["RemoveViews"] = func(int) error { return errors.New("the hub refuses it") }
	after(w, time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.EqualValues(t, 1, status.Counts.Complete)
	require.Contains(t, status.Notes[0], "ManagedClusterViews and ManagedClusterActions of the rollout could not be removed: the hub refuses it")
}

func TestAClusterThatJoinsLaterIsWatchedToo(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"}, []string{"c2"})
	w.Plan.ComputedMaxConcurrency = 2
	w.Plans["c2"] = pending("c2")
	after(w, time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	after(w, 5*time.Minute, func() {
		require.Equal(t, []string{"c2"}, approved(w))
		w.Comply("c2", 0, policies.Compliant)
	})
	w.Run(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Rollout = ranv1.Rolling })
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
}

func TestAWatchThatFailsIsNamedAndStartedAgain(t *testing.T) {
	w := newPlansWorld(t, []string{"c1"})
	w.Fail["AwaitInstallPlans"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrInvalidSpec, "the hub is odd", nil)
		}
		return nil
	}
	var failed, again ranv1.ClusterStatus
	after(w, 30*time.Second, func() { failed = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] })
	after(w, 2*time.Minute, func() { again = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] })
	after(w, 5*time.Minute, func() { w.Comply("c1", 0, policies.Compliant) })
	w.Run()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Contains(t, failed.Message, "its Subscriptions are not watched: the hub is odd")
	require.Equal(t, "waiting for the cluster to comply", again.Message)
}

package onboarding_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestEachNewClusterGetsARolloutOfItsPolicies(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.NewClusters["c1"], h.NewClusters["c2"] = []string{"first", "second"}, nil
	status := h.Onboard(time.Hour)

	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
	require.Len(t, h.Started, 2, "once each")
	require.ElementsMatch(t, []string{
		"New cluster found cluster=c1 policies=2",
		"New cluster found cluster=c2 policies=0",
		"Onboarding of a cluster started cluster=c1 rollout=ztp-install/c1",
		"Onboarding of a cluster started cluster=c2 rollout=ztp-install/c2",
		"Cluster onboarded cluster=c1",
		"Cluster onboarded cluster=c2",
	}, h.Log.Lines("cluster", "policies", "rollout"), "two clusters at the same time, in any order")
	for _, object := range h.Started {
		require.Equal(t, "ztp-install", object.Namespace)
		if object.Name == "c1" {
			require.Equal(t, []string{"first", "second"}, object.Spec.ManagedPolicies)
		}
	}
}

// The controller of such objects may start the rollout first.
func TestTheObjectOfANewClusterIsCreatedBeforeItsRolloutStarts(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Objects = true
	h.NewClusters["c1"] = []string{"first", "second"}
	h.Rollouts.Outcomes["c1"] = workflowtest.ClusterFails
	h.RegisterDelayedCallback(func() {
		require.Equal(t, []any{onboardingactivities.NewCluster{Name: "c1", Policies: []string{"first", "second"}}}, h.InputsOf("CreateObject"))
		require.Equal(t, &temporal.Object{Name: "c1", UID: "uid-of-c1"}, h.Sources[0])
		delete(h.Rollouts.Outcomes, "c1")
		require.Equal(t, []string{"c1"}, h.WaitsFor().Objects, "its deletion retries the onboarding")
		h.Change(func() { h.Settled = []string{"c1"} })
	}, time.Hour)
	require.Equal(t, 1, h.Onboard(2*time.Hour).Onboarded)
	require.Len(t, h.InputsOf("CreateObject"), 2)
}

// The hub refuses the object for a while, as without a role of the worker. Another cluster and the next run are not held up.
func TestAnObjectThatIsRefusedDelaysOnlyItsCluster(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Objects = true
	refused := true
	h.Fail["CreateObject"] = func(int) error {
		if refused {
			return temporal.Error(temporal.ErrForbidden, "it may not create ClusterGroupUpgrades", nil)
		}
		return nil
	}
	h.Available("c1")
	h.RegisterDelayedCallback(func() {
		cluster := workflowtest.StatusOf[onboarding.Status](h.World).Clusters[0]
		require.Equal(t, onboarding.Running, cluster.State)
		require.Equal(t, "create the object of c1: it may not create ClusterGroupUpgrades", cluster.Message)
		refused = false
	}, time.Hour)
	status := h.Onboard(3 * time.Hour)
	require.Equal(t, 1, status.Onboarded)
	require.Len(t, h.Started, 1)
}

func TestAnEndThatTheObjectShowsCounts(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Objects = true
	h.Available("c1")
	h.Rollouts.Outcomes["c1"] = func(workflow.Context) error { return sdktemporal.NewCanceledError() }
	workflowtest.Simulate(h.World, "ReadEnd", func(of temporal.Object) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		delete(h.NewClusters, of.Name) // its rollout has labelled it
		return onboardingactivities.RolloutEnd{Succeeded: of.UID == "uid-of-c1"}
	})
	require.Equal(t, 1, h.Onboard(time.Hour).Onboarded, "a controller rolled it out first")
}

func TestAClusterWithoutItsLabelIsOnboardedAgain(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Available("c1")
	h.RegisterDelayedCallback(func() { h.Available("c1") }, time.Hour)
	h.RegisterDelayedCallback(func() { h.Available("c2") }, 2*time.Hour)
	require.Equal(t, 3, h.Onboard(3*time.Hour).Onboarded)
}

func TestAFailedOnboardingIsReportedAndRetriedOnlyAfterAChange(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Available("c1", "c2")
	h.Rollouts.Outcomes["c1"] = workflowtest.ClusterFails
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[onboarding.Status](h.World)
		require.Equal(t, 1, status.Onboarded)
		require.Len(t, status.Clusters, 1)
		require.Equal(t, onboarding.Failed, status.Clusters[0].State)
		require.Equal(t, "JobFailed: node w0: exit code 3", status.Clusters[0].Reason+": "+status.Clusters[0].Message)
		require.Len(t, h.Started, 2)
		delete(h.Rollouts.Outcomes, "c1")
		h.Change(func() { h.Settled = []string{"c1"} })
	}, time.Hour)
	status := h.Onboard(2 * time.Hour)
	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
}

func TestAClusterWhosePoliciesCannotBeOrderedFails(t *testing.T) {
	w := workflowtest.NewWorld(t)
	found := false
	workflowtest.SimulateConcurrent(w, "AwaitNewClusters", func(onboardingactivities.AwaitNewClustersInput) (any, bool) {
		first := !found
		found = true
		return onboardingactivities.NewClusters{Found: []onboardingactivities.NewCluster{{Name: "c1", Problem: "policy p: no whole number"}}}, first
	})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) }, time.Hour)
	w.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{})
	status := workflowtest.RequireCancelled[onboarding.Status](w)
	require.Equal(t, "policy p: no whole number", status.Clusters[0].Message)
	require.Equal(t, "stopped by ann", status.Message)
}

func TestConcurrentOnboardingsAreLimited(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	for i := range onboarding.MaxRunning + 50 {
		h.Available(fmt.Sprintf("c%03d", i))
	}
	status := h.Onboard(24 * time.Hour)
	require.Equal(t, onboarding.MaxRunning+50, status.Onboarded)
	require.Equal(t, onboarding.MaxRunning, h.Rollouts.MostRunning)
	require.Len(t, h.Started, onboarding.MaxRunning+50)
}

func TestARunningRolloutOfANewClusterIsAwaited(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AwaitRollout", func(onboardingactivities.RolloutRun) any {
		return onboardingactivities.RolloutEnd{Reason: "TimedOut", Message: "too long"}
	})
	workflowtest.SimulateConcurrent(w, "AwaitNewClusters", func(onboardingactivities.AwaitNewClustersInput) (any, bool) { return nil, false })
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	carried := &onboarding.Status{Onboarded: 7, Clusters: []onboarding.Cluster{{Name: "c1", State: onboarding.Running, RunID: "run-1"}}}
	w.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{Carried: carried})
	status := workflowtest.RequireCancelled[onboarding.Status](w)
	require.Equal(t, []any{onboardingactivities.RolloutRun{Namespace: "ztp-install", Name: "c1", RunID: "run-1"}}, w.InputsOf("AwaitRollout"))
	require.Equal(t, onboarding.Failed, status.Clusters[0].State, "a run follows the rollouts of the run before")
	require.Equal(t, 7, status.Onboarded)
}

func TestAnUnreachableHubIsReportedAndRetried(t *testing.T) {
	unreachable := true
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AwaitNewClusters", func(onboardingactivities.AwaitNewClustersInput) any { return onboardingactivities.NewClusters{} })
	w.Fail["AwaitNewClusters"] = func(int) error {
		if unreachable {
			return temporal.Error(temporal.ErrNotFound, "there is no hub", errors.New("x"))
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "there is no hub", workflowtest.StatusOf[onboarding.Status](w).Wait.Message)
		unreachable = false
		w.Blocked["AwaitNewClusters"] = true
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, workflowtest.StatusOf[onboarding.Status](w).Wait)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Minute)
	w.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{})
	workflowtest.RequireCancelled[onboarding.Status](w)
}

// The attempt that reaches the hub again waits without a report. A restarted watch no longer reports the outage.
func TestTheNextWatchDoesNotReportAnEndedOutage(t *testing.T) {
	w := workflowtest.NewWorld(t)
	unreachable := true
	workflowtest.Simulate(w, "AwaitNewClusters", func(onboardingactivities.AwaitNewClustersInput) any { return onboardingactivities.NewClusters{} })
	w.Fail["AwaitNewClusters"] = func(int) error {
		if unreachable {
			return temporal.Error(temporal.ErrClusterUnreachable, "its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, workflowtest.StatusOf[onboarding.Status](w).Wait.Reason)
		unreachable = false
		w.Blocked["AwaitNewClusters"] = true
	}, 2*time.Minute)
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(temporal.UpdateRetry, "again", &testsuite.TestUpdateCallback{
			OnAccept:   func() {},
			OnReject:   func(err error) { require.NoError(t, err) },
			OnComplete: func(_ any, err error) { require.NoError(t, err) },
		}, onboarding.Retry{Clusters: []string{"c1"}})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, workflowtest.StatusOf[onboarding.Status](w).Wait)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{Carried: &onboarding.Status{Clusters: []onboarding.Cluster{{Name: "c1", State: onboarding.Failed}}}})
	workflowtest.RequireCancelled[onboarding.Status](w)
}

func TestAFailedClusterIsOnboardedAgainOnRequest(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.Available("c1", "c2")
	h.Rollouts.Outcomes["c1"] = workflowtest.ClusterFails
	var refused []error
	h.RegisterDelayedCallback(func() {
		delete(h.Rollouts.Outcomes, "c1")
		for _, clusters := range [][]string{{}, {"c1", "c2", "c3"}, {"c1"}} {
			h.UpdateWorkflow(temporal.UpdateRetry, fmt.Sprint(clusters), &testsuite.TestUpdateCallback{
				OnAccept:   func() {},
				OnReject:   func(err error) { refused = append(refused, err) },
				OnComplete: func(_ any, err error) { require.NoError(t, err) },
			}, onboarding.Retry{Actor: "ann", Reason: "the link is back", Clusters: clusters})
		}
	}, time.Hour)
	var message string
	h.RegisterDelayedCallback(func() { message = workflowtest.StatusOf[onboarding.Status](h.World).Message }, 90*time.Minute)
	status := h.Onboard(2 * time.Hour)
	require.Equal(t, "retried by ann: the link is back", message)
	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
	require.Len(t, h.Started, 3)
	require.Len(t, refused, 2)
	require.ErrorContains(t, refused[0], "clusters: name at least one")
	require.ErrorContains(t, refused[1], "clusters: not among those that failed: c2, c3")
}

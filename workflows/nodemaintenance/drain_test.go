package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestATimedOutDrainFailsWithItsBlockersAndReturnsTheNode(t *testing.T) {
	blocker := drydockv1.Blocker{Kind: "Pod", Namespace: "shop", Name: "web-1", Reason: "DisruptionBudget"}
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil, blocker))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, maintenancev1.NodeFailed, status.State)
	require.Equal(t, []drydockv1.Blocker{blocker}, status.Failure.Blockers)
	require.Equal(t, "drain n1: 1 pod blocked", status.Failure.Message)
	require.NotContains(t, w.Called(), "RunJob")
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.False(t, returned.KeepCordoned)
	require.True(t, returned.Withdraw, "its lock request is withdrawn")
	require.Contains(t, w.Called(), "AwaitNodeLocksActive")
	require.True(t, w.Scheduler.State.Empty(), "its slot is released")
}

func TestATimedOutDrainIsRetriedIfConfigured(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Once(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	first, second := w.Inputs["Drain"][0].(drain.Input), w.Inputs["Drain"][1].(drain.Input)
	require.Equal(t, int32(2), second.Attempt)
	require.False(t, second.Deadline.Before(*first.Deadline))
	require.Contains(t, status.Notes, "draining again: drain n1: 1 pod blocked")
}

func TestARetriedDrainContinuesItsProgress(t *testing.T) {
	w := workflowtest.NewWorld(t)
	reached := &maintenancev1.DrainStatus{EvictionPods: 5, Evicted: 2}
	w.Fail["Drain"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: reached})
			return temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 3 pods blocked", nil)
		}
		return nil
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, reached, w.Inputs["Drain"][1].(drain.Input).Before)
}

func TestEndlessDrainRetriesKeepTheHistorySmall(t *testing.T) {
	const attempts, reports = 30, 3
	w := workflowtest.NewWorld(t)
	begin := w.Now()
	w.Fail["Drain"] = func(call int) error {
		if call > attempts {
			return nil
		}
		for range reports {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{EvictionPods: 1}})
		}
		return temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil)
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.DrainSpec.TimeoutSeconds = ptr(int32(1))
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	want := time.Second
	for i, input := range w.Inputs["Drain"] {
		drain := input.(drain.Input)
		require.WithinDuration(t, begin.Add(want), *drain.Deadline, 30*time.Second, "attempt %d", i+1)
		require.Equal(t, i*reports, drain.Reports, "attempt %d keeps the count of reports", i+1)
		want = min(2*want, 24*time.Hour)
	}
}

func TestATimeoutOfMoreThanADayIsAllowed(t *testing.T) {
	require.Equal(t, int32(200_000), nodemaintenance.DrainTimeout(maintenancev1.DrainSpec{TimeoutSeconds: ptr(int32(200_000))}, 9))
}

func TestTheDrainTimeoutDefaultsToFiveMinutesAndZeroMeansNone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout *int32
		want    *time.Duration
	}{
		{"absent: 300 seconds", nil, ptr(300 * time.Second)},
		{"given", ptr(int32(7)), ptr(7 * time.Second)},
		{"0: no limit", ptr(int32(0)), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			in := workflowtest.FullMaintenance()
			in.Object.Spec.DrainSpec.TimeoutSeconds = tc.timeout
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			deadline := w.Inputs["Drain"][0].(drain.Input).Deadline
			if tc.want == nil {
				require.Nil(t, deadline)
				return
			}
			require.WithinDuration(t, start.Add(*tc.want), *deadline, time.Second)
		})
	}
}

func TestADeadlineAppliesWhileTheClusterIsUnreachable(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, 3*time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Contains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut).Failure.Message, "connection refused")
	require.WithinDuration(t, start.Add(5*time.Minute+kit.DeadlineGrace), w.Now(), 2*time.Minute)
}

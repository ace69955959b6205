package clusterupgrade_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A request whose attempts failed, or that was deleted, is not repeated while the cluster is held or the rollout is paused.
func TestTheLocksOfAHeldOrPausedClusterAreNotRequested(t *testing.T) {
	const request, await = "RequestClusterMaintenance", "AwaitClusterLocks"
	unreachable := temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	for name, test := range map[string]struct {
		step  string
		after int
		err   error
	}{
		"between rounds":     {request, kit.RoundAttempts, unreachable},
		"during a round":     {request, 1, temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)},
		"after its deletion": {await, 1, temporal.Error(temporal.ErrLockRefused, "maintenance request drydock-1234 was deleted by another client", nil)},
	} {
		for _, by := range []string{emergency.ReasonHeld, policy.ReasonPaused} {
			t.Run(name+", "+by, func(t *testing.T) {
				w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
				hold, release := func() { w.SignalWorkflow(temporal.SignalPause, nil) }, func() { w.SignalWorkflow(temporal.SignalResume, nil) }
				if by == emergency.ReasonHeld {
					hold = func() {
						w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
					} // in the task of the result
					release = func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3)) }
				}
				w.Fail[test.step] = func(call int) error {
					if call == test.after {
						hold()
					}
					if call <= test.after {
						return test.err
					}
					return nil
				}
				attempts := test.after
				if test.step == await {
					attempts = 1
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, w.InputsOf(request), attempts)
					status := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w)
					require.Equal(t, by, status.Wait.Reason)
					require.Equal(t, ranv1.StepClusterLocks, status.Step)
				}, 99*time.Hour)
				w.RegisterDelayedCallback(release, 100*time.Hour)
				in := workflowtest.OneCluster()
				in.Remediation.LockTimeoutSeconds = new(int32(60))
				start := w.Now()
				w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
				require.Equal(t, ranv1.ClusterComplete, workflowtest.RequireResult[ranv1.ClusterStatus](w).State)
				require.Len(t, w.InputsOf(request), attempts+1)
				awaits := w.InputsOf(await)
				last := awaits[len(awaits)-1].(locks.ClusterLockInput)
				require.True(t, last.Deadline.After(start.Add(100*time.Hour)), "the locks have their full time")
				require.Len(t, nodes.Events, 2)
			})
		}
	}
}

func TestADeletedRequestDoesNotExtendTheDeadlineOfTheLocks(t *testing.T) {
	w, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
	w.Fail["AwaitClusterLocks"] = func(call int) error {
		if call <= 4 {
			return temporal.Error(temporal.ErrLockRefused, "maintenance request drydock-1234 was deleted by another client", nil)
		}
		return nil
	}
	in := workflowtest.OneCluster()
	in.Remediation.LockTimeoutSeconds = new(int32(3600))
	reported := false
	w.When(func() bool {
		wait := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Wait
		return wait != nil && wait.Reason == temporal.ErrLockRefused && wait.Message == "maintenance request drydock-1234 was deleted by another client"
	}, func() { reported = true })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	require.Equal(t, ranv1.ClusterComplete, workflowtest.RequireResult[ranv1.ClusterStatus](w).State)
	awaits := w.InputsOf("AwaitClusterLocks")
	require.True(t, reported)
	require.Len(t, awaits, 5)
	first := awaits[0].(locks.ClusterLockInput).Deadline
	for _, again := range awaits[1:] {
		require.True(t, first.Equal(*again.(locks.ClusterLockInput).Deadline))
	}
}

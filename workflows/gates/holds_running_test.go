package gates_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/drain"
	jobsactivities "drydock.dev/drydock/activities/jobs"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A step whose attempts all failed has not started, and does not start while the cluster is held.
func TestAStepWhoseAttemptsFailedWaitsWhileHeld(t *testing.T) {
	for _, step := range []string{"AcquireNode", "Cordon", "Drain", "RunJob"} {
		for name, held := range map[string]struct {
			after int
			err   error
		}{
			"between rounds": {kit.RoundAttempts, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)},
			"during a round": {1, temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)},
		} {
			if step == "RunJob" && held.after == kit.RoundAttempts {
				continue // the Job may be running
			}
			t.Run(step+" "+name, func(t *testing.T) {
				w := workflowtest.NewWorld(t)
				w.Locked = true
				w.Fail[step] = func(call int) error {
					if call == held.after {
						w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
					}
					if call <= held.after {
						return held.err
					}
					return nil
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, w.InputsOf(step), held.after)
					requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
				}, 99*time.Hour)
				w.ReleaseAfter(100*time.Hour, 3)
				w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

				require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
				inputs := w.InputsOf(step)
				require.Len(t, inputs, held.after+1)
				if drain, ok := inputs[held.after].(drain.Input); ok {
					require.Equal(t, int32(1), drain.Attempt)
					require.True(t, drain.Deadline.After(w.Now()), "it has its full time")
				}
			})
		}
	}
}

// unseenJob fails the attempts to create a Job without an answer until its cluster is held. Later attempts end with those errors in order.
func unseenJob(w *workflowtest.World, ends ...error) nodemaintenance.Input {
	w.Fail["RunJob"] = func(call int) error {
		if call == kit.RoundAttempts {
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return ends[min(call-kit.RoundAttempts, len(ends))-1]
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.Action.Job.TimeoutSeconds = 3600
	return in
}

func TestARunningJobWhoseCreationWasNotReportedIsWatchedWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, unseenJob(w, nil))
	require.Equal(t, "ann", workflowtest.RequireResult[workflowtest.NodeStatus](w).Held.By, "it finishes and returns its node before the release")
	first, second := w.Inputs["RunJob"][0].(jobsactivities.RunJobInput), w.Inputs["RunJob"][kit.RoundAttempts].(jobsactivities.RunJobInput)
	require.Nil(t, first.Held)
	require.Equal(t, "ann", second.Held.By, "the attempt must not create it")
	require.Equal(t, first.Deadline, second.Deadline)
	require.WithinDuration(t, start, w.Now(), 10*time.Minute)
}

func TestAJobThatWasNotCreatedBeforeTheHoldHasItsFullTimeAfterTheRelease(t *testing.T) {
	unanswered := temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	for name, ends := range map[string][]error{
		"the cluster answers":         {temporal.Error(temporal.ErrHeld, "there is no job", nil), nil},
		"the cluster does not answer": {unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			in := unseenJob(w, ends...)
			w.RegisterDelayedCallback(func() {
				require.Less(t, len(w.InputsOf("RunJob")), 500)
				requireHeldWait(t, workflowtest.StatusOf[workflowtest.NodeStatus](w))
				w.Fail["RunJob"] = nil
			}, 99*time.Hour)
			w.ReleaseAfter(100*time.Hour, 3)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			jobs := w.Inputs["RunJob"]
			last := jobs[len(jobs)-1].(jobsactivities.RunJobInput)
			require.Nil(t, last.Held)
			require.WithinDuration(t, start.Add(101*time.Hour), *last.Deadline, time.Minute)
		})
	}
}

func TestARunningDrainContinuesWhileHeld(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{Evicted: 1}})
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { require.Len(t, w.InputsOf("Drain"), kit.RoundAttempts+1) }, time.Hour)
	w.ReleaseAfter(2*time.Hour, 3)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestANodeMayBeCordonedAfterAnUnansweredAttempt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["AcquireNode"] = func(call int) error {
		if call == 1 {
			return errors.New("the answer was lost")
		}
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
		return temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)
	}
	w.Fail["ReturnNode"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "refused", nil))
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
}

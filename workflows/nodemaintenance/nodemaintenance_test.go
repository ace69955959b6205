package nodemaintenance_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAMaintenanceRunsItsStepsInOrder(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AwaitNodeLocks", "Cordon", "AwaitPodCompletion", "Drain", "RunJob",
		"AwaitNodeHealthy", "ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance",
	}, w.Called())
	require.Nil(t, w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput).Deadline, "for as long as it takes")
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.Equal(t, w.Inputs["RunJob"][0].(jobs.RunJobInput).Job, returned.FinishedJob.Job, "the job has done its work")
	require.True(t, returned.Withdraw)
	require.Equal(t, []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon, maintenancev1.NodeWaitForPodCompletion,
		maintenancev1.NodeDraining, maintenancev1.NodeReady, maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp, maintenancev1.NodeCompleted,
	}, workflowtest.States(status))
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
		require.NotNil(t, stage.FinishedAt, stage.Stage)
	}
	require.Nil(t, status.Wait)
}

func TestAnInvalidRequestChangesNothing(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["CheckNodeMaintenance"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "spec.drainSpec.podSelector: cannot be read", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"CheckNodeMaintenance"}, w.Called())
}

// A field that no version knows, say: it is refused, and not dropped.
func TestARequestIsValidatedBeforeDefaults(t *testing.T) {
	var in nodemaintenance.Input
	const object = `{"spec": {"requestorID": "ops.example.com", "drainSpecs": {}}}`
	require.NoError(t, json.Unmarshal([]byte(`{"cluster": "c1", "object": `+object+`}`), &in))
	require.Equal(t, "c1", in.Cluster)
	require.Equal(t, "ops.example.com", in.Object.Spec.RequestorID)
	require.JSONEq(t, object, string(in.Written))

	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	written, err := json.Marshal(workflowtest.FullMaintenance().Object)
	require.NoError(t, err)
	require.JSONEq(t, string(written), string(w.Inputs["CheckNodeMaintenance"][0].(json.RawMessage)))
}

func TestAClusterWithoutLocksGetsNoLockRequest(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AwaitNodeLocks")
	require.NotContains(t, w.Called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.Called(), "Cordon", "it was taken at once")
}

func TestANodeWithoutLocksNeedsNoWait(t *testing.T) {
	w := workflowtest.NewWorld(t)
	none := locks.NodeLocks{Asked: true, Inactive: true, Active: true}
	workflowtest.Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		return node.AcquireNodeResult{Locks: none, Cordon: &node.CordonResult{CordonedByUs: true, Note: "somebody had been there"}}
	})
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{Locks: none} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AwaitNodeLocks")
	require.NotContains(t, w.Called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.Called(), "Cordon")
	require.True(t, status.CordonedByUs)
	require.Contains(t, status.Notes, "somebody had been there")
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
	}
}

func TestOptionalStepsAreSkipped(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.WaitForPodCompletion, in.Object.Spec.DrainSpec = nil, nil
	in.Object.Spec.Cordon = new(bool)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AnnounceState", "AwaitNodeHealthy", "ReturnNode",
	}, w.Called())
	require.False(t, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).Cordon)
}

func TestACancelInAnyStepUndoesTheCompletedSteps(t *testing.T) {
	returned := []string{"ReturnNode"}
	relocked := append(slices.Clone(returned), "AwaitNodeLocksActive", "WithdrawClusterMaintenance")
	for _, tc := range []struct {
		step string
		undo []string
	}{
		{"PlanMaintenance", returned},
		{"AwaitNodeLocks", relocked},
		{"AwaitPodCompletion", relocked},
		{"Drain", relocked},
		{"RunJob", append([]string{"RemoveJob"}, relocked...)},
		{"AwaitNodeHealthy", relocked},
	} {
		for _, by := range []string{"signal", "Temporal"} {
			t.Run(tc.step+" by "+by, func(t *testing.T) {
				w := workflowtest.NewWorld(t)
				w.Locked = true
				w.Blocked[tc.step] = true
				w.RegisterDelayedCallback(func() {
					if by == "signal" {
						w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
					} else {
						w.CancelWorkflow()
					}
				}, time.Minute)
				w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

				status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				called := w.Called()
				require.Equal(t, tc.undo, called[slices.Index(called, tc.step)+1:])
				require.True(t, w.Scheduler.State.Empty(), "its slot is free")
			})
		}
	}
}

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
	require.True(t, returned.Withdraw, "its locks are not kept waiting")
	require.Contains(t, w.Called(), "AwaitNodeLocksActive")
	require.True(t, w.Scheduler.State.Empty(), "its slot is free")
}

func TestAFailedNodeStaysCordonedIfConfigured(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "", nil))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
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
	reached := &maintenancev1.DrainStatus{PodsToEvict: 5, Evicted: 2}
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
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{PodsToEvict: 1}})
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
		require.Equal(t, i*reports, drain.Reports, "reports do not begin anew with attempt %d", i+1)
		want = min(2*want, 24*time.Hour)
	}
}

func TestATimeoutOfMoreThanADayIsKept(t *testing.T) {
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

func TestTheRequestorKeepsTheNodeUntilDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State)
		require.Equal(t, "AwaitingRequestor", status.Wait.Reason)
		require.True(t, status.HandedOver)
		require.NotContains(t, w.Called(), "ReturnNode")
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Actor: "driver"})
	}, 24*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.False(t, status.HandedOver)
}

func TestANodeIsNotReadyWhileAJobRuns(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.False(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).HandedOver)
	}, func() {
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Requestor: "gpu.example.com", Actor: "kim"})
	}, w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "done was sent for gpu.example.com by kim: the node is kept for ops.example.com")
}

func TestANodeWithoutRequestorWorkIsReturnedAtOnce(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Contains(t, workflowtest.States(workflowtest.RequireResult[workflowtest.NodeStatus](w)), maintenancev1.NodeReady)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestAFailedNodeIsKeptUntilItRecovers(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, status.State)
		require.Contains(t, status.Wait.Message, "no firmware")
		w.SignalWorkflow(temporal.SignalRecover, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeReady, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		w.SignalWorkflow(temporal.SignalDone, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestAFailedJobKeepsTheNodeUntilACancel(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3; the end of its log:\nno firmware", nil))
	w.EachMinute(func() {
		held := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, held.State)
		require.Contains(t, held.Failure.Message, "no firmware")
		require.Contains(t, held.Wait.Message, "exit code 3; the node is held")
		require.NotContains(t, held.Wait.Message, "no firmware", "the log is shown once")
	}, w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.Equal(t, maintenancev1.NodeFailed, status.State)
	require.NotContains(t, w.Called(), "AwaitNodeHealthy")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestAManuallyFixedJobFailureCompletes(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, temporal.SignalRequest{Actor: "ann"})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Nil(t, status.Failure)
	require.Contains(t, w.Called(), "AwaitNodeHealthy")
}

func TestAFailedJobOfARolloutReturnsTheNodeAtOnce(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3", nil))
	in := workflowtest.FullMaintenance()
	in.Parent = "cgu/ops/june/c1"
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.NotContains(t, workflowtest.States(status), maintenancev1.NodeRequestorFailed)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestANodeIsLeftToTheSweeperIfItsJobCannotBeRemoved(t *testing.T) {
	for _, cordon := range []bool{true, false} {
		w := workflowtest.NewWorld(t)
		w.Locked = true
		w.Blocked["RunJob"] = true
		w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x", nil))
		workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
		in := workflowtest.FullMaintenance()
		in.Object.Spec.Cordon = &cordon
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

		status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, jobs.ReasonJobStopping)
		require.Equal(t, maintenancev1.NodeFailed, status.State)
		kept := "the node is kept out of service until its job is gone: job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x"
		require.Equal(t, kept, status.Failure.Message)
		require.Contains(t, status.Notes, kept+"; workflow sweeper/c1 returns it then")
		require.Equal(t, cordon, status.LeftCordoned)
		called := w.Called()
		require.NotContains(t, called[slices.Index(called, "RemoveJob"):], "ReturnNode", "firmware may be in the midst of being written")
		require.NotContains(t, called, "WithdrawNodeMaintenance", "its locks must not take the node back")
		require.NotContains(t, called, "WithdrawClusterMaintenance")
		require.Equal(t, maintenancev1.NodeFailed, w.Inputs["AnnounceState"][0].(node.AnnounceStateInput).State)
		require.True(t, status.NotReturned)
		released := []scheduling.Release{{Number: 1, Unclean: true, LeftOut: cordon}}
		require.Equal(t, released, w.Scheduler.LastSet().Releases, "its mark holds the node")
	}
}

func TestANodeToKeepOnFailureIsMarked(t *testing.T) {
	for _, locked := range []bool{false, true} {
		for onFailure, keep := range map[maintenancev1.FailureAction]bool{maintenancev1.FailureUncordon: false, maintenancev1.FailureKeepCordoned: true} {
			w := workflowtest.NewWorld(t)
			w.Locked, w.Blocked["RunJob"] = locked, true
			w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil))
			workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalCancel, nil)
			in := workflowtest.FullMaintenance()
			in.Object.Spec.OnFailure = onFailure
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

			status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, jobs.ReasonJobStopping)
			require.Equal(t, keep, w.Inputs["AcquireNode"][0].(node.AcquireNodeInput).KeepOnFailure)
			if locked {
				require.Equal(t, keep, w.Inputs["Cordon"][0].(node.CordonInput).KeepOnFailure)
			}
			require.Equal(t, keep, strings.HasSuffix(status.Notes[len(status.Notes)-1], "leaves it cordoned, as onFailure asks"), status.Notes)
		}
	}
}

func TestANodeKeptForItsJobReportsTheFailureFirst(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: it was not complete in time", nil))
	w.Fail["RemoveJob"] = workflowtest.Always(temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil))
	workflowtest.SignalWhen(w, func(s workflowtest.NodeStatus) bool { return s.Failure != nil }, temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.True(t, status.LeftCordoned)
	require.NotContains(t, w.Called(), "ReturnNode")
}

func TestDoneDuringAJobDoesNotHideItsFailure(t *testing.T) {
	w := workflowtest.NewWorld(t)
	release := make(chan struct{})
	w.Fail["RunJob"] = func(int) error {
		<-release
		return temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil)
	}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "RunJob" {
			w.SignalWorkflow(temporal.SignalDone, nil)
			close(release)
		}
	})
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Contains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed).Notes, "done was sent, but a Job is running: nothing done")
}

func TestARepeatedDoneHasNoEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitNodeHealthy"] = true
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeHealthChecks), temporal.SignalDone, nil)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeHealthChecks, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		w.CancelWorkflow()
	}, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestACancelAfterAFailureEndsAsAFailure(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Contains(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, "RequestorFailed").Failure.Message, "no firmware")
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
}

func TestRecoverAfterTheReturnHasNoEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	w.Fail["AwaitNodeHealthy"] = workflowtest.Always(temporal.Error(temporal.ErrHealthGateFailed, "node n1 is not ready", nil))
	w.Fail["ReturnNode"] = func(call int) error {
		if call <= 2*kit.RoundAttempts {
			return errors.New("not yet")
		}
		return nil
	}
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, nil)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeCleaningUp), temporal.SignalRecover, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrHealthGateFailed)
}

func TestACancelSucceedsWhileTheClusterIsUnreachable(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
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

func TestTheWaitForPodsTimesOutWhileTheClusterIsUnreachable(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	in := workflowtest.FullMaintenance()
	in.Object.Spec.WaitForPodCompletion.TimeoutSeconds = 3600
	w.Fail["AwaitPodCompletion"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeWaitForPodCompletion
	}, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitPodCompletion", Pods: []string{"ml/train-1"}})
	})
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeDraining
	}, func() {
		require.WithinDuration(t, start.Add(time.Hour+kit.DeadlineGrace), w.Now(), 2*time.Minute)
		require.Empty(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).WaitForCompletion)
	})
	w.Blocked["Drain"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, 2*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, workflowtest.States(status), maintenancev1.NodeDraining, "the drain looks for itself")
	require.Contains(t, status.Notes, "continued without knowing which pods have finished: wait for pods of n1 to finish: timed out; "+
		"state unknown: connection refused; when they were seen last these had not: ml/train-1")
}

func TestALockRequestWithALostReplyIsWithdrawn(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AcquireNode"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Second)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, w.Called()[len(w.Called())-3:])
	for _, stage := range status.Stages {
		require.NotContains(t, stage.Message, "no workload locks")
	}
}

func TestDoneBeforeReadyReturnsTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeDraining), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestABusyNodeIsQueuedAgainWithoutLocks(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = workflowtest.Once(temporal.Error(temporal.ErrNodeBusy, "node n1 is under maintenance by node/c1/ops/other", nil))
	w.Fail["AwaitNodeFree"] = workflowtest.Once(temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)) // so that time passes
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	first, second := w.Inputs["AwaitNodeLocks"][0].(locks.NodeLockInput), w.Inputs["AwaitNodeLocks"][1].(locks.NodeLockInput)
	require.True(t, second.Deadline.After(*first.Deadline), "the locks are asked anew")
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "AcquireNode", "AwaitNodeLocks", "Cordon",
		"WithdrawNodeMaintenance", "WithdrawClusterMaintenance", "AwaitNodeFree", "AwaitNodeFree", "AcquireNode", "AwaitNodeLocks", "Cordon",
	}, w.Called()[:13])
}

func TestALockReactivatedBeforeTheCordonIsWaitedForAgain(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = func(call int) error {
		if call <= 4 {
			return temporal.Error(temporal.ErrLockRefused, "lock ceph-n1 is active", nil)
		}
		return nil
	}
	said := false
	w.When(func() bool {
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
		return wait != nil && wait.Reason == temporal.ErrLockRefused && wait.Message == "lock ceph-n1 is active"
	}, func() { said = true })
	in := workflowtest.FullMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, said)
	require.Len(t, w.Inputs["AwaitNodeLocks"], 5)
	require.Equal(t, w.Inputs["AwaitNodeLocks"][0], w.Inputs["AwaitNodeLocks"][1], "until the same deadline: it may be taken back again and again")
	require.Len(t, w.Inputs["Cordon"], 5)
	cordon := status.States[slices.Index(workflowtest.States(status), maintenancev1.NodeCordon)]
	letGo := kit.Stages{Records: &status.Stages}.Stage(maintenancev1.StageNodeWorkloadLocksInactive)
	require.False(t, letGo.FinishedAt.After(cordon.At.Time), "a stage that has succeeded is not written again")
}

func TestADeletedNodeEndsItsMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrNodeGone, "node n1 was deleted", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Equal(t, maintenancev1.NodeGone, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeGone).State)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Withdraw)
	require.True(t, w.Scheduler.State.Empty(), "its slot is free")
}

func TestEachStepUsesTheUIDOfTheCordonedNode(t *testing.T) {
	for _, locked := range []bool{true, false} {
		w := workflowtest.NewWorld(t)
		w.Locked = locked
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

		workflowtest.RequireResult[workflowtest.NodeStatus](w)
		completion := w.Inputs["AwaitPodCompletion"][0].(drain.AwaitPodCompletionInput)
		require.EqualValues(t, workflowtest.NodeUID, completion.NodeUID)
		require.Equal(t, &maintenancev1.DrainSpec{}, completion.Drain, "what that passes over is not waited for")
		require.True(t, completion.Cordoned)
		require.EqualValues(t, workflowtest.NodeUID, w.Inputs["Drain"][0].(drain.Input).NodeUID)
		require.EqualValues(t, workflowtest.NodeUID, w.Inputs["RunJob"][0].(jobs.RunJobInput).NodeUID)
	}
}

func TestANodeDeletedDuringTheWaitIsNotCordoned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Missing = []string{"n1"}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Equal(t, maintenancev1.NodeGone, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeGone).State)
	require.NotContains(t, w.Called(), "AcquireNode")
	require.True(t, w.Scheduler.State.Empty())
}

func TestAMaintenanceThatOnlyWaitedDoesNotReportTheCordonOfAnother(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{LeftCordoned: true, Note: "the node is left as it is: it is under maintenance by node/c1/ops/other"}
	})
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.False(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).LeftCordoned)
	require.Empty(t, w.Scheduler.LastSet().Releases)
}

func TestACancelledWaitLeavesTheQueueBeforeItsCleanup(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	over := w.Now().Add(20 * time.Minute)
	w.Fail["ReturnNode"] = func(int) error {
		if w.Now().Before(over) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeCleaningUp, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
		require.True(t, w.Scheduler.State.Empty())
	}, 10*time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestARetriedActivityIsShownInTheStatus(t *testing.T) {
	tests := []struct {
		name            string
		err             error
		reason, message string
	}{
		{
			name: "it is refused", err: temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: connection refused", nil),
			reason: temporal.ErrClusterUnreachable, message: "take n1: cluster c1: connection refused",
		},
		{
			name: "it takes too long", err: sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil),
			reason: "TimeoutStartToClose", message: "take n1: every attempt timed out after 10s",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Fail["AcquireNode"] = func(call int) error {
				if call <= 3*kit.RoundAttempts {
					return test.err
				}
				return nil
			}
			message := ""
			w.When(func() bool {
				wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
				return wait != nil && wait.Reason == test.reason
			}, func() { message = workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message })
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

			require.Nil(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Wait)
			require.Equal(t, test.message, message, "the status said it while the node could not be taken")
		})
	}
}

func TestAFailedCleanupStepIsReportedAndTheOthersStillRun(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned)
	require.Contains(t, status.Notes, "could not return n1: the API server is on fire")
	require.Contains(t, w.Called(), "WithdrawNodeMaintenance")
	require.True(t, status.NotReturned)
	require.Equal(t, maintenancev1.NodeFailed, status.State, "nobody may take the node for returned, though the work is done")
	failed := "the node could not be returned: the API server is on fire; workflow sweeper/c1 keeps trying"
	require.Equal(t, failed, status.Failure.Message)
	announced := w.Inputs["AnnounceState"][0].(node.AnnounceStateInput)
	require.Equal(t, maintenancev1.NodeFailed, announced.State)
	require.Equal(t, "the maintenance has failed: NodeNotReturned: "+failed, announced.Message)
	require.True(t, w.Scheduler.LastSet().Releases[0].Unclean, "its mark holds the node")
}

// The sweeper does not know how the maintenance has ended.
func TestANodeThatCouldNotBeReturnedIsReportedAsCordoned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is on fire"))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, "the node could not be returned: the API server is on fire; workflow sweeper/c1 keeps trying to remove its marks, "+
		"and leaves it cordoned, as onFailure asks", workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).Failure.Message)
}

func TestAFailedMaintenanceReportsThatItsNodeIsNotReturned(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 2 pods are left", nil))
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut).NotReturned)
	announced := w.Inputs["AnnounceState"][0].(node.AnnounceStateInput)
	require.Equal(t, "the maintenance has failed: DrainTimedOut: drain n1: 2 pods are left; the node could not be returned", announced.Message)
}

func TestTheSlotOfAnUnreturnedNodeStaysWithTheParent(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())

	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
	require.Empty(t, w.Inputs["ReturnSlot"], "the parent says that the node is not clean")
}

func TestANodeIsReturnedEvenIfItsLockRequestCannotBeWithdrawn(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{Uncordoned: true, NotWithdrawn: true}
	})
	w.Fail["WithdrawNodeMaintenance"] = workflowtest.Always(errors.New("its webhook does not answer"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.False(t, status.NotReturned || status.LeftCordoned)
	require.NotEmpty(t, w.Inputs["WithdrawNodeMaintenance"])
	require.Contains(t, status.Notes, "could not withdraw the request for n1: its webhook does not answer")
}

func TestANodeLeftCordonedIsReportedDespiteALostReply(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{LeftCordoned: true} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, status.LeftCordoned)
	require.Contains(t, status.Notes, "left cordoned: our marks had been removed before, by an attempt whose answer was lost, or manually")
}

func TestLocksThatStayInactiveAreReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocksActive"] = nil
	workflowtest.Simulate(w, "AwaitNodeLocksActive", func(locks.NodeLockInput) any {
		return []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "vRouter not ready"}}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "NodeWorkloadLock tf-n1 is not active again: vRouter not ready")
}

func TestReportsOfEarlierActivitiesAreIgnored(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	blocked := &drydockv1.Wait{Reason: "DisruptionBudget", Message: "budget shop/web allows 0"}
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeDraining
	}, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Wait: blocked, Drain: &maintenancev1.DrainStatus{PodsToEvict: 2}})
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitNodeLocks", Wait: &drydockv1.Wait{Reason: "Stale"}})
	})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, "DisruptionBudget", status.Wait.Reason)
		require.Equal(t, int32(2), status.Drain.PodsToEvict)
		w.CancelWorkflow()
	}, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func ptr[T any](v T) *T { return &v }

func TestTheParentsSlotReturnsWithTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{Uncordoned: true, SlotReturned: true}
	})
	in := workflowtest.MaintenanceOfRollout()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.Equal(t, in.Slot, returned.Slot)
	require.False(t, returned.AwaitLocks)
	require.Empty(t, w.Inputs["ReturnSlot"])
}

func TestTheParentsSlotReturnsOnceTheLocksAreActive(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "AwaitNodeLocksActive", func(locks.NodeLockInput) any {
		require.Empty(t, w.InputsOf("ReturnSlot"))
		return []drydockv1.Blocker{}
	})
	in := workflowtest.MaintenanceOfRollout()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).AwaitLocks)
	require.Equal(t, scheduler.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}, w.Inputs["ReturnSlot"][0])
}

func TestTheSlotOfAFailedMaintenanceStaysWithTheParent(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "exit code 1", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.Nil(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Slot, "the next node must not start before the parent knows")
	require.Empty(t, w.Inputs["ReturnSlot"])
}

func TestThePreflightIsReportedBeforeTheCordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "PlanMaintenance", func(in node.PlanMaintenanceInput) any {
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, in.Preflight.Drain)
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.WaitForPodCompletion, in.Preflight.Completion)
		return node.PlanMaintenanceResult{Warning: "its drain would fail"}
	})
	workflowtest.Simulate(w, "AcquireNode", func(in node.AcquireNodeInput) any {
		require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, in.Preflight.Drain)
		return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}, Warning: "its drain would wait"}
	})
	w.Fail["Cordon"] = workflowtest.Always(temporal.Error(temporal.ErrPodsNotEvictable, "node n1 is not taken out of service: 1 pod without a controller", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrPodsNotEvictable)
	require.Equal(t, []string{"its drain would fail", "its drain would wait"}, status.Notes)
	require.Equal(t, workflowtest.RequestorMaintenance().Object.Spec.DrainSpec, w.Inputs["Cordon"][0].(node.CordonInput).Preflight.Drain)
	require.NotContains(t, w.Called(), "AwaitPodCompletion")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestTheCordonOfAFasterMaintenanceIsNotReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["Cordon"] = workflowtest.Always(temporal.Error(temporal.ErrNodeBusy, "node worker-7 is under maintenance by another", nil))
	w.Blocked["AwaitNodeFree"] = true
	w.OnActivity("ReturnNode", mock.Anything, mock.Anything).Return(node.ReturnNodeResult{LeftCordoned: true}, nil)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.False(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).LeftCordoned)
}

func TestAMaintenanceWithAnUnexpectedWorkflowIDIsRefused(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	w.SimulateSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	err := w.GetWorkflowError()
	require.ErrorContains(t, err, "the id of the workflow must be "+temporal.NodeMaintenanceID(in.Cluster, in.Object.Namespace, in.Object.Name))
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.Empty(t, w.InputsOf("AcquireNode"))
}

func TestAMaintenanceReportsAManualUncordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AwaitPodCompletion", func(drain.AwaitPodCompletionInput) any {
		return drain.AwaitPodCompletionResult{Uncordoned: true}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "continued although the node was uncordoned manually, and pods may come to it")
}

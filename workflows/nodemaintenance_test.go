package workflows

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

type nodeStatus = maintenancev1.NodeMaintenanceStatus

// wholeMaintenance asks for everything that a maintenance can do, with a Job as its work.
func wholeMaintenance() NodeMaintenanceInput {
	return NodeMaintenanceInput{Cluster: "c1", Object: maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "n1"},
		Spec: maintenancev1.NodeMaintenanceSpec{
			RequestorID: "ops.example.com", NodeName: "n1",
			WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{},
			DrainSpec:            &maintenancev1.DrainSpec{},
			Action:               &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: "ops"}},
		},
	}}
}

// handOver asks for a node that the requestor works on itself.
func handOver() NodeMaintenanceInput {
	in := wholeMaintenance()
	in.Object.Spec.Action = nil
	return in
}

func inState(state maintenancev1.NodeState) func(nodeStatus) bool {
	return func(s nodeStatus) bool { return s.State == state }
}

func states(s nodeStatus) []maintenancev1.NodeState {
	var states []maintenancev1.NodeState
	for _, state := range s.States {
		states = append(states, state.State)
	}
	return states
}

func TestANodeIsMaintainedStepByStepAndReturned(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "TakeNode", "AwaitNodeLocks", "Cordon", "AwaitPodCompletion", "Drain", "RunJob",
		"AwaitNodeHealthy", "ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance",
	}, w.called())
	require.Nil(t, w.inputs["AwaitNodeLocks"][0].(activities.NodeLockInput).Deadline, "for as long as it takes")
	returned := w.inputs["ReturnNode"][0].(activities.ReturnNodeInput)
	require.Equal(t, w.inputs["RunJob"][0].(activities.RunJobInput).Job, returned.FinishedJob.Job, "the job has done its work")
	require.True(t, returned.Withdraw)
	require.Equal(t, []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon, maintenancev1.NodeWaitForPodCompletion,
		maintenancev1.NodeDraining, maintenancev1.NodeReady, maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp, maintenancev1.NodeCompleted,
	}, states(status))
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
		require.NotNil(t, stage.FinishedAt, stage.Stage)
	}
	require.Nil(t, status.Wait)
}

func TestARequestThatCannotBeCarriedOutTouchesNothing(t *testing.T) {
	w := newWorld(t)
	w.fail["CheckNodeMaintenance"] = always(temporal.Error(temporal.ErrInvalidSpec, "spec.drainSpec.podSelector: cannot be read", nil))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireFailure[nodeStatus](w, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"CheckNodeMaintenance"}, w.called())
}

// A field that no version knows, say: it is refused, and not dropped.
func TestARequestIsCheckedAsItWasWritten(t *testing.T) {
	var in NodeMaintenanceInput
	const object = `{"spec": {"requestorID": "ops.example.com", "drainSpecs": {}}}`
	require.NoError(t, json.Unmarshal([]byte(`{"cluster": "c1", "object": `+object+`}`), &in))
	require.Equal(t, "c1", in.Cluster)
	require.Equal(t, "ops.example.com", in.Object.Spec.RequestorID)
	require.JSONEq(t, object, string(in.written))

	w := newWorld(t)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
	written, err := json.Marshal(wholeMaintenance().Object)
	require.NoError(t, err)
	require.JSONEq(t, string(written), string(w.inputs["CheckNodeMaintenance"][0].(json.RawMessage)))
}

func TestAClusterWithoutLocksIsNotAskedForThem(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	requireResult[nodeStatus](w)
	require.NotContains(t, w.called(), "AwaitNodeLocks")
	require.NotContains(t, w.called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.called(), "Cordon", "it was taken at once")
}

func TestANodeWithoutLocksIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	none := activities.NodeLocks{Asked: true, Inactive: true, Active: true}
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		return activities.TakeNodeResult{Locks: none, Cordon: &activities.CordonResult{CordonedByUs: true, Note: "somebody had been there"}}
	})
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{Locks: none} })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.NotContains(t, w.called(), "AwaitNodeLocks")
	require.NotContains(t, w.called(), "AwaitNodeLocksActive")
	require.NotContains(t, w.called(), "Cordon")
	require.True(t, status.CordonedByUs)
	require.Contains(t, status.Notes, "somebody had been there")
	for _, stage := range status.Stages {
		require.True(t, stage.Succeeded, stage.Stage)
	}
}

func TestWhatIsNotAskedForIsNotDone(t *testing.T) {
	w := newWorld(t)
	in := handOver()
	in.Object.Spec.WaitForPodCompletion, in.Object.Spec.DrainSpec = nil, nil
	in.Object.Spec.Cordon = new(bool)
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireResult[nodeStatus](w)
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "TakeNode", "AnnounceState", "AwaitNodeHealthy", "ReturnNode",
	}, w.called())
	require.False(t, w.inputs["TakeNode"][0].(activities.TakeNodeInput).Cordon)
}

func TestCancelInEveryStepTakesBackWhatWasDone(t *testing.T) {
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
				w := newWorld(t)
				w.locked = true
				w.blocked[tc.step] = true
				w.RegisterDelayedCallback(func() {
					if by == "signal" {
						w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
					} else {
						w.CancelWorkflow()
					}
				}, time.Minute)
				w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

				status := requireCancelled[nodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				called := w.called()
				require.Equal(t, tc.undo, called[slices.Index(called, tc.step)+1:])
				require.True(t, w.scheduler.state.Empty(), "its slot is free")
			})
		}
	}
}

func TestADrainThatRunsOutOfTimeFailsWithItsBlockersAndReturnsTheNode(t *testing.T) {
	blocker := drydockv1.Blocker{Kind: "Pod", Namespace: "shop", Name: "web-1", Reason: "DisruptionBudget"}
	w := newWorld(t)
	w.locked = true
	w.fail["Drain"] = always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil, blocker))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireFailure[nodeStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, maintenancev1.NodeFailed, status.State)
	require.Equal(t, []drydockv1.Blocker{blocker}, status.Failure.Blockers)
	require.Equal(t, "drain n1: 1 pod blocked", status.Failure.Message)
	require.NotContains(t, w.called(), "RunJob")
	returned := w.inputs["ReturnNode"][0].(activities.ReturnNodeInput)
	require.False(t, returned.KeepCordoned)
	require.True(t, returned.Withdraw, "its locks are not kept waiting")
	require.Contains(t, w.called(), "AwaitNodeLocksActive")
	require.True(t, w.scheduler.state.Empty(), "its slot is free")
}

func TestAFailedNodeStaysCordonedWhenAsked(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = always(temporal.Error(temporal.ErrDrainTimedOut, "", nil))
	in := wholeMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireFailure[nodeStatus](w, temporal.ErrDrainTimedOut)
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).KeepCordoned)
}

func TestADrainThatRunsOutOfTimeIsTriedAgainWhenAsked(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = once(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil))
	in := wholeMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(NodeMaintenance, in)

	status := requireResult[nodeStatus](w)
	first, second := w.inputs["Drain"][0].(activities.DrainInput), w.inputs["Drain"][1].(activities.DrainInput)
	require.Equal(t, int32(2), second.Attempt)
	require.False(t, second.Deadline.Before(*first.Deadline))
	require.Contains(t, status.Notes, "draining once more: drain n1: 1 pod blocked")
}

func TestAnotherDrainGoesOnFromWhatTheOneBeforeHadReached(t *testing.T) {
	w := newWorld(t)
	reached := &maintenancev1.DrainStatus{PodsToEvict: 5, Evicted: 2}
	w.fail["Drain"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: reached})
			return temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 3 pods blocked", nil)
		}
		return nil
	}
	in := wholeMaintenance()
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireResult[nodeStatus](w)
	require.Equal(t, reached, w.inputs["Drain"][1].(activities.DrainInput).Before)
}

func TestADrainThatNeverSucceedsDoesNotFillItsHistory(t *testing.T) {
	const attempts, reports = 30, 3
	w := newWorld(t)
	begin := w.Now()
	w.fail["Drain"] = func(call int) error {
		if call > attempts {
			return nil
		}
		for range reports {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Drain: &maintenancev1.DrainStatus{PodsToEvict: 1}})
		}
		return temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil)
	}
	in := wholeMaintenance()
	in.Object.Spec.DrainSpec.TimeoutSeconds = ptr(int32(1))
	in.Object.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireResult[nodeStatus](w)
	want := time.Second
	for i, input := range w.inputs["Drain"] {
		drain := input.(activities.DrainInput)
		require.WithinDuration(t, begin.Add(want), *drain.Deadline, 30*time.Second, "attempt %d", i+1)
		require.Equal(t, i*reports, drain.Reports, "reports do not begin anew with attempt %d", i+1)
		want = min(2*want, 24*time.Hour)
	}
}

func TestATimeoutOfMoreThanADayStaysWhatItIs(t *testing.T) {
	require.Equal(t, int32(200_000), drainTimeout(maintenancev1.DrainSpec{TimeoutSeconds: ptr(int32(200_000))}, 9))
}

func TestDrainDeadlineIsFiveMinutesUnlessGivenAndNoneForZero(t *testing.T) {
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
			w := newWorld(t)
			start := w.Now()
			in := wholeMaintenance()
			in.Object.Spec.DrainSpec.TimeoutSeconds = tc.timeout
			w.ExecuteWorkflow(NodeMaintenance, in)

			requireResult[nodeStatus](w)
			deadline := w.inputs["Drain"][0].(activities.DrainInput).Deadline
			if tc.want == nil {
				require.Nil(t, deadline)
				return
			}
			require.WithinDuration(t, start.Add(*tc.want), *deadline, time.Second)
		})
	}
}

func TestTheRequestorHasTheNodeUntilItSaysDone(t *testing.T) {
	w := newWorld(t)
	w.RegisterDelayedCallback(func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State)
		require.Equal(t, "AwaitingRequestor", status.Wait.Reason)
		require.True(t, status.HandedOver)
		require.NotContains(t, w.called(), "ReturnNode")
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Actor: "driver"})
	}, 24*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, handOver())

	status := requireResult[nodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.False(t, status.HandedOver)
}

func TestANodeOnWhichAJobIsAtWorkIsNotHandedOver(t *testing.T) {
	w := newWorld(t)
	w.blocked["RunJob"] = true
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.keepsNode(maintenancev1.NodeReady), func() {
		require.False(t, statusOf[nodeStatus](w).HandedOver)
	}, func() {
		w.SignalWorkflow(temporal.SignalDone, temporal.SignalRequest{Requestor: "gpu.example.com", Actor: "kim"})
	}, w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, in)
	status := requireCancelled[nodeStatus](w)
	require.Contains(t, status.Notes, "done was said for gpu.example.com by kim: the node is kept for ops.example.com")
}

func TestANodeIsReturnedAtOnceWhenTheRequestorHasNoWorkOfItsOwn(t *testing.T) {
	w := newWorld(t)
	in := handOver()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(NodeMaintenance, in)

	require.Contains(t, states(requireResult[nodeStatus](w)), maintenancev1.NodeReady)
	require.Contains(t, w.called(), "ReturnNode")
}

func TestFailHoldsTheNodeUntilItIsRecovered(t *testing.T) {
	w := newWorld(t)
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	w.RegisterDelayedCallback(func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, status.State)
		require.Contains(t, status.Wait.Message, "no firmware")
		w.SignalWorkflow(temporal.SignalRecover, nil)
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeReady, statusOf[nodeStatus](w).State)
		w.SignalWorkflow(temporal.SignalDone, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, handOver())

	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

func TestAFailedJobHoldsTheNodeAndCancelReturnsItFailed(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3; the end of its log:\nno firmware", nil))
	w.say(func() {
		held := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeRequestorFailed, held.State)
		require.Contains(t, held.Failure.Message, "no firmware")
		require.Contains(t, held.Wait.Message, "exit code 3; the node is held")
		require.NotContains(t, held.Wait.Message, "no firmware", "the log is shown once")
	}, w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireFailure[nodeStatus](w, temporal.ErrJobFailed)
	require.Equal(t, maintenancev1.NodeFailed, status.State)
	require.NotContains(t, w.called(), "AwaitNodeHealthy")
	require.Contains(t, w.called(), "ReturnNode")
}

func TestAFailedJobThatAPersonMadeGoodCompletes(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	signalWhen(w, inState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, temporal.SignalRequest{Actor: "ann"})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.Nil(t, status.Failure)
	require.Contains(t, w.called(), "AwaitNodeHealthy")
}

func TestAFailedJobOfARolloutReturnsTheNodeAtOnce(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: exit code 3", nil))
	in := wholeMaintenance()
	in.Parent = "cgu/ops/june/c1"
	w.ExecuteWorkflow(NodeMaintenance, in)

	status := requireFailure[nodeStatus](w, temporal.ErrJobFailed)
	require.NotContains(t, states(status), maintenancev1.NodeRequestorFailed)
	require.Contains(t, w.called(), "ReturnNode")
}

func TestANodeWhoseJobCannotBeRemovedIsKeptForTheSweeper(t *testing.T) {
	for _, cordon := range []bool{true, false} {
		w := newWorld(t)
		w.locked = true
		w.blocked["RunJob"] = true
		w.fail["RemoveJob"] = always(temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x", nil))
		signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
		in := wholeMaintenance()
		in.Object.Spec.Cordon = &cordon
		w.ExecuteWorkflow(NodeMaintenance, in)

		status := requireFailure[nodeStatus](w, activities.ReasonJobStopping)
		require.Equal(t, maintenancev1.NodeFailed, status.State)
		kept := "the node is kept out of service until its job is gone: job ops/n1 was stopped; waiting until its pods are gone: ops/n1-x"
		require.Equal(t, kept, status.Failure.Message)
		require.Contains(t, status.Notes, kept+"; workflow sweeper/c1 returns it then")
		require.Equal(t, cordon, status.LeftCordoned)
		called := w.called()
		require.NotContains(t, called[slices.Index(called, "RemoveJob"):], "ReturnNode", "firmware may be in the midst of being written")
		require.NotContains(t, called, "WithdrawNodeMaintenance", "its locks must not take the node back")
		require.NotContains(t, called, "WithdrawClusterMaintenance")
		require.Equal(t, maintenancev1.NodeFailed, w.inputs["AnnounceState"][0].(activities.AnnounceStateInput).State)
		require.True(t, status.NotReturned)
		released := []scheduling.Release{{Number: 1, Unclean: true, LeftOut: cordon}}
		require.Equal(t, released, w.scheduler.lastSet().Releases, "its mark holds the node")
	}
}

func TestANodeThatIsToBeKeptOnFailureRemembersThat(t *testing.T) {
	for _, locked := range []bool{false, true} {
		for onFailure, keep := range map[maintenancev1.FailureAction]bool{maintenancev1.FailureUncordon: false, maintenancev1.FailureKeepCordoned: true} {
			w := newWorld(t)
			w.locked, w.blocked["RunJob"] = locked, true
			w.fail["RemoveJob"] = always(temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped", nil))
			signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalCancel, nil)
			in := wholeMaintenance()
			in.Object.Spec.OnFailure = onFailure
			w.ExecuteWorkflow(NodeMaintenance, in)

			status := requireFailure[nodeStatus](w, activities.ReasonJobStopping)
			require.Equal(t, keep, w.inputs["TakeNode"][0].(activities.TakeNodeInput).KeepOnFailure)
			if locked {
				require.Equal(t, keep, w.inputs["Cordon"][0].(activities.CordonInput).KeepOnFailure)
			}
			require.Equal(t, keep, strings.HasSuffix(status.Notes[len(status.Notes)-1], "leaves it cordoned, as onFailure asks"), status.Notes)
		}
	}
}

func TestANodeKeptForItsJobSaysFirstWhyTheWorkFailed(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed: it was not complete in time", nil))
	w.fail["RemoveJob"] = always(temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped", nil))
	signalWhen(w, func(s nodeStatus) bool { return s.Failure != nil }, temporal.SignalCancel, nil)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireFailure[nodeStatus](w, temporal.ErrJobFailed)
	require.True(t, status.LeftCordoned)
	require.NotContains(t, w.called(), "ReturnNode")
}

func TestDoneWhileAJobIsAtWorkDoesNotHideThatItFails(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.fail["RunJob"] = func(int) error {
		<-release
		return temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil)
	}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "RunJob" {
			w.SignalWorkflow(temporal.SignalDone, nil)
			close(release)
		}
	})
	signalWhen(w, inState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.Contains(t, requireFailure[nodeStatus](w, temporal.ErrJobFailed).Notes, "done was said, but a job is at work: nothing done")
}

func TestDoneSaidTwiceIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.blocked["AwaitNodeHealthy"] = true
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	signalWhen(w, inState(maintenancev1.NodeHealthChecks), temporal.SignalDone, nil)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeHealthChecks, statusOf[nodeStatus](w).State)
		w.CancelWorkflow()
	}, time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

func TestCancelAfterTheRequestorFailedEndsAsAFailure(t *testing.T) {
	w := newWorld(t)
	in := handOver()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	signalWhen(w, inState(maintenancev1.NodeRequestorFailed), temporal.SignalCancel, nil)
	w.ExecuteWorkflow(NodeMaintenance, in)

	require.Contains(t, requireFailure[nodeStatus](w, "RequestorFailed").Failure.Message, "no firmware")
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).KeepCordoned)
}

func TestRecoverAfterTheNodeIsGivenBackChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	w.fail["AwaitNodeHealthy"] = always(temporal.Error(temporal.ErrHealthGateFailed, "node n1 is not ready", nil))
	w.fail["ReturnNode"] = func(call int) error {
		if call <= 2*roundAttempts {
			return errors.New("not yet")
		}
		return nil
	}
	signalWhen(w, inState(maintenancev1.NodeRequestorFailed), temporal.SignalDone, nil)
	signalWhen(w, inState(maintenancev1.NodeCleaningUp), temporal.SignalRecover, nil)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	requireFailure[nodeStatus](w, temporal.ErrHealthGateFailed)
}

func TestCancelEndsAsCancelledAlsoWhileTheClusterDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireCancelled[nodeStatus](w)
}

func TestADeadlineHoldsAlsoWhileTheClusterDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.fail["Drain"] = always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, statusOf[nodeStatus](w).Wait.Reason)
	}, 3*time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.Contains(t, requireFailure[nodeStatus](w, temporal.ErrDrainTimedOut).Failure.Message, "connection refused")
	require.WithinDuration(t, start.Add(5*time.Minute+deadlineGrace), w.Now(), 2*time.Minute)
}

func TestPodsThatEndByThemselvesAreWaitedForNoLongerThanAskedThoughNobodyCanLook(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	in := wholeMaintenance()
	in.Object.Spec.WaitForPodCompletion.TimeoutSeconds = 3600
	w.fail["AwaitPodCompletion"] = always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.when(func() bool { return statusOf[nodeStatus](w).State == maintenancev1.NodeWaitForPodCompletion }, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitPodCompletion", Pods: []string{"ml/train-1"}})
	})
	w.when(func() bool { return statusOf[nodeStatus](w).State == maintenancev1.NodeDraining }, func() {
		require.WithinDuration(t, start.Add(time.Hour+deadlineGrace), w.Now(), 2*time.Minute)
		require.Empty(t, statusOf[nodeStatus](w).WaitForCompletion)
	})
	w.blocked["Drain"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, 2*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, in)

	status := requireCancelled[nodeStatus](w)
	require.Contains(t, states(status), maintenancev1.NodeDraining, "the drain looks for itself")
	require.Contains(t, status.Notes, "went on without knowing which pods have ended by themselves: wait for pods of n1 to finish: timed out; "+
		"state unknown: connection refused; when they were seen last these had not: ml/train-1")
}

func TestARequestWhoseAnswerWasNotWaitedForIsWithdrawnAndItsLocksAreAwaited(t *testing.T) {
	w := newWorld(t)
	w.blocked["TakeNode"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Second)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireCancelled[nodeStatus](w)
	require.Equal(t, []string{"ReturnNode", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, w.called()[len(w.called())-3:])
	for _, stage := range status.Stages {
		require.NotContains(t, stage.Message, "no workload locks")
	}
}

func TestDoneBeforeTheNodeIsHandedOverTakesItBack(t *testing.T) {
	w := newWorld(t)
	w.blocked["Drain"] = true
	signalWhen(w, inState(maintenancev1.NodeDraining), temporal.SignalDone, nil)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	requireCancelled[nodeStatus](w)
	require.Contains(t, w.called(), "ReturnNode")
}

func TestANodeThatSomeoneElseTookIsQueuedForAgainWithoutHoldingLocks(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.fail["Cordon"] = once(temporal.Error(temporal.ErrNodeBusy, "node n1 is under maintenance by node/c1/ops/other", nil))
	w.fail["AwaitNodeFree"] = once(temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)) // so that time passes
	in := wholeMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireResult[nodeStatus](w)
	first, second := w.inputs["AwaitNodeLocks"][0].(activities.NodeLockInput), w.inputs["AwaitNodeLocks"][1].(activities.NodeLockInput)
	require.True(t, second.Deadline.After(*first.Deadline), "the locks are asked anew")
	require.Equal(t, []string{
		"CheckNodeMaintenance", "LocateCluster", "PlanMaintenance", "TakeNode", "AwaitNodeLocks", "Cordon",
		"WithdrawNodeMaintenance", "WithdrawClusterMaintenance", "AwaitNodeFree", "AwaitNodeFree", "TakeNode", "AwaitNodeLocks", "Cordon",
	}, w.called()[:13])
}

func TestALockThatIsTakenBackBeforeTheCordonIsWaitedForAgain(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.fail["Cordon"] = func(call int) error {
		if call <= 4 {
			return temporal.Error(temporal.ErrLockRefused, "lock ceph-n1 is active", nil)
		}
		return nil
	}
	said := false
	w.when(func() bool {
		wait := statusOf[nodeStatus](w).Wait
		return wait != nil && wait.Reason == temporal.ErrLockRefused && wait.Message == "lock ceph-n1 is active"
	}, func() { said = true })
	in := wholeMaintenance()
	in.Object.Spec.LockTimeoutSeconds = new(int32(60))
	w.ExecuteWorkflow(NodeMaintenance, in)

	status := requireResult[nodeStatus](w)
	require.True(t, said)
	require.Len(t, w.inputs["AwaitNodeLocks"], 5)
	require.Equal(t, w.inputs["AwaitNodeLocks"][0], w.inputs["AwaitNodeLocks"][1], "until the same deadline: it may be taken back again and again")
	require.Len(t, w.inputs["Cordon"], 5)
	cordon := status.States[slices.Index(states(status), maintenancev1.NodeCordon)]
	letGo := stageKeeper{stages: &status.Stages}.stage(maintenancev1.StageNodeWorkloadLocksInactive)
	require.False(t, letGo.FinishedAt.After(cordon.At.Time), "a stage that has succeeded is not written again")
}

func TestANodeThatIsGoneEndsAsSuch(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = always(temporal.Error(temporal.ErrNodeGone, "node n1 was deleted", nil))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.Equal(t, maintenancev1.NodeGone, requireFailure[nodeStatus](w, temporal.ErrNodeGone).State)
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).Withdraw)
	require.True(t, w.scheduler.state.Empty(), "its slot is free")
}

func TestTheVeryNodeThatWasTakenIsWorkedOn(t *testing.T) {
	for _, locked := range []bool{true, false} {
		w := newWorld(t)
		w.locked = locked
		w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

		requireResult[nodeStatus](w)
		completion := w.inputs["AwaitPodCompletion"][0].(activities.AwaitPodCompletionInput)
		require.EqualValues(t, takenUID, completion.NodeUID)
		require.Equal(t, &maintenancev1.DrainSpec{}, completion.Drain, "what that passes over is not waited for")
		require.True(t, completion.Cordoned)
		require.EqualValues(t, takenUID, w.inputs["Drain"][0].(activities.DrainInput).NodeUID)
		require.EqualValues(t, takenUID, w.inputs["RunJob"][0].(activities.RunJobInput).NodeUID)
	}
}

func TestANodeThatIsDeletedWhileItWaitsIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.scheduler.missing = []string{"n1"}
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.Equal(t, maintenancev1.NodeGone, requireFailure[nodeStatus](w, temporal.ErrNodeGone).State)
	require.NotContains(t, w.called(), "TakeNode")
	require.True(t, w.scheduler.state.Empty())
}

func TestAMaintenanceThatOnlyWaitedDoesNotLeaveTheNodeOfAnotherCordoned(t *testing.T) {
	w := newWorld(t)
	w.scheduler.capacity = 0
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any {
		return activities.ReturnNodeResult{LeftCordoned: true, Note: "the node is left as it is: it is under maintenance by node/c1/ops/other"}
	})
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.False(t, requireCancelled[nodeStatus](w).LeftCordoned)
	require.Empty(t, w.scheduler.lastSet().Releases)
}

func TestAMaintenanceThatIsCancelledWhileItWaitsLeavesTheQueueBeforeItsCleanUp(t *testing.T) {
	w := newWorld(t)
	w.scheduler.capacity = 0
	over := w.Now().Add(20 * time.Minute)
	w.fail["ReturnNode"] = func(int) error {
		if w.Now().Before(over) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.NodeCleaningUp, statusOf[nodeStatus](w).State)
		require.True(t, w.scheduler.state.Empty())
	}, 10*time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireCancelled[nodeStatus](w)
}

func TestAnEffectThatDoesNotSucceedIsTriedAgainAndTheStatusSaysWhy(t *testing.T) {
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
			w := newWorld(t)
			w.fail["TakeNode"] = func(call int) error {
				if call <= 3*roundAttempts {
					return test.err
				}
				return nil
			}
			message := ""
			w.when(func() bool {
				wait := statusOf[nodeStatus](w).Wait
				return wait != nil && wait.Reason == test.reason
			}, func() { message = statusOf[nodeStatus](w).Wait.Message })
			w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

			require.Nil(t, requireResult[nodeStatus](w).Wait)
			require.Equal(t, test.message, message, "the status said it while the node could not be taken")
		})
	}
}

func TestACleanUpThatNeverSucceedsIsReportedAndTheRestIsStillTakenBack(t *testing.T) {
	w := newWorld(t)
	w.fail["ReturnNode"] = always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireFailure[nodeStatus](w, temporal.ErrNodeNotReturned)
	require.Contains(t, status.Notes, "could not return n1: the API server is on fire")
	require.Contains(t, w.called(), "WithdrawNodeMaintenance")
	require.True(t, status.NotReturned)
	require.Equal(t, maintenancev1.NodeFailed, status.State, "nobody may take the node for returned, though the work is done")
	failed := "the node could not be returned: the API server is on fire; workflow sweeper/c1 goes on trying"
	require.Equal(t, failed, status.Failure.Message)
	announced := w.inputs["AnnounceState"][0].(activities.AnnounceStateInput)
	require.Equal(t, maintenancev1.NodeFailed, announced.State)
	require.Equal(t, "the maintenance has failed: NodeNotReturned: "+failed, announced.Message)
	require.True(t, w.scheduler.lastSet().Releases[0].Unclean, "its mark holds the node")
}

// The sweeper does not know how the maintenance has ended.
func TestANodeThatCouldNotBeReturnedIsSaidToStayCordonedWhereOnFailureAsksForIt(t *testing.T) {
	w := newWorld(t)
	w.fail["ReturnNode"] = always(errors.New("the API server is on fire"))
	in := wholeMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, "the node could not be returned: the API server is on fire; workflow sweeper/c1 goes on trying to remove its marks, "+
		"and leaves it cordoned, as onFailure asks", requireFailure[nodeStatus](w, temporal.ErrNodeNotReturned).Failure.Message)
}

func TestAMaintenanceThatHadFailedSaysAlsoThatItsNodeIsNotReturned(t *testing.T) {
	w := newWorld(t)
	w.fail["Drain"] = always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 2 pods are left", nil))
	w.fail["ReturnNode"] = always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.True(t, requireFailure[nodeStatus](w, temporal.ErrDrainTimedOut).NotReturned)
	announced := w.inputs["AnnounceState"][0].(activities.AnnounceStateInput)
	require.Equal(t, "the maintenance has failed: DrainTimedOut: drain n1: 2 pods are left; the node could not be returned", announced.Message)
}

func TestTheParentsSlotOfANodeThatCouldNotBeReturnedStaysItsParents(t *testing.T) {
	w := newWorld(t)
	w.fail["ReturnNode"] = always(errors.New("the API server is on fire"))
	w.ExecuteWorkflow(NodeMaintenance, ofRollout())

	require.True(t, requireFailure[nodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
	require.Empty(t, w.inputs["ReturnSlot"], "the parent says that the node is not clean")
}

func TestANodeIsReturnedAlsoWhileTheRequestToItsLocksCannotBeWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any {
		return activities.ReturnNodeResult{Uncordoned: true, NotWithdrawn: true}
	})
	w.fail["WithdrawNodeMaintenance"] = always(errors.New("its webhook does not answer"))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.False(t, status.NotReturned || status.LeftCordoned)
	require.NotEmpty(t, w.inputs["WithdrawNodeMaintenance"])
	require.Contains(t, status.Notes, "could not withdraw the request for n1: its webhook does not answer")
}

func TestANodeThatWasFoundLeftCordonedSaysSoAlsoWhenTheAnswerWasLost(t *testing.T) {
	w := newWorld(t)
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{LeftCordoned: true} })
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	status := requireResult[nodeStatus](w)
	require.True(t, status.LeftCordoned)
	require.Contains(t, status.Notes, "left cordoned: our marks had been removed before, by an attempt whose answer was lost, or by somebody else")
}

func TestLocksThatDoNotComeBackAreReported(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.fail["AwaitNodeLocksActive"] = nil
	play(w, "AwaitNodeLocksActive", func(activities.NodeLockInput) any {
		return []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "tf-n1", Message: "vRouter not ready"}}
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())

	require.Contains(t, requireResult[nodeStatus](w).Notes, "NodeWorkloadLock tf-n1 is not active again: vRouter not ready")
}

func TestOnlyTheCurrentActivityIsListenedTo(t *testing.T) {
	w := newWorld(t)
	w.blocked["Drain"] = true
	blocked := &drydockv1.Wait{Reason: "DisruptionBudget", Message: "budget shop/web allows 0"}
	w.when(func() bool { return statusOf[nodeStatus](w).State == maintenancev1.NodeDraining }, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "Drain", Wait: blocked, Drain: &maintenancev1.DrainStatus{PodsToEvict: 2}})
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitNodeLocks", Wait: &drydockv1.Wait{Reason: "Stale"}})
	})
	w.RegisterDelayedCallback(func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, "DisruptionBudget", status.Wait.Reason)
		require.Equal(t, int32(2), status.Drain.PodsToEvict)
		w.CancelWorkflow()
	}, time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireCancelled[nodeStatus](w)
}

func ptr[T any](v T) *T { return &v }

// ofRollout is a maintenance whose parent has a slot for it.
func ofRollout() NodeMaintenanceInput {
	in := wholeMaintenance()
	in.TaskQueue, in.Parent, in.DoneWhenReady = temporal.TaskQueue, "cgu/ops/june/c1", true
	in.Slot = &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: in.Parent, FirstRunID: "run"}, Number: 7}
	return in
}

func TestTheParentsSlotGoesBackWithTheNode(t *testing.T) {
	w := newWorld(t)
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any {
		return activities.ReturnNodeResult{Uncordoned: true, SlotReturned: true}
	})
	in := ofRollout()
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	returned := w.inputs["ReturnNode"][0].(activities.ReturnNodeInput)
	require.Equal(t, in.Slot, returned.Slot)
	require.False(t, returned.AwaitLocks)
	require.Empty(t, w.inputs["ReturnSlot"])
}

func TestAParentsSlotThatDidNotGoBackWithTheNodeIsReturnedOnceItsLocksHoldItAgain(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	play(w, "AwaitNodeLocksActive", func(activities.NodeLockInput) any {
		require.Empty(t, w.inputsOf("ReturnSlot"))
		return []drydockv1.Blocker{}
	})
	in := ofRollout()
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).AwaitLocks)
	require.Equal(t, activities.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}, w.inputs["ReturnSlot"][0])
}

func TestTheSlotOfAMaintenanceThatFailedStaysItsParents(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "exit code 1", nil))
	w.ExecuteWorkflow(NodeMaintenance, ofRollout())
	requireFailure[nodeStatus](w, temporal.ErrJobFailed)
	require.Nil(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).Slot, "the next node must not start before the parent knows")
	require.Empty(t, w.inputs["ReturnSlot"])
}

func TestWhatIsInTheWayOfTheDrainIsSaidBeforeTheNodeIsTouched(t *testing.T) {
	w := newWorld(t)
	play(w, "PlanMaintenance", func(in activities.PlanMaintenanceInput) any {
		require.Equal(t, handOver().Object.Spec.DrainSpec, in.Departure.Drain)
		require.Equal(t, handOver().Object.Spec.WaitForPodCompletion, in.Departure.Completion)
		return activities.PlanMaintenanceResult{Warning: "its drain would fail"}
	})
	play(w, "TakeNode", func(in activities.TakeNodeInput) any {
		require.Equal(t, handOver().Object.Spec.DrainSpec, in.Departure.Drain)
		return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true}, Warning: "its drain would wait"}
	})
	w.fail["Cordon"] = always(temporal.Error(temporal.ErrPodsNotEvictable, "node n1 is not taken out of service: 1 pod without a controller", nil))
	w.ExecuteWorkflow(NodeMaintenance, handOver())

	status := requireFailure[nodeStatus](w, temporal.ErrPodsNotEvictable)
	require.Equal(t, []string{"its drain would fail", "its drain would wait"}, status.Notes)
	require.Equal(t, handOver().Object.Spec.DrainSpec, w.inputs["Cordon"][0].(activities.CordonInput).Departure.Drain)
	require.NotContains(t, w.called(), "AwaitPodCompletion")
	require.Contains(t, w.called(), "ReturnNode")
}

func TestTheCordonOfWhoeverWasFasterIsNotOursToReport(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.fail["Cordon"] = always(temporal.Error(temporal.ErrNodeBusy, "node worker-7 is under maintenance by another", nil))
	w.blocked["AwaitNodeFree"] = true
	w.OnActivity("ReturnNode", mock.Anything, mock.Anything).Return(activities.ReturnNodeResult{LeftCordoned: true}, nil)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.False(t, requireCancelled[nodeStatus](w).LeftCordoned)
}

func TestAMaintenanceUnderAnIDByWhichNobodyWouldFindItIsRefused(t *testing.T) {
	w := newWorld(t)
	in := wholeMaintenance()
	w.onSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(NodeMaintenance, in)
	err := w.GetWorkflowError()
	require.ErrorContains(t, err, "the id of the workflow must be "+temporal.NodeMaintenanceID(in.Cluster, in.Object.Namespace, in.Object.Name))
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.Empty(t, w.inputsOf("TakeNode"))
}

func TestAMaintenanceSaysThatItWentOnWithANodeThatIsUncordoned(t *testing.T) {
	w := newWorld(t)
	play(w, "AwaitPodCompletion", func(activities.AwaitPodCompletionInput) any {
		return activities.AwaitPodCompletionResult{Uncordoned: true}
	})
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Contains(t, requireResult[nodeStatus](w).Notes, "went on although somebody has uncordoned the node, and pods may come to it")
}

package nodemaintenance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// edit returns a step that sends an edit, which fails with that problem; "": it succeeds.
func edit(w *workflowtest.World, in nodemaintenance.Input, problem string, change func(*maintenancev1.NodeMaintenanceSpec)) func() {
	return func() {
		spec := *in.Object.Spec.DeepCopy()
		change(&spec)
		w.RequireUpdateResult(w.SendUpdate(temporal.UpdateEdit, nodemaintenance.EditRequest{Actor: "kim", Reason: "the pod may go", Spec: spec}), problem)
	}
}

func TestAnEditDrainsAgain(t *testing.T) {
	w, in := workflowtest.NewWorld(t), workflowtest.RequestorMaintenance()
	w.Blocked["Drain"] = true
	force := func(s *maintenancev1.NodeMaintenanceSpec) { s.DrainSpec = &maintenancev1.DrainSpec{Force: true} }
	w.EachMinute(
		edit(w, in, "spec.nodeName: cannot be changed", func(s *maintenancev1.NodeMaintenanceSpec) { s.NodeName = "n2" }),
		func() { w.Blocked["Drain"] = false },
		edit(w, in, "", force),
		w.RequireNodeKept(maintenancev1.NodeReady),
		edit(w, in, "spec.drainSpec: cannot be changed now: the drain has ended", func(*maintenancev1.NodeMaintenanceSpec) {}),
		w.Signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "the request was edited by kim: the pod may go")
	drains := w.InputsOf("Drain")
	require.False(t, drains[0].(drain.Input).Spec.Force)
	require.True(t, drains[len(drains)-1].(drain.Input).Spec.Force)
}

func TestAnEditChangesTheAdditionalRequestors(t *testing.T) {
	w, in := workflowtest.NewWorld(t), workflowtest.RequestorMaintenance()
	requestors := func(ids ...string) func(*maintenancev1.NodeMaintenanceSpec) {
		return func(s *maintenancev1.NodeMaintenanceSpec) { s.AdditionalRequestors = ids }
	}
	w.EachMinute(
		edit(w, in, "requestor X must have", requestors("X")),
		edit(w, in, "", requestors("gpu.example.com")),
		w.JoinStep("disk.example.com"),
		w.Signal(temporal.SignalDone, ""),
		w.RequireNodeKept(maintenancev1.NodeReady),
		edit(w, in, "", requestors()), // the requestor that joined stays
		w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, "disk.example.com"),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Len(t, status.Requestors, 3)
	for _, requestor := range status.Requestors {
		require.Equal(t, maintenancev1.RequestorDone, requestor.State, requestor.RequestorID)
	}
}

func TestAnInvalidEditChangesNothing(t *testing.T) {
	w, in := workflowtest.NewWorld(t), workflowtest.RequestorMaintenance()
	w.Blocked["Drain"] = true
	calls := 0
	w.Fail["CheckNodeMaintenance"] = func(int) error {
		if calls++; calls == 1 {
			return nil // the request itself
		}
		return temporal.Error(temporal.ErrInvalidSpec, "spec.drainSpec.podSelector: must be a label selector", nil)
	}
	var refused *workflowtest.UpdateResult
	w.EachMinute(func() {
		spec := *in.Object.Spec.DeepCopy()
		spec.DrainSpec = &maintenancev1.DrainSpec{PodSelector: "a=b="}
		refused = w.SendUpdate(temporal.UpdateEdit, nodemaintenance.EditRequest{Spec: spec})
	}, w.CancelWorkflow)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(refused.Err))
	require.Len(t, w.InputsOf("Drain"), 1)
}

func TestAnEditOfAnotherRequestIsRefused(t *testing.T) {
	for problem, in := range map[string]nodemaintenance.Input{
		"follows the NodeMaintenance ": objectMaintenance(),
		"is part of rollout ":          workflowtest.MaintenanceOfRollout(),
	} {
		w := workflowtest.NewWorld(t)
		w.Blocked["Drain"] = true
		w.EachMinute(edit(w, in, problem, func(*maintenancev1.NodeMaintenanceSpec) {}), w.CancelWorkflow)
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	}
}

func TestAnEditThatChangesNothingAnswersSo(t *testing.T) {
	w, in := workflowtest.NewWorld(t), workflowtest.RequestorMaintenance()
	w.Blocked["Drain"] = true
	var same *workflowtest.UpdateResult
	w.EachMinute(func() {
		same = w.SendUpdate(temporal.UpdateEdit, nodemaintenance.EditRequest{Spec: in.Object.Spec})
	}, w.CancelWorkflow)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Empty(t, same.Result.(edits.Answer).Changed)
	require.NotContains(t, status.Notes, "the request was edited")
	require.Len(t, w.InputsOf("Drain"), 1)
}

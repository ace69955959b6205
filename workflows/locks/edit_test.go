package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/temporal"
	locksworkflow "drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/workflowtest"
)

// editPolicy sends an edit of the policy under test.
func editPolicy(w *workflowtest.LockWorld, change func(*drydockv1.WorkloadLockPolicySpec)) *workflowtest.UpdateResult {
	policy := workflowtest.LockInput().Policy
	spec := policy.DeepCopy().Spec
	change(&spec)
	return w.SendUpdate(temporal.UpdateEdit, locksworkflow.EditRequest{Actor: "kim", Reason: "new label", Spec: spec})
}

func TestAnEditIsFollowed(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	router := func(s *drydockv1.WorkloadLockPolicySpec) {
		s.NodeSelector.MatchLabels = map[string]string{"router": "true"}
	}
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call == 2 {
			return temporal.Error(temporal.ErrInvalidSpec, "spec.nodeSelector: bad", nil)
		}
		return nil
	}
	var invalid, edited, same, other *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() {
		invalid = editPolicy(w, func(s *drydockv1.WorkloadLockPolicySpec) { s.NodeSelector.MatchLabels = map[string]string{"-": ""} })
	}, time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[locksworkflow.Status](w.World)
		require.Equal(t, locksworkflow.Running, status.State, "another edit may mend it")
		require.Equal(t, "spec.nodeSelector: bad", status.Wait.Message)
		edited = editPolicy(w, router)
	}, time.Minute+30*time.Second)
	w.RegisterDelayedCallback(func() {
		same = editPolicy(w, router)
		other = editPolicy(w, func(s *drydockv1.WorkloadLockPolicySpec) { s.ControllerName = "ceph" })
	}, 3*time.Minute)
	w.RegisterDelayedCallback(func() { w.CancelWorkflow() }, 4*time.Minute)
	w.Run(workflowtest.LockInput())
	status := workflowtest.RequireCancelled[locksworkflow.Status](w.World)
	require.NoError(t, invalid.Err)
	require.Equal(t, edits.Answer{Changed: []string{"spec.nodeSelector"}}, edited.Result)
	require.Empty(t, same.Result.(edits.Answer).Changed)
	require.ErrorContains(t, other.Rejected, "spec.controllerName: cannot be changed")
	require.Equal(t, "the policy was edited by kim: new label", status.Notes[0])
	applied := w.InputsOf("ApplyWorkloadLocks")
	require.Equal(t, map[string]string{"router": "true"}, applied[len(applied)-1].(lockcontroller.Input).Policy.NodeSelector.MatchLabels)
}

func TestAnEditOfAnObjectsControllerIsRefused(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	var refused *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() { refused = editPolicy(w, func(*drydockv1.WorkloadLockPolicySpec) {}) }, time.Minute)
	w.RegisterDelayedCallback(func() { w.CancelWorkflow() }, 2*time.Minute)
	w.Run(policyInput())
	require.ErrorContains(t, refused.Rejected, "follows the WorkloadLockPolicy ")
}

func TestAPreviewOfAnEditChangesNothing(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	preview := func(change func(*drydockv1.WorkloadLockPolicySpec)) (found edits.Preview[drydockv1.WorkloadLockPolicySpec]) {
		policy := workflowtest.LockInput().Policy
		spec := policy.DeepCopy().Spec
		change(&spec)
		answer, err := w.QueryWorkflow(temporal.QueryPreviewEdit, locksworkflow.EditRequest{Actor: "kim", Spec: spec})
		require.NoError(t, err)
		require.NoError(t, answer.Get(&found))
		return found
	}
	w.RegisterDelayedCallback(func() {
		router := func(s *drydockv1.WorkloadLockPolicySpec) {
			s.NodeSelector.MatchLabels = map[string]string{"router": "true"}
		}
		for range 2 {
			changed := preview(router)
			require.Equal(t, []string{"spec.nodeSelector"}, changed.Changed)
			require.Empty(t, changed.Refused)
			require.Equal(t, workflowtest.LockInput().Policy.Spec, changed.Spec)
		}
		require.Empty(t, preview(func(*drydockv1.WorkloadLockPolicySpec) {}).Changed)
		require.Contains(t, preview(func(s *drydockv1.WorkloadLockPolicySpec) { s.ControllerName = "other" }).Refused, "spec.controllerName: cannot be changed")
	}, time.Minute)
	w.RegisterDelayedCallback(w.CancelWorkflow, 2*time.Minute)
	w.ExecuteWorkflow(locksworkflow.WorkloadLockController, workflowtest.LockInput())
}

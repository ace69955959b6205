package edits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/edits"
)

func TestAnEditOfAMaintenanceChangesOnlyStepsThatHaveNotEnded(t *testing.T) {
	type spec = maintenancev1.NodeMaintenanceSpec
	force := func(s *spec) { s.DrainSpec = &maintenancev1.DrainSpec{Force: true} }
	for _, tt := range []struct {
		name    string
		state   maintenancev1.NodeState
		edit    func(*spec)
		changed []string
		problem string
	}{
		{name: "nothing", edit: func(*spec) {}},
		{name: "an empty list is no list", edit: func(s *spec) { s.AdditionalRequestors = []string{} }},
		{name: "the drain, during the drain", state: maintenancev1.NodeDraining, edit: force, changed: []string{"spec.drainSpec"}},
		{name: "the drain, after it", state: maintenancev1.NodeReady, edit: force, problem: "spec.drainSpec: cannot be changed now: the drain has ended"},
		{
			name: "the wait for pods, after it", state: maintenancev1.NodeDraining, problem: "spec.waitForPodCompletion: cannot be changed now: the wait for pods has ended",
			edit: func(s *spec) { s.WaitForPodCompletion = &maintenancev1.WaitForPodCompletionSpec{} },
		},
		{
			name: "a failure in the work, before it is over", state: maintenancev1.NodeRequestorFailed, changed: []string{"spec.onFailure"},
			edit: func(s *spec) { s.OnFailure = maintenancev1.FailureKeepCordoned },
		},
		{
			name: "the Job, once the work has begun", state: maintenancev1.NodeReady, problem: "spec.action: cannot be changed now: the work has begun",
			edit: func(s *spec) { s.Action = &maintenancev1.Action{} },
		},
		{
			name: "the node and the requestor", problem: "spec.nodeName, spec.requestorID: cannot be changed while the maintenance runs: cancel it and start another one",
			edit: func(s *spec) { s.NodeName, s.RequestorID = "n2", "other.example.com" },
		},
		{
			name: "several", changed: []string{"spec.drainSpec", "spec.onFailure"},
			edit: func(s *spec) { force(s); s.OnFailure = maintenancev1.FailureKeepCordoned },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := spec{RequestorID: "kim.example.com", NodeName: "n1"}
			after := before
			tt.edit(&after)
			changed, err := edits.CheckMaintenance(before, after, tt.state)
			require.Equal(t, tt.changed, changed)
			if tt.problem == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.problem)
			}
		})
	}
}

func TestAnEditOfALockPolicyKeepsItsController(t *testing.T) {
	before := drydockv1.WorkloadLockPolicySpec{ControllerName: "ceph", Namespace: "rook"}
	after := before
	after.MaxInactiveNodes = new(int32(2))
	changed, err := edits.CheckLockPolicy(before, after)
	require.NoError(t, err)
	require.Equal(t, []string{"spec.maxInactiveNodes"}, changed)
	after.ControllerName = "tf"
	_, err = edits.CheckLockPolicy(before, after)
	require.EqualError(t, err, "spec.controllerName: cannot be changed: this is the lock controller of ceph")
}

func TestAnEditSaysWhatItMeansForTheStepInProgress(t *testing.T) {
	type spec = maintenancev1.NodeMaintenanceSpec
	before := spec{AdditionalRequestors: []string{"a.example.com", "b.example.com"}}
	for _, tt := range []struct {
		name    string
		state   maintenancev1.NodeState
		edit    func(*spec)
		effects []string
	}{
		{"nothing", maintenancev1.NodeDraining, func(*spec) {}, nil},
		{"any field of a drain", maintenancev1.NodeDraining, func(s *spec) { s.OnFailure = maintenancev1.FailureKeepCordoned }, []string{"the drain begins again"}},
		{"any field of a wait for pods", maintenancev1.NodeWaitForPodCompletion, func(s *spec) { s.OnFailure = maintenancev1.FailureKeepCordoned }, []string{"the wait for pods begins again"}},
		{"only the receivers", maintenancev1.NodeDraining, func(s *spec) { s.Notify = []drydockv1.Notification{{URL: "https://chat.example.com"}} }, nil},
		{"a field of a later step", maintenancev1.NodePending, func(s *spec) { s.OnFailure = maintenancev1.FailureKeepCordoned }, nil},
		{
			"only the requestors", maintenancev1.NodeDraining, func(s *spec) { s.AdditionalRequestors = []string{"b.example.com", "c.example.com"} },
			[]string{"requestor c.example.com joins", "requestor a.example.com no longer needs the node"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := before
			tt.edit(&after)
			require.Equal(t, tt.effects, edits.MaintenanceEffects(before, after, edits.ChangedFields(before, after, "spec."), tt.state))
		})
	}
}

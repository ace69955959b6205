package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
)

func nightly() *drydockv1.MaintenanceWindow {
	return &drydockv1.MaintenanceWindow{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night", UID: "1", Generation: 2, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec: drydockv1.MaintenanceWindowSpec{
			TimeZone: "UTC", WindowTimes: drydockv1.WindowTimes{Recurrence: "FREQ=DAILY;BYHOUR=22", Duration: "4h"},
		},
	}
}

func TestTheRequestOfAMaintenanceWindowHasItsDefaultsAndOnlyItsSpec(t *testing.T) {
	of := &maintenanceWindow{cluster: &kube.Cluster{Name: "hub", Hub: true}}
	request := of.request(nightly()).(window.ObjectRequest)
	require.Empty(t, request.InvalidSpec)
	require.Equal(t, drydockv1.OverrunFinish, request.Object.Spec.OnOverrun)
	require.Empty(t, request.Object.ManagedFields)
	require.Empty(t, request.Source.Cluster, "it is on the hub")

	invalid := nightly()
	invalid.Spec.TimeZone = "Mars/Olympus"
	request = of.request(invalid).(window.ObjectRequest)
	require.Contains(t, request.InvalidSpec, "spec.timeZone")
	require.Empty(t, request.Object.Spec.TimeZone)
	_, refused, err := of.prepare(t.Context(), request.Source, invalid)
	require.NoError(t, err)
	require.Equal(t, reasonInvalidSpec, refused.Reason)
}

func TestAMaintenanceWindowThatIsOverStartsAgainWhenItChanges(t *testing.T) {
	of, object := &maintenanceWindow{}, nightly()
	require.False(t, of.over(object, true), "its workflow was terminated")
	object.Status = drydockv1.MaintenanceWindowStatus{Phase: string(windows.PhaseOver), ObservedGeneration: 1}
	require.False(t, of.over(object, true))
	object.Status.ObservedGeneration = 2
	require.True(t, of.over(object, false))
}

func TestAWorkflowWithAWindowAdoptsNoObject(t *testing.T) {
	of := &maintenanceWindow{}
	for phase, adopts := range map[windows.Phase]bool{
		"": true, windows.PhaseUndefined: true, windows.PhaseOver: true, windows.PhaseClosed: false, windows.PhaseOpen: false, windows.PhaseOverridden: false,
	} {
		require.Equal(t, adopts, of.adopts(run{exists: true, running: true, phase: string(phase)}), phase)
	}
}

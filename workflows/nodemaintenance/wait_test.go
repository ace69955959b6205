package nodemaintenance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

func waitsFor(reason string) *drydockv1.Wait { return &drydockv1.Wait{Reason: reason, Message: "m"} }

func TestAMaintenanceShowsItsMostImportantWait(t *testing.T) {
	atWork := maintenancev1.RequestorStatus{RequestorID: "ops", State: maintenancev1.RequestorActive}
	failed := maintenancev1.RequestorStatus{RequestorID: "gpu", State: maintenancev1.RequestorFailed}
	requestors := func(all ...maintenancev1.RequestorStatus) State {
		var s State
		for _, r := range all {
			s.Requestors = append(s.Requestors, &Requestor{RequestorStatus: r})
		}
		return s
	}
	stale, uncordoned := requestors(atWork), requestors(atWork)
	stale.Readiness = node.Readiness{Staleness: scheduling.Staleness{Stale: true, LimitSeconds: 60}}
	uncordoned.Readiness = node.Readiness{Uncordoned: true}
	window := &drydockv1.Hold{Window: "ops/night"}
	for _, tt := range []struct {
		name            string
		state           State
		waits           waits
		reason, message string
	}{
		{"nothing", State{}, waits{}, "", ""},
		{"a failing activity before an observation", State{}, waits{retry: waitsFor("NoWorker"), observed: waitsFor("DrainBlocked")}, "NoWorker", "m"},
		{"an observation before a gate", State{}, waits{observed: waitsFor("DrainBlocked"), gate: gateRequestors}, "DrainBlocked", "m"},
		{"a closed window", State{}, waits{gate: gateWindow, window: window}, emergency.ReasonWaitingForWindow, ""},
		{"a closed window only at its gate", State{}, waits{window: window}, "", ""},
		{"an open window", State{}, waits{gate: gateWindow}, "", ""},
		{"a slot", State{}, waits{gate: gateSlot, slot: waitsFor("NodeBudget")}, "NodeBudget", "m"},
		{"a node that can be shared", State{}, waits{gate: gateSlot, slot: waitsFor(string(scheduling.NodeBusy))}, string(scheduling.NodeBusy), "drydock node join"},
		{"no reply of the scheduler", State{}, waits{gate: gateSlot}, "", ""},
		{"a hold", State{}, waits{gate: gateRelease, release: waitsFor(emergency.ReasonHeld)}, emergency.ReasonHeld, "m"},
		{"a refusal by locks", State{}, waits{gate: gateRefused, refused: temporal.Error(temporal.ErrLockRefused, "ceph", nil)}, temporal.ErrLockRefused, "ceph"},
		{"requestors", requestors(atWork), waits{gate: gateRequestors}, ReasonAwaitingRequestor, "ops"},
		{"stale requestors", stale, waits{gate: gateRequestors}, ReasonStale, "60 s (maxNodeMaintenanceTimeSeconds)"},
		{"requestors of an uncordoned node", uncordoned, waits{gate: gateRequestors}, ReasonAwaitingRequestor, "no longer cordoned"},
		{"a failed requestor before the others", requestors(atWork, failed), waits{gate: gateRequestors}, reasonRequestorFailed, "recover"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait := tt.state.wait(tt.waits, metav1.NewTime(time.Unix(1000, 0)))
			if tt.reason == "" {
				require.Nil(t, wait)
				return
			}
			require.NotNil(t, wait)
			require.Equal(t, tt.reason, wait.Reason)
			require.Contains(t, wait.Message, tt.message)
		})
	}
}

func TestWaitsAreEqualDespiteDifferentStartTimes(t *testing.T) {
	earlier, later := waitsFor("NodeBudget"), waitsFor("NodeBudget")
	later.Since = metav1.NewTime(time.Unix(1000, 0))
	require.True(t, sameWait(earlier, later))
	later.Blockers = []drydockv1.Blocker{{Name: "n1"}}
	require.False(t, sameWait(earlier, later))
	require.False(t, sameWait(earlier, nil))
	require.True(t, sameWait(nil, nil))
}

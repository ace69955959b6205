package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
)

func TestAClusterShowsTheWaitWithTheHighestPriority(t *testing.T) {
	hold := &drydockv1.Hold{Scope: drydockv1.HoldAll, Since: waitNow, By: "ann"}
	tests := []struct {
		name   string
		waits  rollout.ClusterWaits
		reason string
	}{
		{"nothing", rollout.ClusterWaits{}, ""},
		{"a slot", rollout.ClusterWaits{Slots: waitsFor("NodeBudget")}, "NodeBudget"},
		{"a hold when nothing is in progress", rollout.ClusterWaits{Idle: "no node is started", Hold: hold, Paused: true, Slots: waitsFor("NodeBudget")}, emergency.ReasonHeld},
		{"no hold while nodes are under maintenance", rollout.ClusterWaits{Hold: hold, Slots: waitsFor("NodeBudget")}, "NodeBudget"},
		{"a pause when nothing is in progress", rollout.ClusterWaits{Idle: "no node is started", Paused: true}, "Paused"},
		{"locks that are requested again later", rollout.ClusterWaits{Refused: waitsFor("LockRefused"), Slots: waitsFor("NodeBudget")}, "LockRefused"},
		{"the wait of the step in progress", rollout.ClusterWaits{Observed: waitsFor("Unhealthy"), Refused: waitsFor("LockRefused")}, "Unhealthy"},
		{"a failing activity before all others", rollout.ClusterWaits{Retry: waitsFor("NoWorker"), Observed: waitsFor("Unhealthy"), Idle: "x", Hold: hold}, "NoWorker"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wait := test.waits.Current(waitNow)
			if test.reason == "" {
				require.Nil(t, wait)
				return
			}
			require.Equal(t, test.reason, wait.Reason)
			require.NotEmpty(t, wait.Message)
		})
	}
}

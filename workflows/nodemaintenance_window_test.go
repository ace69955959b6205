package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// The answer comes when the window has closed, and the node is out of service.
func TestWhatBecomesOfAMaintenanceWhoseWindowClosesWhileItsNodeIsTaken(t *testing.T) {
	handedOverAfter := map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Minute, drydockv1.OverrunPause: 24*time.Hour + time.Minute, drydockv1.OverrunCancel: 0,
	}
	for action, after := range handedOverAfter {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = action
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
			w.fail["TakeNode"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			if action == drydockv1.OverrunPause {
				w.lookAfter(23*time.Hour, func() { require.NotContains(t, w.called(), "Drain") })
				w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			}
			if after > 0 {
				w.lookAfter(after, func() {
					require.True(t, statusOf[nodeStatus](w).HandedOver)
					require.Nil(t, statusOf[nodeStatus](w).Held, "nothing holds it any more")
					w.SignalWorkflow(temporal.SignalDone, nil)
				})
			}
			in := maintenanceInWindow()
			in.Object.Spec.Action = nil
			w.ExecuteWorkflow(NodeMaintenance, in)
			if action != drydockv1.OverrunCancel {
				requireResult[nodeStatus](w)
				return
			}
			require.Contains(t, requireCancelled[nodeStatus](w).Notes[0], "cancelled by window ops/night")
			require.NotContains(t, w.called(), "Drain")
		})
	}
}

package portal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	portalworkflow "drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAPortalShowsAWindowThatIsAnnouncedAfterEverythingWasDeleted(t *testing.T) {
	announced, deleted := workflowtest.SignalWithPayload{Name: temporal.SignalAnnouncement, Payload: workflowtest.NightAnnounced(1, workflowtest.Noon.Add(time.Hour))}, workflowtest.SignalWithPayload{Name: temporal.SignalCancel}
	for openings, signals := range map[int][]workflowtest.SignalWithPayload{2: {deleted, announced}, 0: {announced, deleted}} {
		w := workflowtest.NewPortalWorld(t)
		w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
		w.RegisterDelayedCallback(func() { w.SendInOneTask(signals...) }, time.Minute)
		var view portal.View
		w.RegisterDelayedCallback(func() { view = workflowtest.StatusOf[portal.View](w.World) }, time.Minute+time.Second)
		w.ExecuteWorkflow(portalworkflow.StatusPortal, portalworkflow.Input{})
		require.Len(t, view.Upcoming, openings)
	}
}

package workflowtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/portals"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	portalworkflow "drydock.dev/drydock/workflows/portal"
)

// PortalWorld plays the windows that the portal main shows, and other portals.
type PortalWorld struct {
	*World
	// Gone: windows do not run any more. asked are those that were asked to announce themselves.
	Gone  bool
	Asked []string
	// Asking is how windows are asked.
	Asking *testsuite.MockCallWrapper
	// Answers and refusals of updates.
	Answers  []portal.Answer
	Refusals []string
}

func NewPortalWorld(t *testing.T) *PortalWorld {
	w := &PortalWorld{World: NewWorld(t)}
	w.SetStartTime(Noon)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "portal/main", TaskQueue: temporal.TaskQueue})
	Play(w.World, "SeekWindows", func(string) any { return nil })
	Play(w.World, "ClaimObjects", func(portal.Move) any { return nil })
	w.Asking = w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalAnnounce, mock.Anything).Return(
		func(_, id, _, _ string, _ any) error {
			w.Asked = append(w.Asked, id)
			if w.Gone {
				return fmt.Errorf("there is no %s", id)
			}
			return nil
		}).Maybe()
	return w
}

// Order sends an update a while after the beginning.
func (w *PortalWorld) Order(after time.Duration, update string, request any) {
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(update, fmt.Sprintf("%s-%s", update, after), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { w.Refusals = append(w.Refusals, err.Error()) },
			OnComplete: func(answer any, err error) {
				if err != nil {
					w.Refusals = append(w.Refusals, err.Error())
					return
				}
				w.Answers = append(w.Answers, answer.(portal.Answer))
			},
		}, request)
	}, after)
}

// handsOver runs the portal until it continues as new, and returns what it hands over.
func (w *PortalWorld) handsOver(in portalworkflow.Input) portalworkflow.Input {
	w.T.Helper()
	w.ExecuteWorkflow(portalworkflow.StatusPortal, in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var out portalworkflow.Input
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out
}

// RunsFor runs the portal for a while, and returns what it hands over then.
func (w *PortalWorld) RunsFor(d time.Duration, in portalworkflow.Input) portalworkflow.Input {
	w.T.Helper()
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalMoved, portal.Move{To: "main"}) // it looks when it is woken
	}, d)
	return w.handsOver(in)
}

func ShopComponent(name string) sreportalv1.Component {
	return sreportalv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec:       sreportalv1.ComponentSpec{DisplayName: name, Group: "Shop", PortalRef: "main", Status: sreportalv1.StatusOperational},
	}
}

func SwitchesFrom(start time.Time) sreportalv1.Maintenance {
	return sreportalv1.Maintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "switches"},
		Spec: sreportalv1.MaintenanceSpec{
			Title: "New switches", PortalRef: "main", Components: []string{"web"}, ScheduledStart: metav1.NewTime(start), ScheduledEnd: metav1.NewTime(start.Add(time.Hour)),
		},
	}
}

// Shop applies the component web, and a maintenance of it in an hour.
func Shop() portal.ApplyRequest {
	return portal.ApplyRequest{
		Request: portal.Request{Actor: "ann"}, Components: []sreportalv1.Component{ShopComponent("web")},
		Maintenances: []sreportalv1.Maintenance{SwitchesFrom(Noon.Add(time.Hour))},
	}
}

// NightAnnounced is what window prod/night tells before it opens.
func NightAnnounced(number int64, start time.Time) portal.Announcement {
	return portal.Announcement{
		Window: NightWindow, Number: number, Portal: "main", Title: "Nightly", Components: []string{"web"}, AffectedStatus: sreportalv1.StatusDegraded,
		Openings: []windows.Opening{{Start: start, End: start.Add(time.Hour)}, {Start: start.AddDate(0, 0, 1), End: start.AddDate(0, 0, 1).Add(time.Hour)}},
	}
}

// Announced are what a window has told of itself, to which portal.
func (w *WindowWorld) Announced() []portals.AnnounceWindowInput {
	var told []portals.AnnounceWindowInput
	for _, in := range w.InputsOf("AnnounceWindow") {
		told = append(told, in.(portals.AnnounceWindowInput))
	}
	return told
}

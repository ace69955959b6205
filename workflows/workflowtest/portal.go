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

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/portals"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	portalworkflow "drydock.dev/drydock/workflows/portal"
)

// PortalWorld simulates other portals and the windows that the portal main shows.
type PortalWorld struct {
	*World
	// Gone: the windows no longer run. Asked are those that were asked to announce themselves.
	Gone  bool
	Asked []string
	// Asking is the mock of that signal.
	Asking *testsuite.MockCallWrapper
	// Answers and Refusals are the results of updates.
	Answers  []portal.Answer
	Refusals []string
	// GoneObjects are the objects that no longer exist. Published are the statuses that were written, by name of the object.
	GoneObjects map[string]bool
	Published   map[string][]any
}

// NewPortalWorld returns a world that starts at Noon.
func NewPortalWorld(t *testing.T) *PortalWorld {
	w := &PortalWorld{World: NewWorld(t), GoneObjects: map[string]bool{}, Published: map[string][]any{}}
	w.SetStartTime(Noon)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "portal/main", TaskQueue: temporal.TaskQueue})
	Simulate(w.World, "RequestAnnouncements", func(string) any { return nil })
	Simulate(w.World, "PublishStatuses", func(all []objects.PublishStatusInput) any {
		results := make([]objects.PublishedStatus, len(all))
		for i, in := range all {
			results[i].Gone = w.GoneObjects[in.Object.Name]
			w.Published[in.Object.Name] = append(w.Published[in.Object.Name], in.Status)
		}
		return results
	})
	Simulate(w.World, "ClaimObjects", func(portal.Move) any { return nil })
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

// UpdateAfter sends an update that long after the start.
func (w *PortalWorld) UpdateAfter(after time.Duration, update string, request any) {
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

// continuesAsNew runs the portal until it continues as new, and returns the input of the next run.
func (w *PortalWorld) continuesAsNew(in portalworkflow.Input) portalworkflow.Input {
	w.T.Helper()
	w.ExecuteWorkflow(portalworkflow.StatusPortal, in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var out portalworkflow.Input
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out
}

// RunsFor lets the portal continue as new after that time, and returns the input of the next run.
func (w *PortalWorld) RunsFor(d time.Duration, in portalworkflow.Input) portalworkflow.Input {
	w.T.Helper()
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalMoved, portal.Move{To: "main"}) // the signal wakes the workflow
	}, d)
	return w.continuesAsNew(in)
}

// ShopComponent returns a component of the group Shop.
func ShopComponent(name string) sreportalv1.Component {
	return sreportalv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec:       sreportalv1.ComponentSpec{DisplayName: name, Group: "Shop", PortalRef: "main", Status: sreportalv1.StatusOperational},
	}
}

// SwitchesFrom returns a maintenance of the component web that takes an hour.
func SwitchesFrom(start time.Time) sreportalv1.Maintenance {
	return sreportalv1.Maintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "switches"},
		Spec: sreportalv1.MaintenanceSpec{
			Title: "New switches", PortalRef: "main", Components: []string{"web"}, ScheduledStart: metav1.NewTime(start), ScheduledEnd: metav1.NewTime(start.Add(time.Hour)),
		},
	}
}

// Shop returns a request that applies the component web, and a maintenance of it in an hour.
func Shop() portal.ApplyRequest {
	return portal.ApplyRequest{
		Request: portal.Request{Actor: "ann"}, Components: []sreportalv1.Component{ShopComponent("web")},
		Maintenances: []sreportalv1.Maintenance{SwitchesFrom(Noon.Add(time.Hour))},
	}
}

// NightAnnounced is an announcement of window prod/night before it opens.
func NightAnnounced(number int64, start time.Time) portal.Announcement {
	return portal.Announcement{
		Window: NightWindow, Number: number, Portal: "main", Title: "Nightly", Components: []string{"web"}, AffectedStatus: sreportalv1.StatusDegraded,
		Openings: []windows.Opening{{Start: start, End: start.Add(time.Hour)}, {Start: start.AddDate(0, 0, 1), End: start.AddDate(0, 0, 1).Add(time.Hour)}},
	}
}

// Announced returns the announcements that a window has sent so far, with their portals.
func (w *WindowWorld) Announced() []portals.AnnounceWindowInput {
	var sent []portals.AnnounceWindowInput
	for _, in := range w.InputsOf("AnnounceWindow") {
		sent = append(sent, in.(portals.AnnounceWindowInput))
	}
	return sent
}

package workflows

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// portalWorld plays the windows that the portal main shows, and other portals.
type portalWorld struct {
	*world
	// gone: windows do not run any more. asked are those that were asked to announce themselves.
	gone  bool
	asked []string
	// asking is how windows are asked.
	asking *testsuite.MockCallWrapper
	// answers and refusals of updates.
	answers  []portal.Answer
	refusals []string
}

func newPortalWorld(t *testing.T) *portalWorld {
	w := &portalWorld{world: newWorld(t)}
	w.SetStartTime(noon)
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "portal/main", TaskQueue: temporal.TaskQueue})
	play(w.world, "SeekWindows", func(string) any { return nil })
	play(w.world, "ClaimObjects", func(portal.Move) any { return nil })
	w.asking = w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalAnnounce, mock.Anything).Return(
		func(_, id, _, _ string, _ any) error {
			w.asked = append(w.asked, id)
			if w.gone {
				return fmt.Errorf("there is no %s", id)
			}
			return nil
		}).Maybe()
	return w
}

// order sends an update a while after the beginning.
func (w *portalWorld) order(after time.Duration, update string, request any) {
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(update, fmt.Sprintf("%s-%s", update, after), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { w.refusals = append(w.refusals, err.Error()) },
			OnComplete: func(answer any, err error) {
				if err != nil {
					w.refusals = append(w.refusals, err.Error())
					return
				}
				w.answers = append(w.answers, answer.(portal.Answer))
			},
		}, request)
	}, after)
}

// handsOver runs the portal until it continues as new, and returns what it hands over.
func (w *portalWorld) handsOver(in StatusPortalInput) StatusPortalInput {
	w.t.Helper()
	w.ExecuteWorkflow(StatusPortal, in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.GetWorkflowError(), &next)
	var out StatusPortalInput
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	return out
}

// runsFor runs the portal for a while, and returns what it hands over then.
func (w *portalWorld) runsFor(d time.Duration, in StatusPortalInput) StatusPortalInput {
	w.t.Helper()
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalMoved, portal.Move{To: "main"}) // it looks when it is woken
	}, d)
	return w.handsOver(in)
}

func shopComponent(name string) sreportalv1.Component {
	return sreportalv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name},
		Spec:       sreportalv1.ComponentSpec{DisplayName: name, Group: "Shop", PortalRef: "main", Status: sreportalv1.StatusOperational},
	}
}

func switchesFrom(start time.Time) sreportalv1.Maintenance {
	return sreportalv1.Maintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "switches"},
		Spec: sreportalv1.MaintenanceSpec{
			Title: "New switches", PortalRef: "main", Components: []string{"web"}, ScheduledStart: metav1.NewTime(start), ScheduledEnd: metav1.NewTime(start.Add(time.Hour)),
		},
	}
}

// shop applies the component web, and a maintenance of it in an hour.
func shop() portal.ApplyRequest {
	return portal.ApplyRequest{
		Request: portal.Request{Actor: "ann"}, Components: []sreportalv1.Component{shopComponent("web")},
		Maintenances: []sreportalv1.Maintenance{switchesFrom(noon.Add(time.Hour))},
	}
}

// nightAnnounced is what window prod/night tells before it opens.
func nightAnnounced(number int64, start time.Time) portal.Announcement {
	return portal.Announcement{
		Window: nightWindow, Number: number, Portal: "main", Title: "Nightly", Components: []string{"web"}, AffectedStatus: sreportalv1.StatusDegraded,
		Openings: []windows.Opening{{Start: start, End: start.Add(time.Hour)}, {Start: start.AddDate(0, 0, 1), End: start.AddDate(0, 0, 1).Add(time.Hour)}},
	}
}

func TestAPortalShowsAMaintenanceFromItsStartToItsEndToTheSecond(t *testing.T) {
	w := newPortalWorld(t)
	w.order(0, temporal.UpdateApply, shop())
	seen := map[time.Duration]portal.View{}
	for _, after := range []time.Duration{time.Minute, time.Hour + 10*time.Millisecond, 2*time.Hour - time.Second, 2*time.Hour + 10*time.Millisecond} {
		w.RegisterDelayedCallback(func() { seen[after] = statusOf[portal.View](w.world) }, after)
	}
	next := w.runsFor(26*time.Hour, StatusPortalInput{})
	require.Empty(t, w.refusals)
	require.Equal(t, []string{"component web added", "maintenance switches added"}, w.answers[0].Changes)
	require.Equal(t, sreportalv1.StatusOperational, seen[time.Minute].Status)
	require.Equal(t, "switches", seen[time.Minute].Upcoming[0].Name)
	require.Equal(t, sreportalv1.StatusMaintenance, seen[time.Hour+10*time.Millisecond].Status)
	require.Equal(t, []string{"switches"}, seen[2*time.Hour-time.Second].Components[0].Because)
	require.Equal(t, sreportalv1.StatusOperational, seen[2*time.Hour+10*time.Millisecond].Status)
	require.Len(t, next.Carried.Portal.Components[0].History, 2, "there is a new day")
	require.Len(t, w.inputsOf("SeekWindows"), 2, "windows are asked twice by a portal that has just begun")
	claimed := w.inputsOf("ClaimObjects")
	require.Len(t, claimed, 2)
	require.Equal(t, "web", claimed[0].(portal.Move).Components[0].Name)

	// Nobody was there for three days, over the start and the end of another maintenance.
	next.Carried.Portal.Maintenances[0] = portal.Maintenance{Name: "switches", Spec: switchesFrom(noon.AddDate(0, 0, 2)).Spec}
	late := newPortalWorld(t)
	late.SetStartTime(noon.AddDate(0, 0, 4))
	next = late.runsFor(time.Minute, next)
	require.Empty(t, late.inputsOf("SeekWindows"))
	require.Equal(t, noon.AddDate(0, 0, 2).Add(time.Hour+1), next.Carried.Portal.Components[0].Since.UTC())
	view := next.Carried.Portal.View()
	require.Equal(t, int64(3600), view.Components[0].Days[27].StatusSeconds[sreportalv1.StatusMaintenance])
}

func TestAPortalShowsWhatWindowsTellAndForgetsThoseThatAreGone(t *testing.T) {
	w := newPortalWorld(t)
	w.order(0, temporal.UpdateApply, portal.ApplyRequest{Components: []sreportalv1.Component{shopComponent("web")}})
	start := noon.Add(time.Hour)
	tell := func(after time.Duration, a portal.Announcement) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnouncement, a) }, after)
	}
	tell(time.Second, nightAnnounced(1, start))
	begun := nightAnnounced(2, start)
	begun.Openings[0].Begun = true
	tell(time.Hour, begun)
	w.RegisterDelayedCallback(func() { require.Len(t, statusOf[portal.View](w.world).Upcoming, 2) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() { require.Equal(t, sreportalv1.StatusDegraded, statusOf[portal.View](w.world).Status) }, 90*time.Minute)
	w.RegisterDelayedCallback(func() {
		view := statusOf[portal.View](w.world)
		require.Equal(t, sreportalv1.StatusOperational, view.Status)
		require.Len(t, view.Completed, 1)
		require.Len(t, view.Upcoming, 1)
		w.gone = true
	}, 2*time.Hour+time.Second)
	w.RegisterDelayedCallback(func() {
		view := statusOf[portal.View](w.world)
		require.Empty(t, append(view.Upcoming, view.InProgress...), "it has not opened")
		require.Equal(t, []string{"window/ops/night"}, w.asked)
	}, 25*time.Hour+2*time.Minute)
	next := w.runsFor(26*time.Hour, StatusPortalInput{})
	require.Empty(t, next.Carried.Portal.Windows)
}

func TestWhatFallsDueWhileAPortalAsksASilentWindowIsNotMissed(t *testing.T) {
	w := newPortalWorld(t)
	w.asking.After(time.Minute)
	request := shop()
	request.Maintenances[0] = switchesFrom(noon.Add(2*time.Hour + 90*time.Second))
	w.order(0, temporal.UpdateApply, request)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalAnnouncement, nightAnnounced(1, noon.Add(2*time.Hour))) // it is asked a minute after that
	}, time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"window/" + nightWindow}, w.asked)
		require.Equal(t, []string{"switches"}, statusOf[portal.View](w.world).Components[0].Because)
	}, 2*time.Hour+3*time.Minute)
	w.runsFor(3*time.Hour, StatusPortalInput{})
}

func TestOrdersOfAPortalThatCannotBeCarriedOutAreRefused(t *testing.T) {
	elsewhere, broken := shop(), shop()
	elsewhere.Components[0].Spec.PortalRef = "other"
	broken.Maintenances[0].Spec.ScheduledEnd = broken.Maintenances[0].Spec.ScheduledStart
	broken.Components[0].Spec.Link = "javascript:alert(1)"
	for name, tt := range map[string]struct {
		update  string
		request any
		says    string
	}{
		"what another portal shows":    {temporal.UpdateApply, elsewhere, `Component prod/web: spec.portalRef: is "other", and this is portal main`},
		"an end at the start":          {temporal.UpdateApply, broken, "invalid schedule"},
		"to delete what is not there":  {temporal.UpdateDelete, portal.DeleteRequest{Components: []string{"disk"}}, "the portal has no disk"},
		"to cancel what is not there":  {temporal.UpdateCancelMaintenance, portal.CancelRequest{Maintenance: "m"}, "the portal has no maintenance m"},
		"to cancel a window's opening": {temporal.UpdateCancelMaintenance, portal.CancelRequest{Maintenance: "prod/night/1"}, "drydock window cancel prod/night"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPortalWorld(t)
			w.order(0, temporal.UpdateApply, shop())
			w.order(time.Second, tt.update, tt.request)
			next := w.runsFor(time.Minute, StatusPortalInput{})
			require.Len(t, w.refusals, 1)
			require.Contains(t, w.refusals[0], tt.says)
			require.NotContains(t, w.refusals[0], "\n")
			require.Len(t, w.answers, 1)
			require.Len(t, next.Carried.Portal.Events, 1, "nothing was touched")
		})
	}
}

func TestAPortalThatHasNothingToShowEnds(t *testing.T) {
	for name, undo := range map[string]func(*portalWorld){
		"when all is deleted":  func(w *portalWorld) { w.order(time.Hour, temporal.UpdateDelete, portal.DeleteRequest{All: true}) },
		"when it is cancelled": func(w *portalWorld) { w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour) },
		"when that is signalled": func(w *portalWorld) {
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPortalWorld(t)
			w.order(0, temporal.UpdateApply, shop())
			undo(w)
			w.ExecuteWorkflow(StatusPortal, StatusPortalInput{})
			require.Empty(t, requireResult[portal.View](w.world).Components)
			require.WithinDuration(t, noon.Add(time.Hour+forgotten), w.Now(), 2*time.Second)
		})
	}
}

func TestWhatAnotherPortalShowsLeavesAPortal(t *testing.T) {
	w := newPortalWorld(t)
	w.order(0, temporal.UpdateApply, shop())
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalMoved, portal.Move{To: "other", Components: []portal.Object{{Namespace: "prod", Name: "web", At: w.Now()}}})
	}, time.Minute)
	next := w.runsFor(time.Hour, StatusPortalInput{})
	require.Empty(t, next.Carried.Portal.Components)
	require.Len(t, next.Carried.Portal.Maintenances, 1)
}

func TestWhatAPortalShowsGoesOnInTheNextRun(t *testing.T) {
	w := newPortalWorld(t)
	w.order(0, temporal.UpdateApply, shop())
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnouncement, nightAnnounced(1, noon.AddDate(0, 0, 1))) }, time.Minute)
	next := w.runsFor(90*time.Minute, StatusPortalInput{})
	before := next.Carried.Portal.View()
	require.Equal(t, []string{"switches"}, before.Components[0].Because)
	require.Len(t, before.Upcoming, 2)

	second := newPortalWorld(t)
	second.SetStartTime(noon.Add(90*time.Minute + time.Second))
	var after portal.View
	second.RegisterDelayedCallback(func() { after = statusOf[portal.View](second.world) }, time.Minute)
	over := noon.Add(2 * time.Hour)
	var is, was sreportalv1.ServiceStatus
	second.RegisterDelayedCallback(func() { was = statusOf[portal.View](second.world).Status }, 29*time.Minute+58*time.Second)
	second.RegisterDelayedCallback(func() { is = statusOf[portal.View](second.world).Status }, 29*time.Minute+59*time.Second+10*time.Millisecond)
	last := second.runsFor(time.Hour, next)
	for _, v := range []*portal.View{&before, &after} {
		v.AsOf, v.Components[0].Days = time.Time{}, nil // time has passed
	}
	require.Equal(t, before, after)
	require.Equal(t, sreportalv1.StatusMaintenance, was)
	require.Equal(t, sreportalv1.StatusOperational, is)
	require.Equal(t, over.Add(1), last.Carried.Portal.Components[0].Since.UTC(), "to the second, whichever run it is")
}

func TestAPortalThatContinuesAsNewClaimsWhatItHasNotClaimedYet(t *testing.T) {
	w := newPortalWorld(t)
	w.fail["ClaimObjects"] = always(fmt.Errorf("nobody answers"))
	w.order(0, temporal.UpdateApply, shop())
	next := w.runsFor(30*time.Second, StatusPortalInput{})
	require.False(t, next.Carried.Claims.Empty())
	require.True(t, next.Carried.ToldOnce.Empty())
	require.True(t, next.Carried.Unsought)
	second := newPortalWorld(t)
	next = second.runsFor(30*time.Second, next)
	require.True(t, next.Carried.Claims.Empty())
	require.False(t, next.Carried.ToldOnce.Empty())
	require.True(t, next.Carried.Unsought)
	third := newPortalWorld(t)
	next = third.runsFor(2*time.Minute, next)
	require.True(t, next.Carried.ToldOnce.Empty())
	require.Len(t, third.inputsOf("ClaimObjects"), 1)
	require.False(t, next.Carried.Unsought)
	require.Equal(t, "web", second.inputsOf("ClaimObjects")[0].(portal.Move).Components[0].Name)
}

func TestAPortalTellsOthersAtOnceOfAllThatItShowsNow(t *testing.T) {
	w := newPortalWorld(t)
	for i := range 30 {
		one := portal.ApplyRequest{Components: []sreportalv1.Component{shopComponent(fmt.Sprintf("c%d", i))}}
		w.order(time.Duration(i)*time.Second, temporal.UpdateApply, one)
	}
	silences := map[string]time.Duration{}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		silences[info.ActivityType.Name] = info.HeartbeatTimeout
	})
	told := map[string]int{}
	count := func() {
		clear(told)
		for _, in := range w.inputsOf("ClaimObjects") {
			for _, c := range in.(portal.Move).Components {
				told[c.Name]++
			}
		}
	}
	w.RegisterDelayedCallback(func() {
		count()
		require.Len(t, told, 30)
		require.Equal(t, 1, told["c29"])
	}, 31*time.Second)
	next := w.runsFor(3*time.Minute, StatusPortalInput{})
	count()
	for name, times := range told {
		require.Equal(t, 2, times, name)
	}
	require.True(t, next.Carried.ToldOnce.Empty())
	require.Equal(t, map[string]time.Duration{"ClaimObjects": heartbeatTimeout, "SeekWindows": heartbeatTimeout}, silences, "there may be very many to tell")
}

// announced are what a window has told of itself, to which portal.
func (w *windowWorld) announced() []activities.AnnounceWindowInput {
	var told []activities.AnnounceWindowInput
	for _, in := range w.inputsOf("AnnounceWindow") {
		told = append(told, in.(activities.AnnounceWindowInput))
	}
	return told
}

func newShownWindow(t *testing.T) (*windowWorld, windows.DefineRequest) {
	w := newWindowWorld(t, noon)
	play(w.world, "AnnounceWindow", func(activities.AnnounceWindowInput) any { return nil })
	request := defined()
	request.Object.Spec.Title, request.Object.Spec.PortalRef, request.Object.Spec.Components = "Nightly", "main", []string{"web"}
	return w, request
}

func TestAWindowTellsItsPortalOfItsOpenings(t *testing.T) {
	w, request := newShownWindow(t)
	w.order(0, temporal.UpdateDefine, request)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "other"}) }, time.Hour)
	w.RegisterDelayedCallback(func() { require.Len(t, w.announced(), 1, "another portal is none of its business") }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "main"}) }, 3*time.Hour)
	w.RegisterDelayedCallback(func() { require.Len(t, w.announced(), 2) }, 4*time.Hour)
	next := w.runsOn(MaintenanceWindowInput{})
	told := w.announced()
	require.Equal(t, "main", told[0].Portal)
	require.Equal(t, noon.Add(10*time.Hour), told[0].Announcement.Openings[0].Start.UTC())
	last := told[len(told)-1].Announcement
	require.True(t, last.Openings[0].Begun, "the end is told by the next run")
	require.Less(t, next.Carried.Shown.Told, next.Carried.Number)

	w, _ = newShownWindow(t)
	w.SetStartTime(noon.Add(14 * time.Hour))
	w.RegisterDelayedCallback(func() { require.False(t, w.announced()[0].Announcement.Openings[0].Begun) }, time.Minute)
	w.runsOn(next)
}

// A window of this name that was terminated has told it.
func TestAPortalThatShowsAWindowOfAnotherIsToldThatItIsNotTo(t *testing.T) {
	w, request := newShownWindow(t)
	w.order(0, temporal.UpdateDefine, request)
	for _, after := range []time.Duration{time.Hour, 2 * time.Hour} {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "other", Shown: true}) }, after)
	}
	w.RegisterDelayedCallback(func() {
		told := w.announced()
		last := told[len(told)-1]
		require.Equal(t, "other", last.Portal)
		require.Equal(t, "main", last.Announcement.Portal)
	}, 90*time.Minute)
	w.RegisterDelayedCallback(func() { require.Len(t, w.announced(), 5, "each inquiry is answered once") }, 3*time.Hour)
	require.Empty(t, w.runsOn(MaintenanceWindowInput{}).Carried.Shown.Astray)
}

func TestAWindowEndsOnlyWhenItsPortalKnows(t *testing.T) {
	w, request := newShownWindow(t)
	w.order(0, temporal.UpdateDefine, request)
	w.order(time.Hour, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.fail["AnnounceWindow"] = func(call int) error {
		if call > 1 && call < 30 {
			return fmt.Errorf("nobody answers")
		}
		return nil
	}
	w.ExecuteWorkflow(MaintenanceWindow, MaintenanceWindowInput{})
	require.NoError(t, w.GetWorkflowError())
	told := w.announced()
	require.Len(t, told, 31, "the last when its calendar was read once more")
	require.Empty(t, told[30].Announcement.Openings)
	require.Greater(t, w.Now().Sub(noon), time.Hour+2*forgotten)
}

func TestAWindowThatMovesToAnotherPortalTellsBoth(t *testing.T) {
	w, request := newShownWindow(t)
	w.order(0, temporal.UpdateDefine, request)
	moved, hidden := request, request
	moved.Object.Spec.PortalRef = "other"
	hidden.Object.Spec.Title = ""
	w.order(time.Hour, temporal.UpdateEdit, moved)
	w.order(2*time.Hour, temporal.UpdateEdit, hidden)
	w.RegisterDelayedCallback(func() {
		var told []string
		for _, in := range w.announced() {
			told = append(told, in.Portal+" of "+in.Announcement.Portal)
		}
		require.Equal(t, []string{"main of main", "other of other", "main of other", "other of "}, told)
	}, 3*time.Hour)
	w.runsOn(MaintenanceWindowInput{})
	require.Empty(t, w.refusals)
}

func TestAPortalThatCannotBeToldHoldsUpNothing(t *testing.T) {
	w, request := newShownWindow(t)
	w.fail["AnnounceWindow"] = always(fmt.Errorf("nobody answers"))
	w.follows(0)
	w.order(0, temporal.UpdateDefine, request)
	w.RegisterDelayedCallback(func() { require.True(t, windows.Ask(w.told[len(w.told)-1:], w.Now(), 0).Allowed) }, 10*time.Hour+time.Second)
	w.runsOn(MaintenanceWindowInput{})
	require.WithinDuration(t, noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}

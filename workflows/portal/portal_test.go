package portal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/activities/portals"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	portalworkflow "drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAPortalShowsAMaintenanceExactlyFromItsStartToItsEnd(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
	seen := map[time.Duration]portal.View{}
	for _, after := range []time.Duration{time.Minute, time.Hour + 10*time.Millisecond, 2*time.Hour - time.Second, 2*time.Hour + 10*time.Millisecond} {
		w.RegisterDelayedCallback(func() { seen[after] = workflowtest.StatusOf[portal.View](w.World) }, after)
	}
	next := w.RunsFor(26*time.Hour, portalworkflow.Input{})
	require.Empty(t, w.Refusals)
	require.Equal(t, []string{"component web added", "maintenance switches added"}, w.Answers[0].Changes)
	require.Equal(t, sreportalv1.StatusOperational, seen[time.Minute].Status)
	require.Equal(t, "switches", seen[time.Minute].Upcoming[0].Name)
	require.Equal(t, sreportalv1.StatusMaintenance, seen[time.Hour+10*time.Millisecond].Status)
	require.Equal(t, []string{"switches"}, seen[2*time.Hour-time.Second].Components[0].Because)
	require.Equal(t, sreportalv1.StatusOperational, seen[2*time.Hour+10*time.Millisecond].Status)
	require.Len(t, next.Carried.Portal.Components[0].History, 2, "a day has passed")
	require.Len(t, w.InputsOf("RequestAnnouncements"), 2, "a new portal asks windows twice")
	claimed := w.InputsOf("ClaimObjects")
	require.Len(t, claimed, 2)
	require.Equal(t, "web", claimed[0].(portal.Move).Components[0].Name)
	require.Equal(t, []string{
		"Portal status changed portal=main status=operational",
		"Portal status changed portal=main status=maintenance",
		"Portal status changed portal=main status=operational",
		"Portal continues as new portal=main",
	}, w.Log.Lines("portal", "status"))

	// For three days no worker ran. Another maintenance started and ended in that time.
	next.Carried.Portal.Maintenances[0] = portal.Maintenance{Name: "switches", Spec: workflowtest.SwitchesFrom(workflowtest.Noon.AddDate(0, 0, 2)).Spec}
	late := workflowtest.NewPortalWorld(t)
	late.SetStartTime(workflowtest.Noon.AddDate(0, 0, 4))
	next = late.RunsFor(time.Minute, next)
	require.Empty(t, late.InputsOf("RequestAnnouncements"))
	require.Equal(t, workflowtest.Noon.AddDate(0, 0, 2).Add(time.Hour+1), next.Carried.Portal.Components[0].Since.UTC())
	view := next.Carried.Portal.View()
	require.Equal(t, int64(3600), view.Components[0].Days[27].StatusSeconds[sreportalv1.StatusMaintenance])
}

func TestAPortalShowsAnnouncedWindowsAndRemovesDeletedOnes(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateApply, portal.ApplyRequest{Components: []sreportalv1.Component{workflowtest.ShopComponent("web")}})
	start := workflowtest.Noon.Add(time.Hour)
	announce := func(after time.Duration, a portal.Announcement) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnouncement, a) }, after)
	}
	announce(time.Second, workflowtest.NightAnnounced(1, start))
	begun := workflowtest.NightAnnounced(2, start)
	begun.Openings[0].Begun = true
	announce(time.Hour, begun)
	w.RegisterDelayedCallback(func() { require.Len(t, workflowtest.StatusOf[portal.View](w.World).Upcoming, 2) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, sreportalv1.StatusDegraded, workflowtest.StatusOf[portal.View](w.World).Status)
	}, 90*time.Minute)
	w.RegisterDelayedCallback(func() {
		view := workflowtest.StatusOf[portal.View](w.World)
		require.Equal(t, sreportalv1.StatusOperational, view.Status)
		require.Len(t, view.Completed, 1)
		require.Len(t, view.Upcoming, 1)
		w.Gone = true
	}, 2*time.Hour+time.Second)
	w.RegisterDelayedCallback(func() {
		view := workflowtest.StatusOf[portal.View](w.World)
		require.Empty(t, append(view.Upcoming, view.InProgress...), "the window has not opened")
		require.Equal(t, []string{"window/ops/night"}, w.Asked)
	}, 25*time.Hour+2*time.Minute)
	next := w.RunsFor(26*time.Hour, portalworkflow.Input{})
	require.Empty(t, next.Carried.Portal.Windows)
}

func TestAPortalHandlesChangesWhileAWindowDoesNotAnswer(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.Asking.After(time.Minute)
	request := workflowtest.Shop()
	request.Maintenances[0] = workflowtest.SwitchesFrom(workflowtest.Noon.Add(2*time.Hour + 90*time.Second))
	w.UpdateAfter(0, temporal.UpdateApply, request)
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalAnnouncement, workflowtest.NightAnnounced(1, workflowtest.Noon.Add(2*time.Hour))) // the portal asks a minute later
	}, time.Second)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"window/" + workflowtest.NightWindow}, w.Asked)
		require.Equal(t, []string{"switches"}, workflowtest.StatusOf[portal.View](w.World).Components[0].Because)
	}, 2*time.Hour+3*time.Minute)
	w.RunsFor(3*time.Hour, portalworkflow.Input{})
}

func TestInvalidUpdatesOfAPortalAreRejected(t *testing.T) {
	otherPortal, broken := workflowtest.Shop(), workflowtest.Shop()
	otherPortal.Components[0].Spec.PortalRef = "other"
	broken.Maintenances[0].Spec.ScheduledEnd = broken.Maintenances[0].Spec.ScheduledStart
	broken.Components[0].Spec.Link = "javascript:alert(1)"
	for name, tt := range map[string]struct {
		update  string
		request any
		says    string
	}{
		"an object of another portal":      {temporal.UpdateApply, otherPortal, `Component prod/web: spec.portalRef: is "other", but this is portal main`},
		"an end at the start":              {temporal.UpdateApply, broken, "invalid schedule"},
		"deleting a missing component":     {temporal.UpdateDelete, portal.DeleteRequest{Components: []string{"disk"}}, "the portal has no disk"},
		"cancelling a missing maintenance": {temporal.UpdateCancelMaintenance, portal.CancelRequest{Maintenance: "m"}, "the portal has no maintenance m"},
		"cancelling a window's opening":    {temporal.UpdateCancelMaintenance, portal.CancelRequest{Maintenance: "prod/night/1"}, "drydock window cancel prod/night"},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewPortalWorld(t)
			w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
			w.UpdateAfter(time.Second, tt.update, tt.request)
			next := w.RunsFor(time.Minute, portalworkflow.Input{})
			require.Len(t, w.Refusals, 1)
			require.Contains(t, w.Refusals[0], tt.says)
			require.NotContains(t, w.Refusals[0], "\n")
			require.Len(t, w.Answers, 1)
			require.Len(t, next.Carried.Portal.Events, 1, "the portal is unchanged")
		})
	}
}

func TestAnEmptyPortalEnds(t *testing.T) {
	for name, undo := range map[string]func(*workflowtest.PortalWorld){
		"all objects are deleted": func(w *workflowtest.PortalWorld) {
			w.UpdateAfter(time.Hour, temporal.UpdateDelete, portal.DeleteRequest{All: true})
		},
		"the workflow is cancelled": func(w *workflowtest.PortalWorld) { w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour) },
		"a cancel is signalled": func(w *workflowtest.PortalWorld) {
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewPortalWorld(t)
			w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
			undo(w)
			w.ExecuteWorkflow(portalworkflow.StatusPortal, portalworkflow.Input{})
			require.Empty(t, workflowtest.RequireResult[portal.View](w.World).Components)
			require.WithinDuration(t, workflowtest.Noon.Add(time.Hour+kit.UnusedTime), w.Now(), 2*time.Second)
		})
	}
}

func TestAPortalRemovesObjectsThatAnotherPortalShows(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalMoved, portal.Move{To: "other", Components: []portal.Object{{Namespace: "prod", Name: "web", At: w.Now()}}})
	}, time.Minute)
	next := w.RunsFor(time.Hour, portalworkflow.Input{})
	require.Empty(t, next.Carried.Portal.Components)
	require.Len(t, next.Carried.Portal.Maintenances, 1)
}

func TestAPortalKeepsItsContentInTheNextRun(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalAnnouncement, workflowtest.NightAnnounced(1, workflowtest.Noon.AddDate(0, 0, 1)))
	}, time.Minute)
	next := w.RunsFor(90*time.Minute, portalworkflow.Input{})
	before := next.Carried.Portal.View()
	require.Equal(t, []string{"switches"}, before.Components[0].Because)
	require.Len(t, before.Upcoming, 2)

	second := workflowtest.NewPortalWorld(t)
	second.SetStartTime(workflowtest.Noon.Add(90*time.Minute + time.Second))
	var after portal.View
	second.RegisterDelayedCallback(func() { after = workflowtest.StatusOf[portal.View](second.World) }, time.Minute)
	over := workflowtest.Noon.Add(2 * time.Hour)
	var is, was sreportalv1.ServiceStatus
	second.RegisterDelayedCallback(func() { was = workflowtest.StatusOf[portal.View](second.World).Status }, 29*time.Minute+58*time.Second)
	second.RegisterDelayedCallback(func() { is = workflowtest.StatusOf[portal.View](second.World).Status }, 29*time.Minute+59*time.Second+10*time.Millisecond)
	last := second.RunsFor(time.Hour, next)
	for _, v := range []*portal.View{&before, &after} {
		v.AsOf, v.Components[0].Days = time.Time{}, nil // time has passed
	}
	require.Equal(t, before, after)
	require.Equal(t, sreportalv1.StatusMaintenance, was)
	require.Equal(t, sreportalv1.StatusOperational, is)
	require.Equal(t, over.Add(1), last.Carried.Portal.Components[0].Since.UTC(), "the time is exact in every run")
}

func TestAPortalFinishesItsClaimsInTheNextRun(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	w.Fail["ClaimObjects"] = workflowtest.Always(fmt.Errorf("no answer"))
	w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
	next := w.RunsFor(30*time.Second, portalworkflow.Input{})
	require.False(t, next.Carried.Claims.Empty())
	require.True(t, next.Carried.Repeat.Empty())
	require.True(t, next.Carried.NotSearched)
	second := workflowtest.NewPortalWorld(t)
	next = second.RunsFor(30*time.Second, next)
	require.True(t, next.Carried.Claims.Empty())
	require.False(t, next.Carried.Repeat.Empty())
	require.True(t, next.Carried.NotSearched)
	third := workflowtest.NewPortalWorld(t)
	next = third.RunsFor(2*time.Minute, next)
	require.True(t, next.Carried.Repeat.Empty())
	require.Len(t, third.InputsOf("ClaimObjects"), 1)
	require.False(t, next.Carried.NotSearched)
	require.Equal(t, "web", second.InputsOf("ClaimObjects")[0].(portal.Move).Components[0].Name)
}

func TestAPortalClaimsAllItsObjectsInOneMessage(t *testing.T) {
	w := workflowtest.NewPortalWorld(t)
	for i := range 30 {
		one := portal.ApplyRequest{Components: []sreportalv1.Component{workflowtest.ShopComponent(fmt.Sprintf("c%d", i))}}
		w.UpdateAfter(time.Duration(i)*time.Second, temporal.UpdateApply, one)
	}
	silences := map[string]time.Duration{}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		silences[info.ActivityType.Name] = info.HeartbeatTimeout
	})
	announced := map[string]int{}
	count := func() {
		clear(announced)
		for _, in := range w.InputsOf("ClaimObjects") {
			for _, c := range in.(portal.Move).Components {
				announced[c.Name]++
			}
		}
	}
	w.RegisterDelayedCallback(func() {
		count()
		require.Len(t, announced, 30)
		require.Equal(t, 1, announced["c29"])
	}, 31*time.Second)
	next := w.RunsFor(3*time.Minute, portalworkflow.Input{})
	count()
	for name, times := range announced {
		require.Equal(t, 2, times, name)
	}
	require.True(t, next.Carried.Repeat.Empty())
	require.Equal(t, map[string]time.Duration{"ClaimObjects": kit.HeartbeatTimeout, "RequestAnnouncements": kit.HeartbeatTimeout}, silences, "there may be thousands to notify")
}

func newShownWindow(t *testing.T) (*workflowtest.WindowWorld, windows.DefineRequest) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	workflowtest.Simulate(w.World, "AnnounceWindow", func(portals.AnnounceWindowInput) any { return nil })
	request := workflowtest.DefineNight()
	request.Object.Spec.Title, request.Object.Spec.PortalRef, request.Object.Spec.Components = "Nightly", "main", []string{"web"}
	return w, request
}

func TestAWindowAnnouncesItsOpeningsToItsPortal(t *testing.T) {
	w, request := newShownWindow(t)
	w.UpdateAfter(0, temporal.UpdateDefine, request)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "other"}) }, time.Hour)
	w.RegisterDelayedCallback(func() { require.Len(t, w.Announced(), 1, "a window ignores inquiries of other portals") }, 2*time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "main"}) }, 3*time.Hour)
	w.RegisterDelayedCallback(func() { require.Len(t, w.Announced(), 2) }, 4*time.Hour)
	next := w.NextRun(window.Input{})
	announced := w.Announced()
	require.Equal(t, "main", announced[0].Portal)
	require.Equal(t, workflowtest.Noon.Add(10*time.Hour), announced[0].Announcement.Openings[0].Start.UTC())
	last := announced[len(announced)-1].Announcement
	require.True(t, last.Openings[0].Begun, "the next run announces the end")
	require.Less(t, next.Carried.Shown.Number, next.Carried.Number)

	w, _ = newShownWindow(t)
	w.SetStartTime(workflowtest.Noon.Add(14 * time.Hour))
	w.RegisterDelayedCallback(func() { require.False(t, w.Announced()[0].Announcement.Openings[0].Begun) }, time.Minute)
	w.NextRun(next)
}

// A terminated workflow of this window announced it to that portal.
func TestAPortalThatShowsAWindowOfAnotherPortalIsNotified(t *testing.T) {
	w, request := newShownWindow(t)
	w.UpdateAfter(0, temporal.UpdateDefine, request)
	for _, after := range []time.Duration{time.Hour, 2 * time.Hour} {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalAnnounce, portal.Inquiry{Portal: "other", Shown: true}) }, after)
	}
	w.RegisterDelayedCallback(func() {
		announced := w.Announced()
		last := announced[len(announced)-1]
		require.Equal(t, "other", last.Portal)
		require.Equal(t, "main", last.Announcement.Portal)
	}, 90*time.Minute)
	w.RegisterDelayedCallback(func() { require.Len(t, w.Announced(), 5, "each inquiry is answered once") }, 3*time.Hour)
	require.Empty(t, w.NextRun(window.Input{}).Carried.Shown.Outdated)
}

func TestAWindowEndsAfterItsPortalIsNotified(t *testing.T) {
	w, request := newShownWindow(t)
	w.UpdateAfter(0, temporal.UpdateDefine, request)
	w.UpdateAfter(time.Hour, temporal.UpdateCancel, windows.CancelRequest{All: true})
	w.Fail["AnnounceWindow"] = func(call int) error {
		if call > 1 && call < 30 {
			return fmt.Errorf("no answer")
		}
		return nil
	}
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError())
	announced := w.Announced()
	require.Len(t, announced, 31, "the last announcement follows the change of the calendar")
	require.Empty(t, announced[30].Announcement.Openings)
	require.Greater(t, w.Now().Sub(workflowtest.Noon), time.Hour+2*kit.UnusedTime)
}

func TestAWindowThatMovesToAnotherPortalNotifiesBoth(t *testing.T) {
	w, request := newShownWindow(t)
	w.UpdateAfter(0, temporal.UpdateDefine, request)
	moved, hidden := request, request
	moved.Object.Spec.PortalRef = "other"
	hidden.Object.Spec.Title = ""
	w.UpdateAfter(time.Hour, temporal.UpdateEdit, moved)
	w.UpdateAfter(2*time.Hour, temporal.UpdateEdit, hidden)
	w.RegisterDelayedCallback(func() {
		var announced []string
		for _, in := range w.Announced() {
			announced = append(announced, in.Portal+" of "+in.Announcement.Portal)
		}
		require.Equal(t, []string{"main of main", "other of other", "main of other", "other of "}, announced)
	}, 3*time.Hour)
	w.NextRun(window.Input{})
	require.Empty(t, w.Refusals)
}

func TestAnUnreachablePortalDelaysNothing(t *testing.T) {
	w, request := newShownWindow(t)
	w.Fail["AnnounceWindow"] = workflowtest.Always(fmt.Errorf("no answer"))
	w.Subscribe(0)
	w.UpdateAfter(0, temporal.UpdateDefine, request)
	w.RegisterDelayedCallback(func() { require.True(t, windows.Ask(w.Notified[len(w.Notified)-1:], w.Now(), 0).Allowed) }, 10*time.Hour+time.Second)
	w.NextRun(window.Input{})
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}

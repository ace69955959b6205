package window

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	portalsactivities "drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/workflows/kit"
)

// shownOn is the portal that shows a window, and the number of the state that it received last.
type shownOn struct {
	Portal string `json:"portal,omitempty"`
	Told   int64  `json:"told,omitempty"`
	// Astray are other portals that still show the window and must be notified that they do not.
	Astray []string `json:"astray,omitempty"`
}

// keepAnnouncing sends the openings to the portal that shows the window, whenever they change. It runs in the background, so that the window never
// waits for a portal.
func (w *maintenanceWindow) keepAnnouncing(ctx workflow.Context) {
	retrier := kit.HubRetrier(nil)
	var portals *portalsactivities.Activities
	for workflow.Await(ctx, func() bool { return w.unannounced() && !w.turned && !kit.ShouldContinueAsNew(ctx, w.messages) }) == nil {
		announcement := portal.Announce(&w.course, w.name, w.number, workflow.Now(ctx))
		told := append([]string{announcement.Portal}, w.shown.Astray...)
		if before := w.shown.Portal; before != announcement.Portal {
			told = append(told, before)
		}
		for _, name := range told {
			in := portalsactivities.AnnounceWindowInput{Portal: name, Announcement: announcement}
			if name != "" && retrier.Run(ctx, "announce openings to portal "+name, portals.AnnounceWindow, in, nil) != nil {
				return
			}
		}
		astray := slices.DeleteFunc(w.shown.Astray, func(name string) bool { return slices.Contains(told, name) })
		w.shown = shownOn{Portal: announcement.Portal, Told: announcement.Number, Astray: astray}
	}
}

// unannounced reports whether a portal that shows the window, or did, lacks its current state.
func (w *maintenanceWindow) unannounced() bool {
	untold := w.shown.Told < w.number && (w.shown.Portal != "" || portal.Shows(&w.course) != "")
	return untold || len(w.shown.Astray) > 0
}

// answer has the openings announced again to a portal that may have lost them. A portal that shows the openings of a terminated workflow of this
// window, and should not, is notified of that.
func (w *maintenanceWindow) answer(i portal.Inquiry) {
	switch {
	case i.Portal == w.shown.Portal || i.Portal == portal.Shows(&w.course):
		w.shown.Told = 0
	case i.Shown && !slices.Contains(w.shown.Astray, i.Portal):
		w.shown.Astray = append(w.shown.Astray, i.Portal)
	}
}

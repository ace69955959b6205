package window

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	portalsactivities "drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/workflows/kit"
)

// shownOn is which portal knows of a window, and the number of what it was told last.
type shownOn struct {
	Portal string `json:"portal,omitempty"`
	Told   int64  `json:"told,omitempty"`
	// Astray are other portals that show the window, and are to be told that they should not.
	Astray []string `json:"astray,omitempty"`
}

// keepAnnouncing tells the portal that shows the window of its openings, whenever they have changed. It is not for the window to wait for that.
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
			if name != "" && retrier.Run(ctx, "tell portal "+name+" of the openings", portals.AnnounceWindow, in, nil) != nil {
				return
			}
		}
		astray := slices.DeleteFunc(w.shown.Astray, func(name string) bool { return slices.Contains(told, name) })
		w.shown = shownOn{Portal: announcement.Portal, Told: announcement.Number, Astray: astray}
	}
}

// unannounced reports whether a portal shows the window, or did, and does not know how it stands.
func (w *maintenanceWindow) unannounced() bool {
	untold := w.shown.Told < w.number && (w.shown.Portal != "" || portal.Shows(&w.course) != "")
	return untold || len(w.shown.Astray) > 0
}

// answer has a portal told anew that may have forgotten the window. One that shows what a window of this name told before that was terminated is told
// that it is not to.
func (w *maintenanceWindow) answer(i portal.Inquiry) {
	switch {
	case i.Portal == w.shown.Portal || i.Portal == portal.Shows(&w.course):
		w.shown.Told = 0
	case i.Shown && !slices.Contains(w.shown.Astray, i.Portal):
		w.shown.Astray = append(w.shown.Astray, i.Portal)
	}
}

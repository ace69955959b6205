package window

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	portalsactivities "drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/workflows/kit"
)

// shownOn records which portal shows a window, and the number of the state that it received last.
type shownOn struct {
	Portal string `json:"portal,omitempty"`
	Number int64  `json:"number,omitempty"`
	// Outdated are other portals that may still show the window, and must remove it.
	Outdated []string `json:"outdated,omitempty"`
}

// keepAnnouncing sends the openings to the portal that shows the window after each change. It runs in the background, so that the window never waits for
// a portal.
func (w *maintenanceWindow) keepAnnouncing(ctx workflow.Context) {
	retrier := kit.HubRetrier(nil)
	var portals *portalsactivities.Activities
	for workflow.Await(ctx, func() bool { return w.unannounced() && !w.openingEnded && !kit.ShouldContinueAsNew(ctx, w.messages) }) == nil {
		announcement := portal.Announce(&w.state, w.name, w.number, workflow.Now(ctx))
		notified := append([]string{announcement.Portal}, w.shown.Outdated...)
		if before := w.shown.Portal; before != announcement.Portal {
			notified = append(notified, before)
		}
		for _, name := range notified {
			in := portalsactivities.AnnounceWindowInput{Portal: name, Announcement: announcement}
			if name != "" && retrier.Run(ctx, "announce openings to portal "+name, portals.AnnounceWindow, in, nil) != nil {
				return
			}
		}
		outdated := slices.DeleteFunc(w.shown.Outdated, func(name string) bool { return slices.Contains(notified, name) })
		w.shown = shownOn{Portal: announcement.Portal, Number: announcement.Number, Outdated: outdated}
	}
}

// unannounced reports whether a portal that shows or showed the window lacks the current state.
func (w *maintenanceWindow) unannounced() bool {
	outdated := w.shown.Number < w.number && (w.shown.Portal != "" || portal.Shows(&w.state) != "")
	return outdated || len(w.shown.Outdated) > 0
}

// announceAgain handles an inquiry: the portal gets the openings again, because it may have lost them. A portal that must not show the window, but has the
// openings of a terminated workflow, learns that.
func (w *maintenanceWindow) announceAgain(i portal.Inquiry) {
	switch {
	case i.Portal == w.shown.Portal || i.Portal == portal.Shows(&w.state):
		w.shown.Number = 0
	case i.Shown && !slices.Contains(w.shown.Outdated, i.Portal):
		w.shown.Outdated = append(w.shown.Outdated, i.Portal)
	}
}

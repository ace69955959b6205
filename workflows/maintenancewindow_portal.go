package workflows

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

// shownOn is which portal knows of a window, and the number of what it was told last.
type shownOn struct {
	Portal string `json:"portal,omitempty"`
	Told   int64  `json:"told,omitempty"`
}

// keepAnnouncing tells the portal that shows the window of its openings, whenever they have changed. It is not for the window to wait for that.
func (w *maintenanceWindow) keepAnnouncing(ctx workflow.Context) {
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}}
	var portals *activities.Portals
	for workflow.Await(ctx, func() bool { return w.unannounced() && !w.turned && !mustContinueAsNew(ctx, w.messages) }) == nil {
		announcement := portal.Announce(&w.course, w.name, w.number, workflow.Now(ctx))
		told := []string{announcement.Portal}
		if before := w.shown.Portal; before != announcement.Portal {
			told = append(told, before)
		}
		for _, name := range told {
			in := activities.AnnounceWindowInput{Portal: name, Announcement: announcement}
			if name != "" && insist.effect(ctx, "tell portal "+name+" of the openings", portals.AnnounceWindow, in, nil) != nil {
				return
			}
		}
		w.shown = shownOn{Portal: announcement.Portal, Told: announcement.Number}
	}
}

// unannounced reports whether a portal shows the window, or did, and does not know how it stands.
func (w *maintenanceWindow) unannounced() bool {
	return w.shown.Told < w.number && (w.shown.Portal != "" || portal.Shows(&w.course) != "")
}

// announceTo tells a portal anew that may have forgotten the window.
func (w *maintenanceWindow) announceTo(name string) {
	if name == w.shown.Portal {
		w.shown.Told = 0
	}
}

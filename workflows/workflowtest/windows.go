package workflowtest

import (
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/rollout"
)

const NightWindow = "ops/night"

// OpensAt is what a closed window tells that opens then, for four hours.
func OpensAt(number int64, start time.Time) windows.Standing {
	return windows.Standing{
		Window: NightWindow, Number: number, OnOverrun: drydockv1.OverrunFinish,
		Outlook: windows.Outlook{Name: NightWindow, Openings: []windows.Opening{{Start: start, End: start.Add(4 * time.Hour)}}, Last: true},
	}
}

// OpenUntil is what a window tells that is open until then, and opens again a day later.
func OpenUntil(number int64, end time.Time) windows.Standing {
	s := OpensAt(number, end.Add(20*time.Hour))
	s.Outlook.Openings = append([]windows.Opening{{Start: end.Add(-4 * time.Hour), End: end, Begun: true}}, s.Outlook.Openings...)
	return s
}

// Tells lets the window say something a while after the workflow began.
func (w *World) Tells(after time.Duration, standing windows.Standing) {
	w.SimulateAfter(after, func() { w.SignalWorkflow(temporal.SignalWindow, standing) })
}

// InWindows is a rollout that may be at work while the window is open.
func InWindows() rollout.Input {
	object := ARollout()
	object.Namespace = "ops"
	object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return rollout.Input{Object: object}
}

// Confirmed is what a closed window tells that opens then whatever happens to it meanwhile.
func Confirmed(number int64, start time.Time) windows.Standing {
	s := OpensAt(number, start)
	s.Outlook.Openings[0].Confirmed = true
	s.Next = new(start.Add(4 * time.Hour))
	return s
}

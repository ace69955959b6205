package workflowtest

import (
	"time"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/rollout"
)

// NightWindow is the window of most tests.
const NightWindow = "ops/night"

// OpensAt is the state of a closed window that opens at that time for four hours.
func OpensAt(number int64, start time.Time) windows.Snapshot {
	return windows.Snapshot{
		Window: NightWindow, Number: number, OnOverrun: drydockv1.OverrunFinish,
		Schedule: windows.Schedule{Name: NightWindow, Openings: []windows.Opening{{Start: start, End: start.Add(4 * time.Hour)}}, Last: true},
	}
}

// OpenUntil is the state of an open window that closes at that time, and opens again a day after its start.
func OpenUntil(number int64, end time.Time) windows.Snapshot {
	s := OpensAt(number, end.Add(20*time.Hour))
	s.Schedule.Openings = append([]windows.Opening{{Start: end.Add(-4 * time.Hour), End: end, Begun: true}}, s.Schedule.Openings...)
	return s
}

// ReceiveWindow sends a state of a window after a delay.
func (w *World) ReceiveWindow(after time.Duration, state windows.Snapshot) {
	w.SimulateAfter(after, func() { w.SignalWorkflow(temporal.SignalWindow, state) })
}

// RolloutInWindow is a rollout that may run while window ops/night is open.
func RolloutInWindow() rollout.Input {
	object := ARollout()
	object.Namespace = "ops"
	object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return rollout.Input{Object: object}
}

// ConfirmedOpening is the state of a closed window that opens at that time without another message.
func ConfirmedOpening(number int64, start time.Time) windows.Snapshot {
	s := OpensAt(number, start)
	s.Schedule.Openings[0].Confirmed = true
	s.Next = new(start.Add(4 * time.Hour))
	return s
}

// ClosedState is the state that a rollout sends to its clusters while its windows are closed.
func ClosedState(number int64, action drydockv1.OverrunAction) emergency.State {
	return emergency.State{Number: number, Holds: []drydockv1.Hold{{
		Scope: drydockv1.HoldAll, Window: NightWindow, Reason: "window ops/night is closed", OnOverrun: action,
	}}}
}

// closesOf returns the time after which the effect of a step must not start.
func closesOf(in any) *time.Time {
	switch in := in.(type) {
	case node.AcquireNodeInput:
		return in.Closes
	case node.CordonInput:
		return in.Closes
	case drain.Input:
		return in.Closes
	case locks.ClusterLockInput:
		return in.Closes
	default:
		return in.(jobs.RunJobInput).Closes
	}
}

// UnreachableUntil makes a step fail until that time, because the cluster does not answer. Afterwards the step is refused if its windows
// have closed, as the real activity does. The result is the time at which the step started.
func (w *World) UnreachableUntil(step string, then time.Time) (began *time.Time) {
	began = &time.Time{}
	w.Fail[step] = func(call int) error {
		now := w.Now()
		if now.Before(then) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		if closes := closesOf(w.InputsOf(step)[call-1]); closes != nil && !now.Before(*closes) {
			return temporal.Error(temporal.ErrHeld, "the maintenance windows have closed", nil)
		}
		if began.IsZero() {
			*began = now
		}
		return nil
	}
	return began
}

// BlockSelection blocks every further selection of clusters by windows.
func (w *World) BlockSelection(after time.Duration) {
	w.RegisterDelayedCallback(func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Blocked["SelectClusters"] = true
	}, after)
}

package workflowtest

import (
	"time"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// ClosedState is what a rollout tells its clusters while its windows are closed.
func ClosedState(number int64, action drydockv1.OverrunAction) emergency.State {
	return emergency.State{Number: number, Holds: []drydockv1.Hold{{
		Scope: drydockv1.HoldAll, Window: NightWindow, Reason: "window ops/night is closed", OnOverrun: action,
	}}}
}

// closesOf is from when on what a step does is not to begin any more, by its input.
func closesOf(in any) *time.Time {
	switch in := in.(type) {
	case activities.TakeNodeInput:
		return in.Closes
	case activities.CordonInput:
		return in.Closes
	case activities.DrainInput:
		return in.Closes
	case activities.ClusterLockInput:
		return in.Closes
	default:
		return in.(activities.RunJobInput).Closes
	}
}

// AnswersWhen makes the cluster answer a step from then on, and the step refuse by the clock what came too late, as activities do. It returns when it began.
func (w *World) AnswersWhen(step string, then time.Time) (began *time.Time) {
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

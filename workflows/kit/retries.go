package kit

import (
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Retries records the failing activities of a workflow that are being retried, oldest first.
type Retries struct {
	open []*trouble
	// Show publishes a change.
	Show func()
}

// trouble is an activity that is being retried.
type trouble struct{ wait *drydockv1.Wait }

// Oldest returns the wait of the oldest one; nil: no activity is being retried.
func (t *Retries) Oldest() *drydockv1.Wait {
	if len(t.open) == 0 {
		return nil
	}
	return t.open[0].wait
}

// Add returns a report for an activity. An empty reason means that the activity has succeeded or is no longer retried.
func (t *Retries) Add() Report {
	one := &trouble{}
	return func(ctx workflow.Context, reason, message string) {
		before := one.wait
		one.wait = NewWait(ctx, before, reason, message)
		switch {
		case before == nil && one.wait == nil:
			return
		case before == nil:
			t.open = append(t.open, one)
		case one.wait == nil:
			t.open = slices.DeleteFunc(t.open, func(other *trouble) bool { return other == one })
		}
		t.Show()
	}
}

// NewWait returns a wait with that reason; nil for the empty reason. A wait with the same reason as before keeps its start time.
func NewWait(ctx workflow.Context, before *drydockv1.Wait, reason, message string) *drydockv1.Wait {
	if reason == "" {
		return nil
	}
	wait := &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))}
	if before != nil && before.Reason == reason {
		wait.Since = before.Since
	}
	return wait
}

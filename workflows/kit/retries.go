package kit

import (
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Retries are the activities of a workflow that do not succeed yet, the oldest first.
type Retries struct {
	open []*trouble
	// Show makes a change visible.
	Show func()
}

// trouble is an activity that does not succeed yet.
type trouble struct{ wait *drydockv1.Wait }

// Oldest is the oldest; nil: there is none.
func (t *Retries) Oldest() *drydockv1.Wait {
	if len(t.open) == 0 {
		return nil
	}
	return t.open[0].wait
}

// Add returns a function that records why an activity does not succeed yet. Without a reason, the activity has succeeded or is no longer tried.
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

// NewWait is a wait with that reason; nil: there is none. One with the same reason keeps its beginning.
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

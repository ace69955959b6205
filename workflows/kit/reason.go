package kit

import (
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// CurrentReason keeps the one reason why a workflow does not continue, in its status and as a search attribute.
type CurrentReason struct {
	Attributes *SearchAttributes
	Wait       **drydockv1.Wait
	// Show makes a change visible.
	Show func()
}

// Set records a reason; an empty one means that nothing is waited for, or with a message, not for what that says.
func (k CurrentReason) Set(ctx workflow.Context, reason, message string) {
	switch {
	case reason != "":
		k.Replace(&drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))})
	case k.says(message):
		k.Replace(nil)
	}
}

// says reports whether the reason is the one with that message; every one is with none.
func (k CurrentReason) says(message string) bool {
	return message == "" || *k.Wait != nil && (*k.Wait).Message == message
}

// Hold records that a hold is waited for to end.
func (k CurrentReason) Hold(ctx workflow.Context, hold drydockv1.Hold) {
	k.Replace(emergency.Wait(hold, metav1.NewTime(workflow.Now(ctx))))
}

// Replace takes over a wait. One for the same reason keeps its beginning.
func (k CurrentReason) Replace(wait *drydockv1.Wait) {
	before := *k.Wait
	if before == nil && wait == nil {
		return
	}
	same := before != nil && wait != nil && before.Reason == wait.Reason
	if same {
		wait.Since = before.Since
	}
	*k.Wait = wait
	if !same {
		update := temporal.AttributeReason.ValueUnset()
		if wait != nil {
			update = temporal.AttributeReason.ValueSet(wait.Reason)
		}
		k.Attributes.Set(update)
	}
	k.Show()
}

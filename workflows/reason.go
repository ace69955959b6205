package workflows

import (
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// reasonKeeper keeps the one reason why a workflow does not go on, in its status and as a search attribute.
type reasonKeeper struct {
	attributes *attributeKeeper
	wait       **drydockv1.Wait
	// show makes a change visible.
	show func()
}

// set records a reason; an empty one means that nothing is waited for, or with a message, not for what that says.
func (k reasonKeeper) set(ctx workflow.Context, reason, message string) {
	switch {
	case reason != "":
		k.replace(&drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))})
	case k.says(message):
		k.replace(nil)
	}
}

// says reports whether the reason is the one with that message; every one is with none.
func (k reasonKeeper) says(message string) bool {
	return message == "" || *k.wait != nil && (*k.wait).Message == message
}

// hold records that a hold is waited for to end.
func (k reasonKeeper) hold(ctx workflow.Context, hold drydockv1.Hold) {
	k.replace(&drydockv1.Wait{
		Reason: emergency.Reason(hold), Message: emergency.Message(hold), Since: metav1.NewTime(workflow.Now(ctx)), Until: hold.Until,
	})
}

// replace takes over a wait. One for the same reason keeps its beginning.
func (k reasonKeeper) replace(wait *drydockv1.Wait) {
	before := *k.wait
	if before == nil && wait == nil {
		return
	}
	same := before != nil && wait != nil && before.Reason == wait.Reason
	if same {
		wait.Since = before.Since
	}
	*k.wait = wait
	if !same {
		update := temporal.AttributeReason.ValueUnset()
		if wait != nil {
			update = temporal.AttributeReason.ValueSet(wait.Reason)
		}
		k.attributes.set(update)
	}
	k.show()
}

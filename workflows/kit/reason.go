package kit

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// CurrentReason keeps the current reason of a workflow's wait, in its status and as a search attribute.
type CurrentReason struct {
	// Attributes has the search attribute; nil: the caller sets it.
	Attributes *SearchAttributes
	Wait       **drydockv1.Wait
	// Show publishes a change.
	Show func()
}

// Set sets the reason. An empty reason clears the current one; with a message, only if the current one has that message.
func (k CurrentReason) Set(ctx workflow.Context, reason, message string) {
	switch {
	case reason != "":
		k.Replace(&drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))})
	case k.hasMessage(message):
		k.Replace(nil)
	}
}

// hasMessage reports whether the current reason has that message, or the message is empty.
func (k CurrentReason) hasMessage(message string) bool {
	return message == "" || *k.Wait != nil && (*k.Wait).Message == message
}

// Hold sets the reason to the wait for the end of a hold.
func (k CurrentReason) Hold(ctx workflow.Context, hold drydockv1.Hold) {
	k.Replace(emergency.Wait(hold, metav1.NewTime(workflow.Now(ctx))))
}

// Replace sets the wait. A wait with the same reason keeps its start time.
func (k CurrentReason) Replace(wait *drydockv1.Wait) {
	before := *k.Wait
	if before == nil && wait == nil {
		return
	}
	if before != nil && wait != nil && before.Reason == wait.Reason {
		wait.Since = before.Since
	}
	*k.Wait = wait
	if k.Attributes != nil {
		k.Attributes.SetReason(before, wait)
	}
	k.Show()
}

// reasonNoWorker: no worker polls the task queue of the cluster.
const reasonNoWorker = "NoWorker"

// ReasonOf returns the CamelCase reason for an error.
func ReasonOf(err error) string {
	if t := temporal.ErrorType(err); t != "" {
		return t
	}
	if timeout, ok := errors.AsType[*sdktemporal.TimeoutError](err); ok {
		if timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			return reasonNoWorker
		}
		return "Timeout" + timeout.TimeoutType().String()
	}
	var running *sdktemporal.ChildWorkflowExecutionAlreadyStartedError
	var terminated *sdktemporal.TerminatedError
	switch {
	case errors.As(err, &running):
		return "AlreadyRunning"
	case errors.As(err, &terminated):
		return "Terminated"
	}
	return "Failed"
}

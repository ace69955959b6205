package workflowtest

import (
	"fmt"

	"go.temporal.io/sdk/testsuite"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Asked is what became of an update.
type Asked struct {
	Result  any
	Refused error
	Err     error
}

// Ask sends an update to the workflow.
func (w *World) Ask(update string, request any) *Asked {
	a := &Asked{}
	w.askInto(a, update, request)
	return a
}

func (w *World) askInto(a *Asked, update string, request any) {
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept:   func() {},
		OnReject:   func(err error) { a.Refused = err },
		OnComplete: func(result any, err error) { a.Result, a.Err = result, err },
	}, request)
}

// AskWhen sends it as soon as the condition holds.
func AskWhen(w *World, condition func(GroupStatus) bool, update string, request any) *Asked {
	a := &Asked{}
	w.When(func() bool { return condition(StatusOf[GroupStatus](w)) }, func() { w.askInto(a, update, request) })
	return a
}

func AwaitsApproval(s GroupStatus) bool {
	return s.Wait != nil && s.Wait.Reason == ranv1.ReasonWaitingForApproval
}

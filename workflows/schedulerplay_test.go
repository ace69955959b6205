package workflows

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

var errGone = errors.New("workflow not found")

// playScheduler plays the scheduler with a real book, in which every node that is asked for is available, but for those that are missing. Its slots are those of the
// world.
func playScheduler(w *world) {
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.CallSchedulerInput) error {
		w.mu.Lock()
		w.inputs["CallScheduler"] = append(w.inputs["CallScheduler"], in)
		call, fail := len(w.inputs["CallScheduler"]), w.fail["CallScheduler"]
		w.mu.Unlock()
		if fail != nil {
			if err := fail(call); err != nil {
				return err
			}
		}
		w.RegisterDelayedCallback(func() { w.callScheduler(in.Call) }, 0)
		return nil
	}, activity.RegisterOptions{Name: "CallScheduler"})
}

// onSignals takes in silence what workflows tell others, but for what they tell the scheduler.
func (w *world) onSignals() {
	calls := mock.MatchedBy(func(payload any) bool { _, ok := payload.(scheduling.Call); return ok })
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalCall, calls).Return(
		func(_, _, _, _ string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.schedulerGone {
				return errGone
			}
			w.RegisterDelayedCallback(func() { w.callScheduler(payload.(scheduling.Call)) }, 0)
			return nil
		}).Maybe()
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(
		func(_, _, _, signal string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[signal] = append(w.told[signal], payload)
			return nil
		}).Maybe()
}

// callScheduler is what the scheduler does when it is called.
func (w *world) callScheduler(call scheduling.Call) {
	w.schedulerCalls = append(w.schedulerCalls, call)
	seen := map[string]bool{}
	for _, node := range w.book.Nodes {
		seen[node.Name] = true
	}
	sight := scheduling.Sight{
		From: time.Unix(1, 0), First: !w.book.Whole, Last: !w.book.Whole,
		Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(w.slots))},
	}
	for _, slot := range call.Slots {
		if !seen[slot.Node] && !slices.Contains(w.missing, slot.Node) {
			sight.Nodes = append(sight.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: slot.Node}})
		}
	}
	w.book.See(sight)
	w.book.Take(call, w.Now())
	w.decideSlots()
}

func (w *world) decideSlots() {
	outcome := w.book.Decide(w.Now(), nil)
	for _, turn := range outcome.Turns {
		// Whoever is over needs not be told.
		_ = w.SignalWorkflowByID(turn.Asker.WorkflowID, temporal.SignalTurn, turn)
	}
	if missing := outcome.Missing(); len(missing) > 0 {
		w.book.Miss(missing)
		outcome.Again = w.Now()
	}
	if !outcome.Again.IsZero() {
		w.simulateAfter(max(time.Nanosecond, outcome.Again.Sub(w.Now())), w.decideSlots)
	}
}

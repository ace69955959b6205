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

// simulatedScheduler is a scheduler with the real state. Every requested node is available, unless it is missing.
type simulatedScheduler struct {
	state     scheduling.SlotState
	startedAt time.Time
	// capacity is how many nodes may be at work at once.
	capacity int
	// missing are nodes that the cluster does not have.
	missing []string
	// sets that have arrived, and returns.
	sets    []scheduling.SlotRequests
	returns []scheduling.SlotReturn
	// gone: signals do not reach the scheduler.
	gone bool
}

// lastSet is the last set that has arrived.
func (s *simulatedScheduler) lastSet() scheduling.SlotRequests { return s.sets[len(s.sets)-1] }

// released is how many slots the sets have released, one after the other.
func (s *simulatedScheduler) released() (count int) {
	for i, set := range s.sets[1:] {
		for _, before := range s.sets[i].Slots {
			if !slices.ContainsFunc(set.Slots, func(s scheduling.Slot) bool { return s.Number == before.Number }) {
				count++
			}
		}
	}
	return count
}

// simulateScheduler registers the activities that reach the simulated scheduler of the world.
func simulateScheduler(w *world) {
	w.scheduler.startedAt = time.Unix(1, 0).UTC()
	registerDelivery(w, "RequestSlots", func(in activities.RequestSlotsInput) { w.requestSlots(in.Requests) })
	registerDelivery(w, "ReturnSlot", func(in activities.ReturnSlotInput) { w.returnSlot(in.Return) })
}

// registerDelivery registers an activity that delivers a message to the scheduler, and starts the scheduler.
func registerDelivery[T any](w *world, name string, deliver func(T)) {
	w.RegisterActivityWithOptions(func(_ context.Context, in T) error {
		w.mu.Lock()
		w.inputs[name] = append(w.inputs[name], in)
		call, fail := len(w.inputs[name]), w.fail[name]
		w.mu.Unlock()
		if fail != nil {
			if err := fail(call); err != nil {
				return err
			}
		}
		w.simulateAfter(0, func() { deliver(in) })
		return nil
	}, activity.RegisterOptions{Name: name})
}

// onSignals keeps what workflows tell others. Messages to the scheduler reach the simulated one.
func (w *world) onSignals() {
	onSchedulerSignal(w, temporal.SignalSlotRequests, w.requestSlots)
	onSchedulerSignal(w, temporal.SignalSlotReturn, w.returnSlot)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(
		func(_, _, _, signal string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[signal] = append(w.told[signal], payload)
			return nil
		}).Maybe()
}

func onSchedulerSignal[T any](w *world, signal string, deliver func(T)) {
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, signal, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.scheduler.gone {
				return errGone
			}
			w.simulateAfter(0, func() { deliver(payload.(T)) })
			return nil
		}).Maybe()
}

// requestSlots lets a set arrive. The watch has shown its nodes.
func (w *world) requestSlots(set scheduling.SlotRequests) {
	s := &w.scheduler
	s.sets = append(s.sets, set)
	update := scheduling.NodeUpdate{
		Watch: time.Unix(1, 0), First: !s.state.AllSeen, Last: !s.state.AllSeen,
		Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(s.capacity))},
	}
	for _, slot := range set.Slots {
		shown := slices.ContainsFunc(s.state.Nodes, func(n scheduling.SeenNode) bool { return n.Name == slot.Node })
		if !shown && !slices.Contains(s.missing, slot.Node) {
			update.Nodes = append(update.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: slot.Node}})
		}
	}
	s.state.Update(update)
	s.state.Take(set, w.Now())
	w.decideSlots()
}

// returnSlot lets the return of a slot arrive.
func (w *world) returnSlot(returned scheduling.SlotReturn) {
	w.scheduler.returns = append(w.scheduler.returns, returned)
	w.scheduler.state.Return(returned, w.Now())
	w.decideSlots()
}

func (w *world) decideSlots() {
	outcome := w.scheduler.state.Decide(w.Now(), nil)
	for _, response := range outcome.Responses {
		response.Scheduler = w.scheduler.startedAt
		// A workflow that is closed needs no response.
		_ = w.SignalWorkflowByID(response.Owner.WorkflowID, temporal.SignalSlotResponse, response)
	}
	if missing := outcome.Missing(); len(missing) > 0 {
		w.scheduler.state.NodesGone(missing)
		outcome.Again = w.Now()
	}
	if !outcome.Again.IsZero() {
		w.simulateAfter(max(time.Nanosecond, outcome.Again.Sub(w.Now())), w.decideSlots)
	}
}

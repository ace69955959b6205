package workflowtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/scheduler"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

var ErrGone = errors.New("workflow not found")

// simulatedScheduler is a scheduler with the real state. Every requested node is available, unless it is missing.
type simulatedScheduler struct {
	State     scheduling.SlotState
	startedAt time.Time
	// Capacity is how many nodes may be in maintenance at once.
	Capacity int
	// Missing are nodes that the cluster does not have.
	Missing []string
	// Sets that have arrived, and returns.
	Sets    []scheduling.SlotRequests
	returns []scheduling.SlotReturn
	// Gone: signals do not reach the scheduler.
	Gone bool
}

// LastSet is the last set that has arrived.
func (s *simulatedScheduler) LastSet() scheduling.SlotRequests { return s.Sets[len(s.Sets)-1] }

// Released is how many slots the sets have released, one after the other.
func (s *simulatedScheduler) Released() (count int) {
	for i, set := range s.Sets[1:] {
		for _, before := range s.Sets[i].Slots {
			if !slices.ContainsFunc(set.Slots, func(s scheduling.Slot) bool { return s.Number == before.Number }) {
				count++
			}
		}
	}
	return count
}

// simulateScheduler registers the activities that reach the simulated scheduler of the world.
func simulateScheduler(w *World) {
	w.Scheduler.startedAt = time.Unix(1, 0).UTC()
	registerDelivery(w, "RequestSlots", func(in scheduler.RequestSlotsInput) { w.RequestSlots(in.Requests) })
	registerDelivery(w, "ReturnSlot", func(in scheduler.ReturnSlotInput) { w.ReturnSlot(in.Return) })
}

// registerDelivery registers an activity that delivers a message to the scheduler, and starts the scheduler.
func registerDelivery[T any](w *World, name string, deliver func(T)) {
	w.RegisterActivityWithOptions(func(_ context.Context, in T) error {
		w.Mu.Lock()
		w.Inputs[name] = append(w.Inputs[name], in)
		call, fail := len(w.Inputs[name]), w.Fail[name]
		w.Mu.Unlock()
		if fail != nil {
			if err := fail(call); err != nil {
				return err
			}
		}
		w.SimulateAfter(0, func() { deliver(in) })
		return nil
	}, activity.RegisterOptions{Name: name})
}

// SimulateSignals keeps what workflows tell others. Messages to the scheduler reach the simulated one.
func (w *World) SimulateSignals() {
	onSchedulerSignal(w, temporal.SignalSlotRequests, w.RequestSlots)
	onSchedulerSignal(w, temporal.SignalSlotReturn, w.ReturnSlot)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(
		func(_, _, _, signal string, payload any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.sentSignals[signal] = append(w.sentSignals[signal], payload)
			return nil
		}).Maybe()
}

func onSchedulerSignal[T any](w *World, signal string, deliver func(T)) {
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, signal, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			if w.Scheduler.Gone {
				return ErrGone
			}
			w.SimulateAfter(0, func() { deliver(payload.(T)) })
			return nil
		}).Maybe()
}

// RequestSlots lets a set arrive. The watch has shown its nodes.
func (w *World) RequestSlots(set scheduling.SlotRequests) {
	s := &w.Scheduler
	s.Sets = append(s.Sets, set)
	update := scheduling.NodeUpdate{
		Watch: time.Unix(1, 0), First: !s.State.AllSeen, Last: !s.State.AllSeen,
		Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(s.Capacity))},
	}
	for _, slot := range set.Slots {
		shown := slices.ContainsFunc(s.State.Nodes, func(n scheduling.SeenNode) bool { return n.Name == slot.Node })
		if !shown && !slices.Contains(s.Missing, slot.Node) {
			update.Nodes = append(update.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: slot.Node}})
		}
	}
	s.State.Update(update)
	s.State.Take(set, w.Now())
	w.decideSlots()
}

// ReturnSlot lets the return of a slot arrive.
func (w *World) ReturnSlot(returned scheduling.SlotReturn) {
	w.Scheduler.returns = append(w.Scheduler.returns, returned)
	w.Scheduler.State.Return(returned, w.Now())
	w.decideSlots()
}

func (w *World) decideSlots() {
	outcome := w.Scheduler.State.Decide(w.Now(), nil)
	for _, response := range outcome.Responses {
		response.Scheduler = w.Scheduler.startedAt
		// A workflow that is closed needs no response.
		_ = w.SignalWorkflowByID(response.Owner.WorkflowID, temporal.SignalSlotResponse, response)
	}
	if missing := outcome.Missing(); len(missing) > 0 {
		w.Scheduler.State.NodesGone(missing)
		outcome.Again = w.Now()
	}
	if !outcome.Again.IsZero() {
		w.SimulateAfter(max(time.Nanosecond, outcome.Again.Sub(w.Now())), w.decideSlots)
	}
}

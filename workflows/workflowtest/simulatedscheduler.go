package workflowtest

import (
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/mock"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/scheduler"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// ErrGone is the error of a signal to a workflow that does not exist.
var ErrGone = errors.New("workflow not found")

// simulatedScheduler grants slots with the production code. Every requested node is available unless it is in Missing.
type simulatedScheduler struct {
	State     scheduling.SlotState
	startedAt time.Time
	// Capacity is the maximum number of nodes in maintenance.
	Capacity int
	// Missing are nodes that do not exist.
	Missing []string
	// Sets are the requests that were received, returns the returned slots.
	Sets    []scheduling.SlotRequests
	returns []scheduling.SlotReturn
	// Gone: the scheduler cannot be signalled.
	Gone bool
}

// LastSet returns the last requests that were received.
func (s *simulatedScheduler) LastSet() scheduling.SlotRequests { return s.Sets[len(s.Sets)-1] }

// Released returns how many slots were released.
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

// simulateScheduler registers the activities that send messages to the scheduler.
func simulateScheduler(w *World) {
	w.Scheduler.startedAt = time.Unix(1, 0).UTC()
	registerDelivery(w, "RequestSlots", func(in scheduler.RequestSlotsInput) { w.RequestSlots(in.Requests) })
	registerDelivery(w, "ReturnSlot", func(in scheduler.ReturnSlotInput) { w.ReturnSlot(in.Return) })
}

// registerDelivery registers an activity that delivers a message to the scheduler.
func registerDelivery[T any](w *World, name string, deliver func(T)) {
	registerEffect(w, name, func(in T) error {
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
	})
}

// SimulateSignals records signals to other workflows, and delivers those to the scheduler.
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

// RequestSlots delivers requests to the scheduler, which knows their nodes.
func (w *World) RequestSlots(set scheduling.SlotRequests) {
	s := &w.Scheduler
	s.Sets = append(s.Sets, set)
	update := scheduling.NodeUpdate{
		Watch: time.Unix(1, 0), First: !s.State.AllListed, Last: !s.State.AllListed,
		Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(s.Capacity))},
	}
	for _, slot := range set.Slots {
		shown := slices.ContainsFunc(s.State.Nodes, func(n scheduling.ObservedNode) bool { return n.Name == slot.Node })
		if !shown && !slices.Contains(s.Missing, slot.Node) {
			update.Nodes = append(update.Nodes, scheduling.ObservedNode{Node: scheduling.Node{Name: slot.Node}})
		}
	}
	s.State.Update(update, w.Now())
	s.State.Receive(set, w.Now())
	w.decideSlots()
}

// ReturnSlot delivers the return of a slot to the scheduler.
func (w *World) ReturnSlot(returned scheduling.SlotReturn) {
	w.Scheduler.returns = append(w.Scheduler.returns, returned)
	w.Scheduler.State.Return(returned, w.Now())
	w.decideSlots()
}

func (w *World) decideSlots() {
	outcome := w.Scheduler.State.Decide(w.Now(), nil)
	reports, next := w.Scheduler.State.Reports(w.Now())
	outcome.Again = scheduling.Earlier(outcome.Again, next)
	for _, response := range slices.Concat(outcome.Responses, reports) {
		response.Scheduler = w.Scheduler.startedAt
		// The workflow may be closed.
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

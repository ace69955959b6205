package workflowtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/scheduler"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
)

// SchedulerWorld runs a scheduler of a cluster with the nodes a, b and c, of which one may be in maintenance. It records the responses.
type SchedulerWorld struct {
	*World
	Responses []scheduling.SlotResponse
	fails     func(scheduling.SlotResponse) bool
	sets      map[string]*scheduling.SlotRequests
	// Names are the names of requests, by owner and number.
	Names        map[string]string
	ClosedOwners []scheduling.Holder
	// Owners are the slot owners in the cluster. Resynced are those that the scheduler asked for their requests.
	Owners, Resynced []string
	// Unwatched are nodes that exist, but are missing in the watch.
	Unwatched []string
}

// NewSchedulerWorld returns a world whose owners receive all responses.
func NewSchedulerWorld(t *testing.T) *SchedulerWorld {
	w := NewSchedulerWorldWithoutResponses(t)
	w.ResponsesFail(func(scheduling.SlotResponse) bool { return false })
	return w
}

// NewSchedulerWorldWithoutResponses returns a world in which the test simulates the delivery of responses.
func NewSchedulerWorldWithoutResponses(t *testing.T) *SchedulerWorld {
	w := &SchedulerWorld{World: NewWorld(t), sets: map[string]*scheduling.SlotRequests{}, Names: map[string]string{}}
	w.simulate()
	return w
}

// simulate registers the activities of the scheduler.
func (w *SchedulerWorld) simulate() {
	Simulate(w.World, "WatchNodes", func(string) any { return nil })
	Simulate(w.World, "FindClosedOwners", func([]scheduling.Holder) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return w.ClosedOwners
	})
	Simulate(w.World, "FindGone", func(in scheduler.FindGoneInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return slices.DeleteFunc(slices.Clone(in.Nodes), func(node string) bool { return slices.Contains(w.Unwatched, node) })
	})
	Simulate(w.World, "RequestResync", func(in scheduler.RequestResyncInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Resynced = append(w.Resynced, in.Owners...)
		return nil
	})
	Simulate(w.World, "SendResponses", func(responses []scheduling.SlotResponse) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		lost := []scheduling.SlotOwner{}
		for _, response := range responses {
			if !w.delivers(response) {
				lost = append(lost, response.Owner)
			}
		}
		return lost
	})
	Simulate(w.World, "FindSlotOwners", func(string) any { return append([]string{}, w.Owners...) })
	w.Blocked["WatchNodes"] = true
}

// ShowNodes sends an update of the watch.
func (w *SchedulerWorld) ShowNodes(update scheduling.NodeUpdate) {
	update.Watch = time.Unix(1, 0)
	w.SignalWorkflow(temporal.SignalNodeUpdate, update)
}

// ShowAllNodes sends the first, complete update of the watch.
func (w *SchedulerWorld) ShowAllNodes() {
	update := scheduling.NodeUpdate{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(1))}}
	for _, node := range []string{"a", "b", "c"} {
		update.Nodes = append(update.Nodes, scheduling.ObservedNode{Node: scheduling.Node{Name: node}})
	}
	w.ShowNodes(update)
}

// RequestsOf returns the requests of an owner, for changes by the test.
func (w *SchedulerWorld) RequestsOf(who string) *scheduling.SlotRequests {
	if w.sets[who] == nil {
		w.sets[who] = &scheduling.SlotRequests{
			Owner: scheduling.SlotOwner{WorkflowID: who, FirstRunID: "run"}, Namespace: "ops", Requestor: "june", Maintenances: "node/c1/ops/",
		}
	}
	return w.sets[who]
}

// SendRequests sends the requests of an owner.
func (w *SchedulerWorld) SendRequests(who string) {
	set := w.RequestsOf(who)
	set.Version++
	sent := *set
	sent.Slots = slices.Clone(set.Slots)
	w.SignalWorkflow(temporal.SignalSlotRequests, sent)
}

// Request adds requests of an owner, and sends them.
func (w *SchedulerWorld) Request(who string, slots ...scheduling.Slot) {
	w.RequestsOf(who).Slots = append(w.RequestsOf(who).Slots, slots...)
	for _, slot := range slots {
		w.Names[fmt.Sprint(who, slot.Number)] = slot.Name
	}
	w.SendRequests(who)
}

// Release removes a request of an owner, and sends the others.
func (w *SchedulerWorld) Release(who string, number int64) {
	w.RequestsOf(who).Slots = slices.DeleteFunc(w.RequestsOf(who).Slots, func(s scheduling.Slot) bool { return s.Number == number })
	w.SendRequests(who)
}

// SlotFor returns a request for a node.
func SlotFor(node string, number int64) scheduling.Slot {
	return scheduling.Slot{Number: number, Name: node, Node: node, Since: time.Unix(number, 0)}
}

// Grants returns the owner and name of each granted request, in order.
func (w *SchedulerWorld) Grants() (grants []string) {
	for _, response := range w.Responses {
		for _, number := range response.Granted {
			grant := response.Owner.WorkflowID + " " + w.NameOf(response.Owner.WorkflowID, number)
			if !slices.Contains(grants, grant) {
				grants = append(grants, grant)
			}
		}
	}
	return grants
}

// NameOf returns the name of a request, even after its release.
func (w *SchedulerWorld) NameOf(who string, number int64) string {
	return w.Names[fmt.Sprint(who, number)]
}

// RunSteps runs one step a minute. A minute after the last, the scheduler continues as new.
func (w *SchedulerWorld) RunSteps(steps ...func()) {
	for i, step := range steps {
		w.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalSlotRequests, scheduling.SlotRequests{})
	}, time.Duration(len(steps)+1)*time.Minute)
}

// Carried runs the scheduler, and returns the state that it carries to the next run.
func (w *SchedulerWorld) Carried() slots.SchedulerCarried {
	w.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1"})
	require.True(w.T, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var in slots.SchedulerInput
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	return *in.Carried
}

// ResponsesFail fails the delivery of responses for which the function returns true.
func (w *SchedulerWorld) ResponsesFail(fails func(scheduling.SlotResponse) bool) {
	w.fails = fails
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalSlotResponse, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			if !w.delivers(payload.(scheduling.SlotResponse)) {
				return ErrGone
			}
			return nil
		}).Maybe()
}

// delivers records a response, unless it fails.
func (w *SchedulerWorld) delivers(response scheduling.SlotResponse) bool {
	if w.fails != nil && w.fails(response) {
		return false
	}
	w.Responses = append(w.Responses, response)
	return true
}

// RestartScheduler replaces the scheduler by one without state, which requests a resync.
func (w *World) RestartScheduler(at int64) {
	w.Scheduler.State, w.Scheduler.startedAt = scheduling.SlotState{}, time.Unix(at, 0).UTC()
	w.SignalWorkflow(temporal.SignalResync, scheduling.Resync{Scheduler: w.Scheduler.startedAt})
}

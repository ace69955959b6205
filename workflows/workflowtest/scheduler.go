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

// SchedulerWorld runs a scheduler whose cluster has three nodes, of which one at a time may be under maintenance, until its test ends it. It keeps the
// responses.
type SchedulerWorld struct {
	*World
	Responses []scheduling.SlotResponse
	sets      map[string]*scheduling.SlotRequests
	// Names of the requests, by owner and number.
	Names        map[string]string
	ClosedOwners []scheduling.Holder
	// Owners run in the cluster; resynced are those that were asked for all their slots.
	Owners, Resynced []string
	// Unwatched are nodes that the cluster has, and that the watch has not shown.
	Unwatched []string
}

func NewSchedulerWorld(t *testing.T) *SchedulerWorld {
	w := NewSchedulerWorldWithoutResponses(t)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalResync, mock.Anything).Return(
		func(_, id, _, _ string, _ any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.Resynced = append(w.Resynced, id)
			return nil
		}).Maybe()
	w.ResponsesFail(func(scheduling.SlotResponse) bool { return false })
	return w
}

// NewSchedulerWorldWithoutResponses does not take responses yet.
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
	Simulate(w.World, "FindSlotOwners", func(string) any { return append([]string{}, w.Owners...) })
	w.Blocked["WatchNodes"] = true
}

func (w *SchedulerWorld) ShowNodes(update scheduling.NodeUpdate) {
	update.Watch = time.Unix(1, 0)
	w.SignalWorkflow(temporal.SignalNodeUpdate, update)
}

func (w *SchedulerWorld) ShowAllNodes() {
	update := scheduling.NodeUpdate{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(1))}}
	for _, node := range []string{"a", "b", "c"} {
		update.Nodes = append(update.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: node}})
	}
	w.ShowNodes(update)
}

// RequestsOf is the set of an owner, which a test may change.
func (w *SchedulerWorld) RequestsOf(who string) *scheduling.SlotRequests {
	if w.sets[who] == nil {
		w.sets[who] = &scheduling.SlotRequests{
			Owner: scheduling.SlotOwner{WorkflowID: who, FirstRunID: "run"}, Namespace: "ops", Requestor: "june", Maintenances: "node/c1/ops/",
		}
	}
	return w.sets[who]
}

// SendRequests sends the set of an owner.
func (w *SchedulerWorld) SendRequests(who string) {
	set := w.RequestsOf(who)
	set.Version++
	sent := *set
	sent.Slots = slices.Clone(set.Slots)
	w.SignalWorkflow(temporal.SignalSlotRequests, sent)
}

// Request adds requests to the set of an owner.
func (w *SchedulerWorld) Request(who string, slots ...scheduling.Slot) {
	w.RequestsOf(who).Slots = append(w.RequestsOf(who).Slots, slots...)
	for _, slot := range slots {
		w.Names[fmt.Sprint(who, slot.Number)] = slot.Name
	}
	w.SendRequests(who)
}

// Release removes slots from the set of an owner.
func (w *SchedulerWorld) Release(who string, number int64) {
	w.RequestsOf(who).Slots = slices.DeleteFunc(w.RequestsOf(who).Slots, func(s scheduling.Slot) bool { return s.Number == number })
	w.SendRequests(who)
}

func SlotFor(node string, number int64) scheduling.Slot {
	return scheduling.Slot{Number: number, Name: node, Node: node, Since: time.Unix(number, 0)}
}

// Grants are the owners and nodes of the grants, in order.
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

// NameOf is the name of a request; it may be over.
func (w *SchedulerWorld) NameOf(who string, number int64) string {
	return w.Names[fmt.Sprint(who, number)]
}

// RunSteps runs the steps, one a minute, and lets the run end with the last, by continuing as new.
func (w *SchedulerWorld) RunSteps(steps ...func()) {
	for i, step := range steps {
		w.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalSlotRequests, scheduling.SlotRequests{})
	}, time.Duration(len(steps)+1)*time.Minute)
}

// Carried runs the scheduler and returns what it hands to the next run.
func (w *SchedulerWorld) Carried() slots.SchedulerCarried {
	w.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1"})
	require.True(w.T, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.T, w.GetWorkflowError(), &next)
	var in slots.SchedulerInput
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	return *in.Carried
}

// ResponsesFail lets responses fail as long as the function returns true.
func (w *SchedulerWorld) ResponsesFail(fails func(scheduling.SlotResponse) bool) {
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalSlotResponse, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.Mu.Lock()
			defer w.Mu.Unlock()
			response := payload.(scheduling.SlotResponse)
			if fails(response) {
				return ErrGone
			}
			w.Responses = append(w.Responses, response)
			return nil
		}).Maybe()
}

// RestartScheduler replaces the scheduler by one without state, which asks for all sets.
func (w *World) RestartScheduler(at int64) {
	w.Scheduler.State, w.Scheduler.startedAt = scheduling.SlotState{}, time.Unix(at, 0).UTC()
	w.SignalWorkflow(temporal.SignalResync, scheduling.Resync{Scheduler: w.Scheduler.startedAt})
}

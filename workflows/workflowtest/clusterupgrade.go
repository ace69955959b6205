package workflowtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// Children simulates child workflows. Each runs for Duration and succeeds, unless Outcomes says otherwise.
type Children struct {
	// Events are the starts ("+name") and ends ("-name") of children.
	Events []string
	// Running is how many run now, MostRunning the highest number so far.
	Running, MostRunning int
	Duration             time.Duration
	// Outcomes runs a child of that name, and returns its error.
	Outcomes map[string]func(workflow.Context) error
}

func (c *Children) run(ctx workflow.Context, name string) error {
	c.Events = append(c.Events, "+"+name)
	c.Running++
	c.MostRunning = max(c.MostRunning, c.Running)
	defer func() {
		c.Running--
		c.Events = append(c.Events, "-"+name)
	}()
	if end := c.Outcomes[name]; end != nil {
		return end(ctx)
	}
	return workflow.Sleep(ctx, c.Duration)
}

// EventsInOrder returns the events. Consecutive starts, and consecutive ends, are sorted by name.
func (c *Children) EventsInOrder() []string {
	events := slices.Clone(c.Events)
	for from := 0; from < len(events); {
		to := from
		for to < len(events) && events[to][0] == events[from][0] {
			to++
		}
		slices.Sort(events[from:to])
		from = to
	}
	return events
}

func newChildren() *Children {
	return &Children{Duration: time.Minute, Outcomes: map[string]func(workflow.Context) error{}}
}

// simulateNodeMaintenance registers a NodeMaintenance that waits, and returns its slot.
func simulateNodeMaintenance(w *World) *Children {
	c := newChildren()
	w.RegisterAs(temporal.NodeMaintenance, func(ctx workflow.Context, in nodemaintenance.Input) (NodeStatus, error) {
		err := c.run(ctx, in.Object.Spec.NodeName)
		if err == nil {
			SignalSlotReturn(ctx, in)
		}
		status := NodeStatus{State: maintenancev1.NodeCompleted, Drain: &maintenancev1.DrainStatus{Evicted: 2}, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}
		if sdktemporal.IsCanceledError(err) {
			status.State = maintenancev1.NodeCancelled
			return status, sdktemporal.NewCanceledError(status)
		}
		return status, err
	})
	return c
}

// SignalSlotReturn returns the slot of a maintenance to the scheduler.
func SignalSlotReturn(ctx workflow.Context, in nodemaintenance.Input) {
	end, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.SignalExternalWorkflow(end, temporal.MaintenanceSchedulerID(in.Cluster), "", temporal.SignalSlotReturn, in.Slot.Return(false)).Get(end, nil)
}

// NewClusterWorld returns a world with a cluster of that many nodes and slots, and simulated node maintenances.
func NewClusterWorld(t *testing.T, controlPlane, workers, slots int) (*World, *Children) {
	w := NewWorld(t)
	w.Scheduler.Capacity, w.Locked = slots, true
	for i := range controlPlane {
		w.Nodes.ControlPlane = append(w.Nodes.ControlPlane, fmt.Sprintf("cp%d", i))
	}
	for i := range workers {
		w.Nodes.Workers = append(w.Nodes.Workers, fmt.Sprintf("w%d", i))
	}
	return w, simulateNodeMaintenance(w)
}

// OneCluster is the input of cluster c1 of rollout ops/june.
func OneCluster() clusterupgrade.Input {
	return clusterupgrade.Input{Namespace: "ops", Rollout: "june", Cluster: "c1", TaskQueue: temporal.TaskQueue, Batch: 1}
}

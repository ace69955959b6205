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

// Children plays the NodeMaintenance or ClusterUpgrade children: each takes a while, and ends well unless the test says otherwise.
type Children struct {
	Events      []string
	Running     int
	MostRunning int
	Duration    time.Duration
	// Outcomes is how a child of that name ends; absent: well.
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

// EventsInOrder is the events in order. What begins, or ends, at the same moment is told by name.
func (c *Children) EventsInOrder() []string {
	story := slices.Clone(c.Events)
	for from := 0; from < len(story); {
		to := from
		for to < len(story) && story[to][0] == story[from][0] {
			to++
		}
		slices.Sort(story[from:to])
		from = to
	}
	return story
}

func newChildren() *Children {
	return &Children{Duration: time.Minute, Outcomes: map[string]func(workflow.Context) error{}}
}

// simulateNodeMaintenance registers a NodeMaintenance that only takes its time, and gives its slot back.
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

func SignalSlotReturn(ctx workflow.Context, in nodemaintenance.Input) {
	end, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.SignalExternalWorkflow(end, temporal.MaintenanceSchedulerID(in.Cluster), "", temporal.SignalSlotReturn, in.Slot.Return(false)).Get(end, nil)
}

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

func OneCluster() clusterupgrade.Input {
	return clusterupgrade.Input{Namespace: "ops", Rollout: "june", Cluster: "c1", TaskQueue: temporal.TaskQueue, Batch: 1}
}

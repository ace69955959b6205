package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheWaitForPodsTimesOutWhileTheClusterIsUnreachable(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	in := workflowtest.FullMaintenance()
	in.Object.Spec.WaitForPodCompletion.TimeoutSeconds = 3600
	w.Fail["AwaitPodCompletion"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil))
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeWaitForPodCompletion
	}, func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitPodCompletion", Pods: []string{"ml/train-1"}})
	})
	w.When(func() bool {
		return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeDraining
	}, func() {
		require.WithinDuration(t, start.Add(time.Hour+kit.DeadlineGrace), w.Now(), 2*time.Minute)
		require.Empty(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).WaitForCompletion)
	})
	w.Blocked["Drain"] = true
	w.RegisterDelayedCallback(w.CancelWorkflow, 2*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, workflowtest.States(status), maintenancev1.NodeDraining, "the drain reads the pods itself")
	require.Contains(t, status.Notes, "continued without knowing which pods have finished: wait for pods of n1 to finish: timed out; "+
		"state unknown: connection refused; when they were seen last these had not: ml/train-1")
}

func TestAMaintenanceReportsAManualUncordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "AwaitPodCompletion", func(drain.AwaitPodCompletionInput) any {
		return drain.AwaitPodCompletionResult{Uncordoned: true}
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "continued although the node was uncordoned manually, and pods may come to it")
}

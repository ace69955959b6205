package nodemaintenance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestANodeThatAnotherRequestorJoinedIsReturnedWhenBothAreDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(
		w.JoinStep("gpu.example.com"), w.JoinStep("gpu.example.com"), w.Signal(temporal.SignalDone, ""), w.RequireNodeKept(maintenancev1.NodeReady),
		func() {
			require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message, "gpu.example.com")
		},
		w.Signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Len(t, status.Requestors, 2, "it joins once")
	require.Contains(t, status.Notes, "gpu.example.com joined by kim")
	require.Len(t, w.Inputs["AcquireNode"], 1)
	require.Len(t, w.Inputs["Drain"], 1)
	require.Len(t, w.Inputs["ReturnNode"], 1)
}

func TestARequestorJoinsBeforeTheNodeIsReady(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked, w.Blocked["AwaitNodeLocks"] = true, true
	w.EachMinute(w.JoinStep("gpu.example.com"), w.CancelWorkflow, w.RequireNodeKept(maintenancev1.NodeScheduled), w.Signal(temporal.SignalCancel, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
}

func TestARequestorMayJoinAgainAfterDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(
		w.Signal(temporal.SignalDone, "gpu.example.com"), w.JoinStep("gpu.example.com"), w.Signal(temporal.SignalDone, ""),
		w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
}

func TestARejectedJoinNamesItsReason(t *testing.T) {
	full := workflowtest.RequestorMaintenance()
	for i := range 64 {
		full.Object.Spec.AdditionalRequestors = append(full.Object.Spec.AdditionalRequestors, fmt.Sprintf("r%d.example.com", i))
	}
	tests := []struct {
		name, requestor, problem string
		in                       nodemaintenance.Input
		blocked                  string
	}{
		{name: "without a name", problem: "requestor is required"},
		{name: "an invalid name", requestor: "GPU_1", problem: "requestor GPU_1: "},
		{name: "a long name", requestor: strings.Repeat("g", 64), problem: "must have 2 to 63 characters"},
		{name: "a rollout's node", requestor: "gpu.example.com", in: workflowtest.MaintenanceOfRollout(), blocked: "Drain", problem: "is part of rollout"},
		{name: "a node that is being returned", requestor: "gpu.example.com", blocked: "AwaitNodeHealthy", problem: "the node is being returned"},
		{name: "too many requestors", requestor: "gpu.example.com", in: full, problem: "has 65 requestors, the most that are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			if tt.in.Cluster == "" {
				tt.in = workflowtest.RequestorMaintenance()
			}
			if tt.blocked != "" {
				w.Blocked[tt.blocked] = true
			}
			join := func() { w.RequireUpdateResult(w.Join(tt.requestor), tt.problem) }
			leave := []func(){join, w.Signal(temporal.SignalCancel, "")}
			if tt.blocked == "AwaitNodeHealthy" {
				leave = append([]func(){w.Signal(temporal.SignalDone, "")}, leave...)
			}
			for _, id := range tt.in.Object.Spec.AdditionalRequestors {
				leave = append(leave, w.Signal(temporal.SignalCancel, id))
			}
			w.EachMinute(leave...)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, tt.in)
			workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
		})
	}
}

func TestASecondMaintenanceWaitsUntilTheFirstReturnsTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Occupy(workflowtest.Peer)
	w.EachMinute(func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Equal(t, string(scheduling.NodeBusy), status.Wait.Reason)
		require.Equal(t, "node n1 is under maintenance for gpu.example.com (gpu/n1); to share the node, join that maintenance (drydock node join)", status.Wait.Message)
		require.NotContains(t, w.Called(), "AcquireNode")
	}, w.Vacate, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Len(t, w.Inputs["Drain"], 1)
}

func TestARolloutWaitsUntilAnotherMaintenanceReturnsTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity, w.Nodes.Workers = 2, []string{"n1", "n2"}
	w.Occupy(workflowtest.Peer)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w)
		require.Equal(t, string(scheduling.NodeBusy), status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "gpu.example.com (gpu/n1)")
	}, 30*time.Minute)
	w.RegisterDelayedCallback(w.Vacate, time.Hour)
	in := workflowtest.OneCluster()
	w.RegisterAs(temporal.NodeMaintenance, nodemaintenance.NodeMaintenance)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	result := workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, result.Nodes)
	require.GreaterOrEqual(t, result.CompletedAt.Sub(result.StartedAt.Time), time.Hour)
}

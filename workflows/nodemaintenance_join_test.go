package workflows

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
)

// peer is another maintenance, which the test plays, of the same node.
var peer = scheduling.SlotOwner{WorkflowID: "node/c1/gpu/n1", FirstRunID: "run-of-peer"}

// occupy gives the node to the peer, or to another holder, before the maintenance under test asks for a slot.
func (w *world) occupy(holder scheduling.SlotOwner) {
	w.RegisterDelayedCallback(func() {
		w.requestSlots(scheduling.SlotRequests{
			Owner: holder, Version: 1, Namespace: "gpu", Requestor: "gpu.example.com", Maintenances: "node/c1/gpu/",
			Slots: []scheduling.Slot{{Number: 1, Name: "n1", Node: "n1", Since: w.Now()}},
		})
	}, 0)
}

// vacate lets the peer return the node.
func (w *world) vacate() {
	w.requestSlots(scheduling.SlotRequests{Owner: peer, Version: 2})
}

// joins adds a requestor to the maintenance under test.
func (w *world) joins(id string) func() {
	return func() { w.answers(w.join(id), "") }
}

func (w *world) join(id string) *asked {
	return w.ask(temporal.UpdateJoin, temporal.SignalRequest{Requestor: id, Actor: "kim"})
}

// answers requires, at the end of the test, that an update was carried out, or refused for that problem.
func (w *world) answers(a *asked, problem string) {
	w.t.Cleanup(func() {
		if problem != "" {
			require.ErrorContains(w.t, a.refused, problem)
			return
		}
		require.NoError(w.t, a.refused)
		require.NoError(w.t, a.err)
		require.NotNil(w.t, a.result)
	})
}

func TestANodeThatAnotherRequestorJoinedIsReturnedWhenBothAreDone(t *testing.T) {
	w := newWorld(t)
	w.say(
		w.joins("gpu.example.com"), w.joins("gpu.example.com"), w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeReady),
		func() { require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "gpu.example.com") },
		w.signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	status := requireResult[nodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Len(t, status.Requestors, 2, "it joined once")
	require.Contains(t, status.Notes, "gpu.example.com joined by kim")
	require.Len(t, w.inputs["TakeNode"], 1)
	require.Len(t, w.inputs["Drain"], 1)
	require.Len(t, w.inputs["ReturnNode"], 1)
}

func TestARequestorJoinsBeforeTheNodeIsReady(t *testing.T) {
	w := newWorld(t)
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.say(w.joins("gpu.example.com"), w.CancelWorkflow, w.keepsNode(maintenancev1.NodeScheduled), w.signal(temporal.SignalCancel, "gpu.example.com"))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

func TestARequestorThatWasDoneMayJoinAgain(t *testing.T) {
	w := newWorld(t)
	w.say(
		w.signal(temporal.SignalDone, "gpu.example.com"), w.joins("gpu.example.com"), w.signal(temporal.SignalDone, ""),
		w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

func TestARequestorThatCannotJoinIsToldWhy(t *testing.T) {
	full := handOver()
	for i := range 64 {
		full.Object.Spec.AdditionalRequestors = append(full.Object.Spec.AdditionalRequestors, fmt.Sprintf("r%d.example.com", i))
	}
	tests := []struct {
		name, requestor, problem string
		in                       NodeMaintenanceInput
		blocked                  string
	}{
		{name: "no name", problem: "requestor is required"},
		{name: "a name that requestors cannot have", requestor: "GPU", problem: "requestor GPU: "},
		{name: "a name that is too long", requestor: strings.Repeat("g", 64), problem: "must have 2 to 63 characters"},
		{name: "a rollout's node", requestor: "gpu.example.com", in: ofRollout(), blocked: "Drain", problem: "is part of rollout"},
		{name: "a node that is being returned", requestor: "gpu.example.com", blocked: "AwaitNodeHealthy", problem: "the node is being returned"},
		{name: "one too many", requestor: "gpu.example.com", in: full, problem: "has 65 requestors, the most that are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.in.Cluster == "" {
				tt.in = handOver()
			}
			if tt.blocked != "" {
				w.blocked[tt.blocked] = true
			}
			ask := func() { w.answers(w.join(tt.requestor), tt.problem) }
			leave := []func(){ask, w.signal(temporal.SignalCancel, "")}
			if tt.blocked == "AwaitNodeHealthy" {
				leave = append([]func(){w.signal(temporal.SignalDone, "")}, leave...)
			}
			for _, id := range tt.in.Object.Spec.AdditionalRequestors {
				leave = append(leave, w.signal(temporal.SignalCancel, id))
			}
			w.say(leave...)
			w.ExecuteWorkflow(NodeMaintenance, tt.in)
			requireCancelled[nodeStatus](w)
		})
	}
}

func TestASecondMaintenanceOfANodeWaitsUntilTheFirstHasReturnedIt(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	w.say(func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Equal(t, string(scheduling.NodeBusy), status.Wait.Reason)
		require.Equal(t, "node n1 is under maintenance for gpu.example.com (gpu/n1); to share the node, join that maintenance (drydock node join)", status.Wait.Message)
		require.NotContains(t, w.called(), "TakeNode")
	}, w.vacate, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
	require.Len(t, w.inputs["Drain"], 1)
}

func TestARolloutMaintainsANodeWhenTheMaintenanceThatHadItHasReturnedIt(t *testing.T) {
	w := newWorld(t)
	w.scheduler.capacity, w.nodes.Workers = 2, []string{"n1", "n2"}
	w.occupy(peer)
	w.RegisterDelayedCallback(func() {
		status := statusOf[ranv1.ClusterUpgradeStatus](w)
		require.Equal(t, string(scheduling.NodeBusy), status.Wait.Reason)
		require.Contains(t, status.Wait.Message, "gpu.example.com (gpu/n1)")
	}, 30*time.Minute)
	w.RegisterDelayedCallback(w.vacate, time.Hour)
	in := oneCluster()
	w.registerAs(temporal.NodeMaintenance, NodeMaintenance)
	w.ExecuteWorkflow(ClusterUpgrade, in)
	result := requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, ranv1.NodeCounts{Total: 2, Done: 2}, result.Nodes)
	require.GreaterOrEqual(t, result.CompletedAt.Sub(result.StartedAt.Time), time.Hour)
}

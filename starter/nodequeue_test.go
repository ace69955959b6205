package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/workflows/slots"
)

// queueOf returns a queue with one granted and two waiting requests.
func queueOf(wait *drydockv1.Wait) clusterQueue {
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	place := func(node string, rank int, reason scheduling.Reason) scheduling.QueueEntry {
		p := scheduling.QueueEntry{
			Request: scheduling.Request{Namespace: "ops", Name: "of-" + node, Node: node, Requestor: "a.example.com"},
			Owner:   scheduling.SlotOwner{WorkflowID: "node/c1/ops/of-" + node}, Since: since, Rank: rank, Reason: reason,
		}
		if rank > 0 {
			p.Message = "1 of 3 nodes at once"
		}
		return p
	}
	return clusterQueue{SchedulerStatus: slots.SchedulerStatus{
		Cluster: "c1", Wait: wait, Slots: 1, Waiting: 2,
		Queue: []scheduling.QueueEntry{place("n3", 0, ""), place("n1", 1, scheduling.NoSlot), place("n2", 2, scheduling.NoSlot)},
	}}
}

func TestTheQueueIsShownByRankWithReasons(t *testing.T) {
	q := queueOf(&drydockv1.Wait{Reason: "NodesUnknown", Message: "not seen yet"})
	text := queuesText([]clusterQueue{q, {SchedulerStatus: slots.SchedulerStatus{Cluster: "c2"}, Trouble: "no worker"}},
		q.Queue[0].Since.Add(3*time.Minute), frameStyle{})
	require.Equal(t, `nothing is granted in cluster c1: NodesUnknown: not seen yet
the slot queue of cluster c2 is unknown: no worker
CLUSTER   RANK   NODE   REQUEST     REQUESTOR       SINCE    WAITS FOR
c1        slot   n3     ops/of-n3   a.example.com   3m ago
c1        1      n1     ops/of-n1   a.example.com   3m ago   NoSlot: 1 of 3 nodes at once
c1        2      n2     ops/of-n2   a.example.com   3m ago   NoSlot: 1 of 3 nodes at once
`, text)
}

func TestAWaitingMaintenanceShowsItsQueuePosition(t *testing.T) {
	q := queueOf(nil)
	ref := func(name string) maintenanceRef {
		return maintenanceRef{workflowRef: observe.RefOf("node/c1/ops/"+name, "run")}
	}
	require.Nil(t, q.positionOf(ref("of-n3")), "it has a slot")
	require.Nil(t, q.positionOf(ref("of-n4")), "it has no request yet")
	second := q.positionOf(ref("of-n2"))
	const text = "NoSlot for 90s: 1 of 3 nodes at once; rank 2 of 2"
	now := q.Queue[0].Since.Add(90 * time.Second)
	require.Equal(t, text, second.text(now))
	require.Equal(t, text, second.with(nil).text(now))
	require.Equal(t, text, second.with(&drydockv1.Wait{Message: "1 of 2 nodes at once, an earlier message"}).text(now))
	require.Contains(t, second.with(&drydockv1.Wait{Message: "1 of 3 nodes at once; node/c1/ops/n2 cannot be joined: a Job"}).text(now), "cannot be joined: a Job; rank 2")
	require.Nil(t, (*queuePosition)(nil).with(&drydockv1.Wait{Message: "held"}))
}

func TestTheStatusOfANodeShowsMaintenancesThatWaitInTheQueue(t *testing.T) {
	q := queueOf(nil)
	q.Queue[2].Owner.WorkflowID = "cgu/ops/june/c1" // a rollout, which starts the maintenance when it has the slot
	require.Empty(t, q.queuedFor("n3"), "it has a slot")
	require.Empty(t, q.queuedFor("n1", observe.RefOf("node/c1/ops/of-n1", "run")), "it has a status of its own")

	queued := q.queuedFor("n2", observe.RefOf("node/c1/ops/earlier", "run"))
	status := maintenanceStatus{Queued: queued}
	status.Metadata.Node, status.Metadata.Cluster = "n2", "c1"
	status.Status.State = maintenancev1.NodeCompleted
	now := q.Queue[0].Since.Add(90 * time.Second)
	require.Contains(t, status.frame(now, frameStyle{}), "\n\nmaintenance ops/of-n2 for a.example.com waits: NoSlot for 90s: 1 of 3 nodes at once; rank 2 of 2")
	printed, err := json.Marshal(queued)
	require.NoError(t, err)
	require.JSONEq(t, `[{"namespace":"ops","name":"of-n2","requestor":"a.example.com","workflowID":"cgu/ops/june/c1","rank":2,"of":2,
		"reason":"NoSlot","message":"1 of 3 nodes at once","since":"2026-11-20T12:00:00Z"}]`, string(printed))
}

func TestDoctorReportsForEachClusterWhetherSlotsAreGranted(t *testing.T) {
	unreachable := &drydockv1.Wait{Reason: "ClusterUnreachable", Message: "watch the nodes of c1: connection refused"}
	idle := queueOf(unreachable)
	idle.Queue, idle.Slots, idle.Waiting = nil, 0, 0
	tests := []struct {
		name  string
		queue clusterQueue
		want  finding
	}{
		{"slots are granted", queueOf(nil), well("scheduler c1", "1 node under maintenance, 2 waiting")},
		{"a hold", queueOf(&drydockv1.Wait{Reason: emergency.ReasonHeld}), well("scheduler c1", "1 node under maintenance, 2 waiting")},
		{"no waiting request", idle, well("scheduler c1", "0 nodes under maintenance, 0 waiting")},
		{"unknown nodes", queueOf(unreachable), finding{
			Check: "scheduler c1", Fix: "see the message",
			Detail: "1 node under maintenance, 2 waiting; nothing is granted: ClusterUnreachable: watch the nodes of c1: connection refused",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, schedulerFinding(tt.queue)) })
	}
}

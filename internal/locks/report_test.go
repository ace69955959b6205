package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestAReportNamesTheGravestWaitingLock(t *testing.T) {
	for _, test := range []struct {
		name    string
		setup   func(w *world)
		reason  locks.Reason
		message string
		held    int
	}{
		{name: "no request", setup: func(*world) {}, reason: locks.NoMaintenance, message: "no maintenance is requested"},
		{
			name: "the cluster is released", setup: func(w *world) { w.requestCluster() },
			reason: locks.InMaintenance, message: "the cluster is under maintenance",
		},
		{
			name: "a node is released", setup: func(w *world) { w.requestCluster(); w.request("n1") },
			reason: locks.InMaintenance, message: "1 of 3 nodes are under maintenance",
		},
		{
			name: "a node waits for another", setup: func(w *world) { w.request("n1"); w.request("n2") },
			reason: locks.MaxInactiveNodes, message: "node n2: waits for n1 (at most 1 inactive at once)", held: 1,
		},
		{
			name: "a pod is not ready, and another node waits", setup: func(w *world) {
				w.request("n1")
				w.request("n2")
				w.request("n3")
				w.setPod("n3", false)
			},
			reason: locks.PodNotReady, message: "node n3: pod tf/vrouter-n3: container agent is not ready", held: 2,
		},
		{
			name: "the application is not healthy", setup: func(w *world) {
				w.policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "control"}}
				w.requestCluster()
			},
			reason: locks.ClusterNotHealthy, message: "the cluster: control: not evaluated", held: 1,
		},
		{
			name: "a lock was marked failed", setup: func(w *world) {
				w.removePod("n2")
				w.lock("n2").Status = lcmv1.WorkloadLockStatus{State: failed, ErrorMessage: "fan is broken"}
				w.request("n1")
				w.request("n2")
				w.request("n3")
			},
			reason: locks.MarkedFailed, message: "node n2: fan is broken", held: 2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "n1", "n2", "n3")
			w.settle()
			test.setup(w)
			w.settle()
			wait := w.decide().Report().Wait()
			require.Equal(t, string(test.reason), wait.Reason)
			require.Equal(t, test.message, wait.Message)
			require.Len(t, wait.Blockers, test.held)
		})
	}
}

func TestAReportNamesTheWaitingNodesInTheirOrder(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3", "n4")
	w.settle()
	w.request("n4")
	w.settle()
	w.request("n1")
	w.request("n3")
	w.snapshot.NodeRequests[1].CreationTimestamp.Time = t0.Add(time.Hour)
	require.Equal(t, []string{"n3", "n1"}, w.decide().Report().Waiting)
}

func TestAReportStaysSmallInALargeCluster(t *testing.T) {
	w := newWorld(t)
	for i := range 250 {
		w.addNode(fmt.Sprintf("n%03d", i))
		w.request(fmt.Sprintf("n%03d", i))
	}
	w.addNode("idle")
	w.settle()
	report := w.decide().Report()
	require.Equal(t, 251, report.Total)
	require.Equal(t, 251, report.Active)
	require.Len(t, report.Nodes, locks.MaxReported)
	require.Equal(t, 150, report.More)
	require.Len(t, report.Wait().Blockers, 20)
}

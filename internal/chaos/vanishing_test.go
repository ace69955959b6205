package chaos

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// vanishing are the scenarios in which a cluster of a rollout is taken from the hub.
func vanishing() []scenario {
	return []scenario{
		{name: "a cluster vanishes before its turn", run: clusterVanishes},
		{name: "a cluster vanishes while it is worked on", run: workedOnClusterVanishes},
		{name: "a cluster vanishes before the rollout is enabled", run: plannedClusterVanishes},
	}
}

// clusterVanishes: while the first batch is at work, the cluster of the second is taken from the hub. It is not touched.
func clusterVanishes(t *testing.T, s *scene) {
	at, vanishing := place{s.Spokes[1], "worker-1"}, s.Spokes[2]
	guest := s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{at.spoke, vanishing}, nodes: []string{at.node}, maxConcurrency: 1}, nil)
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	restore := s.unregister(t, vanishing)
	letLeave(t, at, guest)
	s.requireEnd(t, w)
	s.requireNothingDone(t, vanishing)
	restore()
}

// workedOnClusterVanishes: it fails though its pod has not left, and its node is returned.
func workedOnClusterVanishes(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	guest := s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.small(t, at, nil, at.node)
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	restore := s.unregister(t, at.spoke)
	s.requireEnd(t, w)
	letLeave(t, at, guest)
	restore()
}

// plannedClusterVanishes: a plan is made anew when the rollout is enabled. One that cannot be carried out waits, and nothing is touched.
func plannedClusterVanishes(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: s.Spokes[1:3], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(false) })
	w.end = cancelled
	s.awaitCompleted(t, w.workflow, "PlanRollout")
	restore := s.unregister(t, s.Spokes[2])
	s.say(t, w.workflow, temporal.SignalEnable)
	plans := 0
	s.awaitEvent(t, w.workflow, "it is planned anew", func(event *historypb.HistoryEvent) bool {
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "PlanRollout" {
			plans++
		}
		return plans == 2 && event.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
	s.say(t, w.workflow, temporal.SignalCancel)
	s.requireEnd(t, w)
	s.requireNothingDone(t, s.Spokes[1])
	s.requireNothingDone(t, s.Spokes[2])
	restore()
}

// unregister deletes a cluster's ManagedCluster; the returned function makes it anew.
func (s *scene) unregister(t *testing.T, spoke *devstack.Cluster) (register func()) {
	t.Helper()
	hub, err := dynamic.NewForConfig(s.Hub.Config)
	require.NoError(t, err)
	managedClusters := hub.Resource(schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"})
	was, err := managedClusters.Get(t.Context(), spoke.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, managedClusters.Delete(t.Context(), spoke.Name, metav1.DeleteOptions{}))
	was.SetResourceVersion("")
	was.SetUID("")
	register = sync.OnceFunc(func() {
		_, err := managedClusters.Create(context.Background(), was, metav1.CreateOptions{})
		require.NoError(t, err)
	})
	t.Cleanup(register)
	return register
}

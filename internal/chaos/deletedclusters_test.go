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

// deletedClusters are scenarios in which the ManagedCluster of a cluster is deleted during a rollout.
func deletedClusters() []scenario {
	return []scenario{
		{name: "a cluster is deleted before its batch", run: clusterDeletedBeforeItsBatch},
		{name: "a cluster is deleted while it is running", run: clusterDeletedDuringItsWork},
		{name: "a cluster is deleted before the rollout is enabled", run: clusterDeletedBeforeEnable},
	}
}

// clusterDeletedBeforeItsBatch: a cluster of the second batch is deleted during the first. Drydock does not touch it.
func clusterDeletedBeforeItsBatch(t *testing.T, s *scenarioRun) {
	at, deleted := target{s.Spokes[1], "worker-1"}, s.Spokes[2]
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{at.spoke, deleted}, nodes: []string{at.node}, maxConcurrency: 1}, nil)
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	restore := s.unregister(t, deleted)
	endTermination(t, at, pod)
	s.requireEnd(t, w)
	s.requireNothingDone(t, deleted)
	restore()
}

// clusterDeletedDuringItsWork: the cluster fails although its drain is blocked, and its node returns to service.
func clusterDeletedDuringItsWork(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.smallRollout(t, at, nil, at.node)
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	restore := s.unregister(t, at.spoke)
	s.requireEnd(t, w)
	endTermination(t, at, pod)
	restore()
}

// clusterDeletedBeforeEnable: the rollout is planned again when it is enabled. With an invalid plan it waits and changes nothing.
func clusterDeletedBeforeEnable(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: s.Spokes[1:3], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(false) })
	w.end = cancelled
	s.awaitCompleted(t, w.workflow, "PlanRollout")
	restore := s.unregister(t, s.Spokes[2])
	s.signal(t, w.workflow, temporal.SignalEnable)
	plans := 0
	s.awaitEvent(t, w.workflow, "it is planned again", func(event *historypb.HistoryEvent) bool {
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "PlanRollout" {
			plans++
		}
		return plans == 2 && event.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	})
	s.signal(t, w.workflow, temporal.SignalCancel)
	s.requireEnd(t, w)
	s.requireNothingDone(t, s.Spokes[1])
	s.requireNothingDone(t, s.Spokes[2])
	restore()
}

func (s *scenarioRun) managedClusterAPI(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	hub, err := dynamic.NewForConfig(s.Hub.Config)
	require.NoError(t, err)
	return hub.Resource(schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"})
}

// unregister deletes the ManagedCluster of a cluster. The returned function creates it again.
func (s *scenarioRun) unregister(t *testing.T, spoke *devstack.Cluster) (register func()) {
	t.Helper()
	managedClusters := s.managedClusterAPI(t)
	cluster, err := managedClusters.Get(t.Context(), spoke.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, managedClusters.Delete(t.Context(), spoke.Name, metav1.DeleteOptions{}))
	cluster.SetResourceVersion("")
	cluster.SetUID("")
	register = sync.OnceFunc(func() {
		_, err := managedClusters.Create(context.Background(), cluster, metav1.CreateOptions{})
		require.NoError(t, err)
	})
	t.Cleanup(register)
	return register
}

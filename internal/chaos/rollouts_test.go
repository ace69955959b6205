package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// shape is the size of a rollout.
type shape struct {
	// name is appended to the name of the scenario; empty if the scenario has one rollout only.
	name     string
	clusters []*devstack.Cluster
	// nodes of each cluster.
	nodes          []string
	maxConcurrency int
}

// rollOut starts a rollout that drains every node of its shape and runs a Job there. change may change its spec. It succeeds unless the
// caller sets another end.
func (s *scenarioRun) rollOut(t *testing.T, of shape, change func(*ranv1.ClusterGroupUpgradeSpec)) *work {
	t.Helper()
	w := &work{
		name: s.name + of.name, workflow: temporal.ClusterGroupUpgradeID(namespace, s.name+of.name),
		nodes: map[string][]string{}, rollout: true, job: true, end: ended,
		maxConcurrency: of.maxConcurrency,
	}
	spec := ranv1.ClusterGroupUpgradeSpec{
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt(of.maxConcurrency), Timeout: 60},
		NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{SkipNodes: allNodesBut(of.nodes), DrainSpec: drainAll(), Action: job(nil)},
	}
	for _, cluster := range of.clusters {
		spec.Clusters = append(spec.Clusters, cluster.Name)
		w.nodes[cluster.Name] = of.nodes
	}
	w.plan = slices.Collect(slices.Chunk(spec.Clusters, of.maxConcurrency))
	if change != nil {
		change(&spec)
	}
	s.request(t, w, s.Hub, objectOf(t, ranv1.GroupVersion.WithKind("ClusterGroupUpgrade"), w.name, &spec), "upgrade", "start")
	return w
}

// allNodes of a spoke.
func allNodes() []string {
	nodes := []string{controlPlane}
	for i := range workers {
		nodes = append(nodes, fmt.Sprintf("worker-%d", i+1))
	}
	return nodes
}

func allNodesBut(nodes []string) []string {
	return slices.DeleteFunc(allNodes(), func(name string) bool { return slices.Contains(nodes, name) })
}

// ofNode returns the ID of the maintenance of a node in a rollout.
func (w *work) ofNode(at target) string {
	return temporal.NodeMaintenanceID(at.spoke.Name, namespace, rollout.NodeMaintenanceName(w.name, at.node))
}

// ofCluster returns the ID of the upgrade of a cluster in a rollout.
func (w *work) ofCluster(spoke *devstack.Cluster) string {
	return temporal.ClusterUpgradeID(namespace, w.name, spoke.Name)
}

// awaitCluster waits until the rollout has started the upgrade of a cluster, and returns its ID.
func (s *scenarioRun) awaitCluster(t *testing.T, w *work, spoke *devstack.Cluster) string {
	t.Helper()
	s.awaitChild(t, w.workflow, w.ofCluster(spoke))
	return w.ofCluster(spoke)
}

// awaitMaintenance waits until the rollout has started the maintenance of a node, and returns its ID.
func (s *scenarioRun) awaitMaintenance(t *testing.T, w *work, at target) string {
	t.Helper()
	s.awaitChild(t, s.awaitCluster(t, w, at.spoke), w.ofNode(at))
	return w.ofNode(at)
}

// startEvent returns the first event of a workflow.
func (s *scenarioRun) startEvent(t *testing.T, workflow string) *historypb.HistoryEvent {
	t.Helper()
	event := s.awaitEvent(t, workflow, "it starts", func(*historypb.HistoryEvent) bool { return true })
	require.NotNil(t, event.GetWorkflowExecutionStartedEventAttributes())
	return event
}

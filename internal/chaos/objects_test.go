package chaos

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// objects are scenarios in which another user changes objects during a maintenance.
func objects() []scenario {
	return []scenario{
		{name: "a node is deleted during its drain", short: true, run: nodeDeleted},
		{name: "a node of a rollout is deleted during its drain", run: nodeOfRolloutDeleted},
		{name: "a node is not ready for a while during its drain", run: nodeNotReady},
		{name: "a node is not ready when its work is done", run: nodeNotReadyAfterwards},
		{name: "the budget that blocks a drain is deleted", short: true, run: budgetDeleted},
		{name: "a running Job is deleted", run: jobDeleted},
		{name: "a running Job of a rollout is deleted", run: jobOfRolloutDeleted},
		{name: "another user cordons a node before Drydock", short: true, run: cordonedBefore},
		{name: "another user cordons a node after Drydock", run: cordonedAfter},
		{name: "another user uncordons a node during its drain", run: uncordoned},
		{name: "another user uncordons and cordons a node", run: cordonedManually},
		{name: "another user annotates a node to stay out of service", run: keptCordoned},
		{name: "another user removes the ownership mark of a node during its drain", run: markRemoved},
	}
}

// blockedDrain starts a maintenance whose drain is blocked.
func (s *scenarioRun) blockedDrain(t *testing.T) (at target, w *work, unblock func()) {
	t.Helper()
	at = s.targets(t, 1)[0]
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w = s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "Drain")
	return at, w, func() { endTermination(t, at, pod) }
}

// nodeDeleted: the maintenance ends.
func nodeDeleted(t *testing.T, s *scenarioRun) {
	at, w, _ := s.blockedDrain(t)
	w.end = temporal.ErrNodeGone
	s.deleteNode(t, at)
	s.requireEnd(t, w)
	s.restoreNode(t, at)
}

// nodeOfRolloutDeleted: a deleted node does not fail its cluster.
func nodeOfRolloutDeleted(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: s.Spokes[1:], nodes: []string{controlPlane, at.node, "worker-2"}, maxConcurrency: 1}, nil)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	w.nodes[at.spoke.Name] = []string{controlPlane, "worker-2"}
	s.deleteNode(t, at)
	s.requireEnd(t, w)
	s.restoreNode(t, at)
}

func (s *scenarioRun) deleteNode(t *testing.T, at target) {
	t.Helper()
	require.NoError(t, at.spoke.Client.CoreV1().Nodes().Delete(t.Context(), at.node, metav1.DeleteOptions{}))
}

// restoreNode creates a deleted node again, without its former pods.
func (s *scenarioRun) restoreNode(t *testing.T, at target) {
	t.Helper()
	pods := at.spoke.Client.CoreV1().Pods(podNamespace)
	require.NoError(t, pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + at.node}))
	require.NoError(t, at.spoke.AddNodes(t.Context(), devstack.Node{Name: at.node}))
}

// nodeNotReady: the drain waits for the pods, whose state is unknown, and continues when the node is ready.
func nodeNotReady(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	s.setReady(t, at, false)
	s.awaitNode(t, at, "is not ready", func(node *corev1.Node) bool { return !ready(node) })
	unblock()
	s.awaitWaiting(t, w.workflow, "AwaitNodeHealthy")
	s.setReady(t, at, true)
}

// nodeNotReadyAfterwards: a node returns to service only when it is healthy.
func nodeNotReadyAfterwards(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(map[string]string{devstack.AnnotationCompleteAfter: forever})})
	s.awaitWaiting(t, w.workflow, "RunJob")
	s.setReady(t, at, false)
	completeJob(t, at)
	s.awaitWaiting(t, w.workflow, "AwaitNodeHealthy")
	s.requireNode(t, at, "is still cordoned", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.setReady(t, at, true)
}

// budgetDeleted: a refused eviction is retried immediately.
func budgetDeleted(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	pod := s.barePod(t, at, nil)
	budgets := at.spoke.Client.PolicyV1().PodDisruptionBudgets(podNamespace)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{fixtureLabel: pod}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "Drain")
	require.NoError(t, budgets.Delete(t.Context(), pod, metav1.DeleteOptions{}))
}

// jobDeleted: Drydock does not run the Job again. The node stays cordoned until the requestor sends a signal.
func jobDeleted(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(map[string]string{devstack.AnnotationCompleteAfter: forever})})
	s.awaitWaiting(t, w.workflow, "RunJob")
	s.deleteJobs(t, at)
	s.awaitPhase(t, w.workflow, string(maintenancev1.NodeRequestorFailed))
	s.requireNode(t, at, "is cordoned", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.signal(t, w.workflow, temporal.SignalDone)
}

// jobOfRolloutDeleted: the cluster fails, and its other nodes are not touched.
func jobOfRolloutDeleted(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{at.spoke}, nodes: []string{at.node, "worker-2"}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: forever})
	})
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "RunJob")
	s.deleteJobs(t, at)
	s.requireEnd(t, w)
	for _, action := range s.observedCluster(t, at.spoke).Actions {
		require.False(t, action.What == fleet.ActionCordon && action.Node == "worker-2" && action.At.After(s.began), "worker-2 is not cordoned")
	}
}

func (s *scenarioRun) deleteJobs(t *testing.T, at target) {
	t.Helper()
	err := at.spoke.Client.BatchV1().Jobs(jobNamespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{LabelSelector: fixtureLabel})
	require.NoError(t, err)
}

// cordonedBefore: the cordon of the other user stays.
func cordonedBefore(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	unlock := s.lock(t, at, lcmv1.LockActive)
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "AwaitNodeLocks")
	s.cordon(t, at, true)
	unlock()
	s.requireCordonLeft(t, at, w)
}

// cordonedAfter: the second cordon changes nothing, so the node is uncordoned.
func cordonedAfter(t *testing.T, s *scenarioRun) {
	at, _, unblock := s.blockedDrain(t)
	s.cordon(t, at, true)
	unblock()
}

// uncordoned: the node is not cordoned again, and the drain waits for a decision although no pod is left.
func uncordoned(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	s.cordon(t, at, false)
	s.awaitReason(t, w.workflow, string(drain.ReasonUncordoned))
	unblock()
	w.end = cancelled
	s.signal(t, w.workflow, temporal.SignalCancel)
}

// cordonedManually: the second cordon is not Drydock's.
func cordonedManually(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	s.cordon(t, at, false)
	s.cordon(t, at, true)
	unblock()
	s.requireCordonLeft(t, at, w)
}

func keptCordoned(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	s.annotate(t, at, kube.AnnotationKeepCordoned, `"true"`)
	unblock()
	s.requireCordonLeft(t, at, w)
	s.annotate(t, at, kube.AnnotationKeepCordoned, "null")
}

// markRemoved: without its mark, Drydock leaves the node as it is.
func markRemoved(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	w.end = temporal.ErrNodeBusy
	s.annotate(t, at, kube.AnnotationOwner, "null")
	s.requireCordonLeft(t, at, w)
	s.annotate(t, at, kube.AnnotationFormerState, "null")
	unblock()
}

// requireCordonLeft waits for the end of work that leaves its node cordoned, and uncordons the node.
func (s *scenarioRun) requireCordonLeft(t *testing.T, at target, w *work) {
	t.Helper()
	s.requireEnd(t, w)
	s.requireNode(t, at, "is left cordoned", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.cordon(t, at, false)
}

// cordon cordons or uncordons a node as a user of kubectl.
func (s *scenarioRun) cordon(t *testing.T, at target, unschedulable bool) {
	t.Helper()
	value := "true"
	if !unschedulable {
		value = "null"
	}
	s.patchNode(t, at, fmt.Sprintf(`{"spec":{"unschedulable":%s}}`, value))
}

func (s *scenarioRun) annotate(t *testing.T, at target, annotation, value string) {
	t.Helper()
	s.patchNode(t, at, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, value))
}

func (s *scenarioRun) patchNode(t *testing.T, at target, patch string) {
	t.Helper()
	_, err := at.spoke.Client.CoreV1().Nodes().Patch(context.Background(), at.node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(t, err)
}

func (s *scenarioRun) requireNode(t *testing.T, at target, what string, matches func(*corev1.Node) bool) {
	t.Helper()
	node, err := at.spoke.Client.CoreV1().Nodes().Get(t.Context(), at.node, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, matches(node), "%s %s", at, what)
}

func (s *scenarioRun) awaitNode(t *testing.T, at target, what string, matches func(*corev1.Node) bool) {
	t.Helper()
	require.NoError(t, s.Await(t.Context(), at.spoke, at.node+" "+what, []client.Object{&corev1.Node{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var node corev1.Node
			err := reader.Get(ctx, client.ObjectKey{Name: at.node}, &node)
			return matches(&node), err
		}))
}

func ready(node *corev1.Node) bool {
	condition := kube.FindNodeCondition(node, corev1.NodeReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

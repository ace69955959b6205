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

// objects are the scenarios in which somebody else changes what a maintenance is about.
func objects() []scenario {
	return []scenario{
		{name: "a node is deleted in the midst of its drain", short: true, run: nodeDeleted},
		{name: "a node of a rollout is deleted in the midst of its drain", run: nodeOfRolloutDeleted},
		{name: "a node is not ready for a while in the midst of its drain", run: nodeNotReady},
		{name: "a node is not ready when its work is done", run: nodeNotReadyAfterwards},
		{name: "the budget that holds up a drain is deleted", short: true, run: budgetDeleted},
		{name: "a job is deleted while it is at work", run: jobDeleted},
		{name: "a job of a rollout is deleted while it is at work", run: jobOfRolloutDeleted},
		{name: "someone else cordons a node before us", short: true, run: cordonedBefore},
		{name: "someone else cordons a node after us", run: cordonedAfter},
		{name: "someone else uncordons a node in the midst of its drain", run: uncordoned},
		{name: "someone else uncordons a node and cordons it for himself", run: takenOver},
		{name: "someone wants a node to stay out of service", run: kept},
		{name: "someone removes our mark from a node in the midst of its drain", run: markRemoved},
	}
}

// aDrain is a maintenance that is held up in its drain.
func (s *scene) aDrain(t *testing.T) (at place, w *work, letGo func()) {
	t.Helper()
	at = s.places(t, 1)[0]
	guest := s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w = s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "Drain")
	return at, w, func() { letLeave(t, at, guest) }
}

// nodeDeleted: its pods are gone with it, and so is the work.
func nodeDeleted(t *testing.T, s *scene) {
	at, w, _ := s.aDrain(t)
	w.end = temporal.ErrNodeGone
	s.deleteNode(t, at)
	s.requireEnd(t, w)
	s.restoreNode(t, at)
}

// nodeOfRolloutDeleted: what is gone fails nobody.
func nodeOfRolloutDeleted(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: s.Spokes[1:], nodes: []string{controlPlane, at.node, "worker-2"}, maxConcurrency: 1}, nil)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	w.nodes[at.spoke.Name] = []string{controlPlane, "worker-2"}
	s.deleteNode(t, at)
	s.requireEnd(t, w)
	s.restoreNode(t, at)
}

func (s *scene) deleteNode(t *testing.T, at place) {
	t.Helper()
	require.NoError(t, at.spoke.Client.CoreV1().Nodes().Delete(t.Context(), at.node, metav1.DeleteOptions{}))
}

// restoreNode puts a node back where it was, without the pods that were bound to the one that is gone.
func (s *scene) restoreNode(t *testing.T, at place) {
	t.Helper()
	pods := at.spoke.Client.CoreV1().Pods(propNamespace)
	require.NoError(t, pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + at.node}))
	require.NoError(t, at.spoke.AddNodes(t.Context(), devstack.Node{Name: at.node}))
}

// nodeNotReady: the drain waits for pods that nobody can tell about, and goes on.
func nodeNotReady(t *testing.T, s *scene) {
	at, w, letGo := s.aDrain(t)
	s.setReady(t, at, false)
	s.awaitNode(t, at, "is not ready", func(node *corev1.Node) bool { return !ready(node) })
	letGo()
	s.awaitWaiting(t, w.workflow, "AwaitNodeHealthy")
	s.setReady(t, at, true)
}

// nodeNotReadyAfterwards: a node is not returned before it is well.
func nodeNotReadyAfterwards(t *testing.T, s *scene) {
	at := s.places(t, 1)[0]
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(map[string]string{devstack.AnnotationCompleteAfter: forever})})
	s.awaitWaiting(t, w.workflow, "RunJob")
	s.setReady(t, at, false)
	letComplete(t, at)
	s.awaitWaiting(t, w.workflow, "AwaitNodeHealthy")
	s.requireNode(t, at, "is not returned yet", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.setReady(t, at, true)
}

// budgetDeleted: an eviction that was refused is asked for again at once.
func budgetDeleted(t *testing.T, s *scene) {
	at := s.places(t, 1)[0]
	guest := s.guest(t, at, nil)
	budgets := at.spoke.Client.PolicyV1().PodDisruptionBudgets(propNamespace)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: guest},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{propLabel: guest}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "Drain")
	require.NoError(t, budgets.Delete(t.Context(), guest, metav1.DeleteOptions{}))
}

// jobDeleted: somebody did not want the work. It is not done again behind his back: the node is held until the requestor speaks.
func jobDeleted(t *testing.T, s *scene) {
	at := s.places(t, 1)[0]
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(map[string]string{devstack.AnnotationCompleteAfter: forever})})
	s.awaitWaiting(t, w.workflow, "RunJob")
	s.deleteJobs(t, at)
	s.awaitPhase(t, w.workflow, string(maintenancev1.NodeRequestorFailed))
	s.requireNode(t, at, "is held", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.say(t, w.workflow, temporal.SignalDone)
}

// jobOfRolloutDeleted: the cluster has failed, and no other node of it is touched.
func jobOfRolloutDeleted(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{at.spoke}, nodes: []string{at.node, "worker-2"}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: forever})
	})
	w.end = ranv1.ReasonFailed
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "RunJob")
	s.deleteJobs(t, at)
	s.requireEnd(t, w)
	for _, action := range s.judged(t, at.spoke).Actions {
		require.False(t, action.What == fleet.ActionCordon && action.Node == "worker-2" && action.At.After(s.began), "worker-2 is left alone")
	}
}

func (s *scene) deleteJobs(t *testing.T, at place) {
	t.Helper()
	err := at.spoke.Client.BatchV1().Jobs(jobNamespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{LabelSelector: propLabel})
	require.NoError(t, err)
}

// cordonedBefore: the cordon stays theirs.
func cordonedBefore(t *testing.T, s *scene) {
	at := s.places(t, 1)[0]
	unlock := s.lock(t, at, lcmv1.LockActive)
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.awaitWaiting(t, w.workflow, "AwaitNodeLocks")
	s.cordon(t, at, true)
	unlock()
	s.requireCordonLeft(t, at, w)
}

// cordonedAfter: there is nothing to cordon any more, and the API server has kept no trace of the wish.
func cordonedAfter(t *testing.T, s *scene) {
	at, _, letGo := s.aDrain(t)
	s.cordon(t, at, true)
	letGo()
}

// uncordoned: the node is not cordoned again, and the drain is not over before somebody decides, though no pod is left.
func uncordoned(t *testing.T, s *scene) {
	at, w, letGo := s.aDrain(t)
	s.cordon(t, at, false)
	s.awaitReason(t, w.workflow, string(drain.ReasonUncordoned))
	letGo()
	w.end = cancelled
	s.say(t, w.workflow, temporal.SignalCancel)
}

// takenOver: the second cordon is not ours, although we had the first.
func takenOver(t *testing.T, s *scene) {
	at, w, letGo := s.aDrain(t)
	s.cordon(t, at, false)
	s.cordon(t, at, true)
	letGo()
	s.requireCordonLeft(t, at, w)
}

// kept: the annotation keeps the node out of service.
func kept(t *testing.T, s *scene) {
	at, w, letGo := s.aDrain(t)
	s.annotate(t, at, kube.AnnotationKeepCordoned, `"true"`)
	letGo()
	s.requireCordonLeft(t, at, w)
	s.annotate(t, at, kube.AnnotationKeepCordoned, "null")
}

// markRemoved: whoever removes the mark takes the node from us, as it stands.
func markRemoved(t *testing.T, s *scene) {
	at, w, letGo := s.aDrain(t)
	w.end = temporal.ErrNodeBusy
	s.annotate(t, at, kube.AnnotationOwner, "null")
	s.requireCordonLeft(t, at, w)
	s.annotate(t, at, kube.AnnotationFormerState, "null")
	letGo()
}

// requireCordonLeft waits for the end of a work that leaves a node cordoned, and plays the one who returns it.
func (s *scene) requireCordonLeft(t *testing.T, at place, w *work) {
	t.Helper()
	s.requireEnd(t, w)
	s.requireNode(t, at, "is left cordoned", func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	s.cordon(t, at, false)
}

// cordon plays a person with kubectl.
func (s *scene) cordon(t *testing.T, at place, unschedulable bool) {
	t.Helper()
	value := "true"
	if !unschedulable {
		value = "null"
	}
	s.patchNode(t, at, fmt.Sprintf(`{"spec":{"unschedulable":%s}}`, value))
}

func (s *scene) annotate(t *testing.T, at place, annotation, value string) {
	t.Helper()
	s.patchNode(t, at, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, value))
}

func (s *scene) patchNode(t *testing.T, at place, patch string) {
	t.Helper()
	_, err := at.spoke.Client.CoreV1().Nodes().Patch(context.Background(), at.node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(t, err)
}

func (s *scene) requireNode(t *testing.T, at place, what string, is func(*corev1.Node) bool) {
	t.Helper()
	node, err := at.spoke.Client.CoreV1().Nodes().Get(t.Context(), at.node, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, is(node), "%s %s", at, what)
}

func (s *scene) awaitNode(t *testing.T, at place, what string, is func(*corev1.Node) bool) {
	t.Helper()
	require.NoError(t, s.Await(t.Context(), at.spoke, at.node+" "+what, []client.Object{&corev1.Node{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var node corev1.Node
			err := reader.Get(ctx, client.ObjectKey{Name: at.node}, &node)
			return is(&node), err
		}))
}

func ready(node *corev1.Node) bool {
	condition := kube.FindNodeCondition(node, corev1.NodeReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

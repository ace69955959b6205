package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// bareCluster is an administrator's access to the hub, used as a cluster: all its nodes are the test's.
func bareCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := admin.Cluster(t.Context(), hubName)
	require.NoError(t, err)
	return cluster
}

// create creates an object for the time of a test.
func create[O client.Object](t *testing.T, cluster *kube.Cluster, object O) O {
	t.Helper()
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return object
}

// bareNodes creates nodes that are Ready.
func bareNodes(t *testing.T, names ...string) *kube.Cluster {
	t.Helper()
	cluster := bareCluster(t)
	for _, name := range names {
		node := create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		require.NoError(t, cluster.Client.Status().Update(t.Context(), node))
		settled(t, hubName, node)
	}
	return cluster
}

func budgets(t *testing.T, cluster *kube.Cluster, spec maintenancev1.MaintenanceOperatorConfigSpec) *maintenancev1.MaintenanceOperatorConfig {
	t.Helper()
	config := create(t, cluster, &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "config-"}, Spec: spec,
	})
	settled(t, hubName, config)
	return config
}

// awaitGrants asks for grants in the background.
func awaitGrants(t *testing.T, pending, running []string) (granted chan []string) {
	t.Helper()
	granted = make(chan []string, 1)
	go func() {
		names, err := (&Clusters{Clusters: clusters}).AwaitGrants(t.Context(), AwaitGrantsInput{Cluster: hubName, Pending: pending, Running: running})
		if err == nil {
			granted <- names
		}
	}()
	return granted
}

func requireWaiting(t *testing.T, granted chan []string) {
	t.Helper()
	require.Never(t, func() bool { return len(granted) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
}

func requireGranted(t *testing.T, granted chan []string, want ...string) {
	t.Helper()
	select {
	case names := <-granted:
		require.Equal(t, want, names)
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was granted")
	}
}

func TestWithoutBudgetsOneNodeAtATimeIsGranted(t *testing.T) {
	bareNodes(t, "a", "b")
	requireGranted(t, awaitGrants(t, []string{"b", "a"}, nil), "b")
}

func TestANodeIsGrantedTheMomentTheBudgetsAreRaised(t *testing.T) {
	cluster := bareNodes(t, "a", "b", "c")
	granted := awaitGrants(t, []string{"b", "c"}, []string{"a"})
	requireWaiting(t, granted)
	budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt32(2))})
	requireGranted(t, granted, "b")
}

func TestANodeIsGrantedTheMomentAnotherIsAvailableAgain(t *testing.T) {
	cluster := bareNodes(t, "a", "b")
	budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{
		MaxParallelOperations: new(intstr.FromInt32(2)), MaxUnavailable: new(intstr.FromInt32(1)),
	})
	down := &corev1.Node{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "b"}, down))
	patch := client.MergeFrom(down.DeepCopy())
	cordoned(down)
	require.NoError(t, cluster.Client.Patch(t.Context(), down, patch))
	settled(t, hubName, down)

	granted := awaitGrants(t, []string{"a"}, nil)
	requireWaiting(t, granted)
	patch = client.MergeFrom(down.DeepCopy())
	uncordoned(down)
	require.NoError(t, cluster.Client.Patch(t.Context(), down, patch))
	requireGranted(t, granted, "a")
}

func TestANodeThatSomeoneElseMaintainsHoldsASlot(t *testing.T) {
	bareNodes(t, "a", "b")
	other := NodeRef{Cluster: hubName, Node: "a", Owner: "node/hub/default/other/run"}
	_, err := nodes().Cordon(t.Context(), CordonInput{NodeRef: other, Cordon: true})
	require.NoError(t, err)
	granted := awaitGrants(t, []string{"a", "b"}, nil)
	requireWaiting(t, granted)
	_, err = nodes().ReturnNode(t.Context(), ReturnNodeInput{NodeRef: other})
	require.NoError(t, err)
	requireGranted(t, granted, "a")
}

func TestANodeThatIsGoneNeedsNoSlot(t *testing.T) {
	bareNodes(t, "a")
	requireGranted(t, awaitGrants(t, []string{"gone"}, []string{"a"}), "gone")
}

func TestTwoConfigurationsOfOneClusterAreRefusedByName(t *testing.T) {
	cluster := bareNodes(t, "a")
	for range 2 {
		budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt32(0))})
	}
	_, err := (&Clusters{Clusters: clusters}).AwaitGrants(t.Context(), AwaitGrantsInput{Cluster: hubName, Pending: []string{"a"}})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster hub: there are 2 MaintenanceOperatorConfigs (default/config-")
}

func TestAWaitForASlotNamesTheNodesThatWaitAndWhatFor(t *testing.T) {
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	marked := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{kube.AnnotationOwner: "node/c/default/x/run"}}
	granted, waiting := grants([]corev1.Node{
		{ObjectMeta: marked, Status: ready}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: ready},
	}, maintenancev1.MaintenanceOperatorConfigSpec{}, AwaitGrantsInput{Pending: []string{"b", "a"}})
	require.Empty(t, granted)
	wait := turn(waiting)
	require.Equal(t, "NoSlot", wait.Reason)
	require.Equal(t, "b is next of 2: maxParallelOperations allows 1 of 2 nodes under maintenance at once (a)", wait.Message)
	require.Len(t, wait.Blockers, 2)
	require.Equal(t, "NodeBusy", wait.Blockers[1].Reason)
	require.Contains(t, wait.Blockers[1].Message, "node a is under maintenance by node/c/default/x")
}

func TestInspectionTellsControlPlaneWorkersAndSkippedNodes(t *testing.T) {
	cluster := bareNodes(t, "w1", "w2", "w3")
	create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
	create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kept", Annotations: map[string]string{lcmv1.AnnotationSkipMaintenance: "true"}}})
	require.Eventually(t, func() bool {
		plan, err := (&Clusters{Clusters: clusters}).InspectCluster(t.Context(), InspectClusterInput{
			Cluster: hubName, Remediation: ranv1.NodeMaintenanceRemediation{SkipNodes: []string{"w2"}},
		})
		return err == nil && len(plan.Skipped) == 2 && plan.Skipped[0] == rollout.SkippedNode{Name: "kept", Reason: rollout.ReasonSkipMaintenance} &&
			plan.Skipped[1].Name == "w2" && len(plan.ControlPlane) == 1 && plan.Workers[0] == "w1" && plan.Workers[1] == "w3"
	}, 5*time.Second, 20*time.Millisecond)

	_, err := (&Clusters{Clusters: clusters}).InspectCluster(t.Context(), InspectClusterInput{
		Cluster: hubName, Remediation: ranv1.NodeMaintenanceRemediation{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}},
	})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
}

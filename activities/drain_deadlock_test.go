package activities

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
)

// pair runs an application with one pod on a node and one that only the two nodes of the pair would take, behind a budget that wants one of them
// healthy.
func (n tenant) pair(t *testing.T, app, node string) *policyv1.PodDisruptionBudget {
	t.Helper()
	n.pod(t, node, app, withLabel("app", app))
	homeless := n.create(t, "", app+"-homeless", withLabel("app", app), func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"test.drydock.dev/shop": "pair"}
	})
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	require.NoError(t, testCluster(t).Client.Create(t.Context(), budget))
	cluster, err := clusters.Cluster(t.Context(), spokeName)
	require.NoError(t, err)
	kinds := []client.Object{budget.DeepCopy(), homeless.DeepCopy()}
	require.NoError(t, cluster.Await(t.Context(), kinds, func(ctx context.Context) (bool, error) {
		if err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(homeless), homeless); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		refused := false
		for _, condition := range homeless.Status.Conditions {
			refused = refused || condition.Reason == corev1.PodReasonUnschedulable
		}
		return refused && budget.Status.ExpectedPods == 2 && budget.Status.CurrentHealthy == 1, nil
	}))
	return budget
}

func TestTwoDrainsThatWaitForEachOtherAreToldAsADeadlock(t *testing.T) {
	pair := func(n *devstack.Node) { n.Labels = map[string]string{"test.drydock.dev/shop": "pair"} }
	one, other, shop := testNode(t, pair), testNode(t, pair), newTenant(t)
	changed(t, one.Node, cordoned)
	changed(t, other.Node, cordoned)
	web := shop.pair(t, "web", one.Node)
	shop.pair(t, "db", other.Node)
	first, second := &signals{}, &signals{}
	endedOne := startDrain(t, DrainInput{NodeRef: one, Attempt: 1}, first, nil)
	endedOther := startDrain(t, DrainInput{NodeRef: other, Attempt: 1}, second, nil)

	told := first.waitsFor(t, "Deadlock")
	require.Contains(t, told.Wait.Message, fmt.Sprintf("lacks pod %s/web-homeless", shop.namespace))
	require.Contains(t, told.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/db", other.Node, shop.namespace))
	require.Equal(t, "Deadlock", told.Drain.Blocked[0].Reason)
	told = second.waitsFor(t, "Deadlock")
	require.Contains(t, told.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/web", one.Node, shop.namespace))

	lower(t, web, 0)
	require.NoError(t, (<-endedOne).err)
	second.waitsFor(t, "DisruptionBudget") // the node that is empty comes back, and would take the pod that is missing
	changed(t, one.Node, uncordoned)
	require.NoError(t, (<-endedOther).err)
}

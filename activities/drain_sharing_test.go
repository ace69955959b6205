package activities

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

func TestASmallDrainIsNotDelayedByFiftyBlockedOnes(t *testing.T) {
	const blocked = 50
	shop := newTenant(t)
	var refs []NodeRef
	for i := range blocked {
		refs = append(refs, testNode(t))
		shop.create(t, refs[i].Node, fmt.Sprintf("web-%d", i))
	}
	shop.awaitPods(t, blocked)
	budget := shop.budget(t, "web", blocked, blocked)
	var ended []chan drained
	var waits []*signals
	for _, ref := range refs {
		workflow := &signals{}
		waits, ended = append(waits, workflow), append(ended, startDrain(t, DrainInput{NodeRef: ref, Attempt: 1}, workflow, nil))
	}
	for _, workflow := range waits {
		workflow.waitsFor(t, "DisruptionBudgetNever")
	}

	// A machine that stands still for seconds lets the others have another turn meanwhile, but not each time.
	var delayed map[string]int
	var names []string
	for i := range 5 {
		small, name := testNode(t), fmt.Sprintf("small-%d", i)
		names = append(names, name)
		shop.pod(t, small.Node, name, withLabel("app", "small"))
		_, err := drainNode(t, DrainInput{NodeRef: small, Attempt: 1})
		require.NoError(t, err)
		shop.requireEvictions(t, names...)
		delayed = shop.askedBefore(t, small.Node, name)
		maps.DeleteFunc(delayed, func(_ string, asked int) bool { return asked <= 1 })
		if len(delayed) == 0 {
			break
		}
	}
	require.Empty(t, delayed, "these had more than their turn while a small drain waited")
	for _, result := range ended {
		require.Empty(t, result, "the others wait")
	}

	lower(t, budget, 0)
	for _, result := range ended {
		require.NoError(t, (<-result).err)
	}
}

// A cluster's limit is spent by four large drains, for much longer than the test takes.
func TestASmallDrainIsNotDelayedByLargeOnesThatSpendTheLimit(t *testing.T) {
	const large, pods = 4, 60
	ctx, cancel := context.WithCancel(t.Context())
	tight := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{spokeName: stack.Cluster(spokeName).Config}), kube.Options{QPS: 10, Burst: 10})
	t.Cleanup(tight.Close)
	ended := make(chan error, large)
	t.Cleanup(func() {
		cancel()
		for range large {
			<-ended
		}
	})
	shop := newTenant(t)
	drain := func(ref NodeRef) error {
		_, err := (&Drains{Clusters: tight}).Drain(ctx, DrainInput{NodeRef: ref, Attempt: 1})
		return err
	}
	var refs []NodeRef
	for i := range large {
		refs = append(refs, testNode(t))
		mark(t, refs[i])
		for j := range pods {
			shop.create(t, refs[i].Node, fmt.Sprintf("large-%d-%d", i, j))
		}
	}
	small := testNode(t)
	mark(t, small)
	shop.create(t, small.Node, "small-1")
	shop.create(t, small.Node, "small-2")
	shop.awaitPods(t, large*pods+2)

	for _, ref := range refs {
		go func() { ended <- drain(ref) }()
	}
	cluster := testCluster(t)
	for _, ref := range refs {
		require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Node}}}, func(ctx context.Context) (bool, error) {
			node, err := cluster.Node(ctx, ref.Node)
			return kube.FindNodeCondition(node, kube.ConditionDrainInProgress) != nil, err
		}))
	}
	require.NoError(t, drain(small))
	require.Empty(t, ended, "the large ones are still at it")
	order := shop.evictionsInOrder(t)
	require.Contains(t, order, "small-1")
	require.Contains(t, order, "small-2")
	require.Less(t, len(order), large*pods/2+2, "its evictions came before those of most pods that had been waiting longer")
}

func TestADrainKeepsTheOrderOfItsPods(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	shop.pod(t, ref.Node, "storage", withLabel("tier", "storage"))
	shop.pod(t, ref.Node, "plain")
	shop.pod(t, ref.Node, "front", withLabel("tier", "front"))
	require.NoError(t, testCluster(t).Client.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop.namespace, Name: "front"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}},
		},
	}))
	workflow := &signals{}
	spec := maintenancev1.DrainSpec{PodOrder: []maintenancev1.PodOrder{{PodSelector: "tier=front", Order: -1}, {PodSelector: "tier=storage", Order: 1}}}
	ended := startDrain(t, DrainInput{NodeRef: ref, Attempt: 1, Spec: spec}, workflow, nil)
	waiting := workflow.waitsFor(t, "DisruptionBudgetNever")
	require.Contains(t, waiting.Wait.Message, fmt.Sprintf("2 pods waiting for pods of a lower order: %[1]s/plain, %[1]s/storage", shop.namespace))
	require.Empty(t, shop.evictions(t))

	require.NoError(t, testCluster(t).Client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: shop.namespace, Name: "front"}}))
	require.NoError(t, (<-ended).err)
	shop.requireEvictions(t, "front", "plain", "storage")
	require.Equal(t, []string{"front", "plain", "storage"}, shop.evictionsInOrder(t))
}

package drain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

func TestASmallDrainIsNotDelayedByFiftyBlockedOnes(t *testing.T) {
	const blocked = 50
	shop := activitytest.NewTenant(t)
	var refs []activitykit.NodeRef
	for i := range blocked {
		refs = append(refs, activitytest.TestNode(t))
		shop.Create(t, refs[i].Node, fmt.Sprintf("web-%d", i))
	}
	shop.AwaitPods(t, blocked)
	budget := shop.Budget(t, "web", blocked, blocked)
	var ended []chan activitytest.Drained
	var waits []*activitytest.Signals
	for _, ref := range refs {
		workflow := &activitytest.Signals{}
		waits, ended = append(waits, workflow), append(ended, activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, workflow, nil))
	}
	for _, workflow := range waits {
		workflow.WaitsFor(t, "DisruptionBudgetNever")
	}

	// A stalled machine may serve the others twice, but not each time.
	var delayed map[string]int
	var names []string
	for i := range 5 {
		small, name := activitytest.TestNode(t), fmt.Sprintf("small-%d", i)
		names = append(names, name)
		shop.Pod(t, small.Node, name, activitytest.WithLabel("app", "small"))
		_, err := activitytest.DrainNode(t, drain.Input{NodeRef: small, Attempt: 1})
		require.NoError(t, err)
		shop.RequireEvictions(t, names...)
		delayed = shop.EvictionRequestsBefore(t, small.Node, name)
		maps.DeleteFunc(delayed, func(_ string, asked int) bool { return asked <= 1 })
		if len(delayed) == 0 {
			break
		}
	}
	require.Empty(t, delayed, "these drains delayed a small drain")
	for _, result := range ended {
		require.Empty(t, result, "the large drains wait")
	}

	activitytest.Lower(t, budget, 0)
	for _, result := range ended {
		require.NoError(t, (<-result).Err)
	}
}

// Four large drains use up the limit of the cluster for longer than the test runs.
func TestASmallDrainIsNotDelayedByDrainsThatUseUpTheRateLimit(t *testing.T) {
	const large, pods = 4, 60
	ctx, cancel := context.WithCancel(t.Context())
	tight := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: activitytest.Stack.Cluster(activitytest.SpokeName).Config}), kube.Options{QPS: 3, Burst: 3})
	t.Cleanup(tight.Close)
	ended := make(chan error, large)
	t.Cleanup(func() {
		cancel()
		for range large {
			<-ended
		}
	})
	shop := activitytest.NewTenant(t)
	drain := func(ref activitykit.NodeRef) error {
		_, err := (&drain.Activities{Clusters: tight}).Drain(ctx, drain.Input{NodeRef: ref, Attempt: 1})
		return err
	}
	var refs []activitykit.NodeRef
	for i := range large {
		refs = append(refs, activitytest.TestNode(t))
		activitytest.Mark(t, refs[i])
		for j := range pods {
			shop.Create(t, refs[i].Node, fmt.Sprintf("large-%d-%d", i, j))
		}
	}
	small := activitytest.TestNode(t)
	activitytest.Mark(t, small)
	shop.Create(t, small.Node, "small-1")
	shop.Create(t, small.Node, "small-2")
	shop.AwaitPods(t, large*pods+2)

	for _, ref := range refs {
		go func() { ended <- drain(ref) }()
	}
	cluster := activitytest.TestCluster(t)
	for _, ref := range refs {
		require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Node}}}, func(ctx context.Context) (bool, error) {
			node, err := cluster.Node(ctx, ref.Node)
			return kube.FindNodeCondition(node, kube.ConditionDrainInProgress) != nil, err
		}))
	}
	require.NoError(t, drain(small))
	require.Empty(t, ended, "the large drains are running")
	order := shop.EvictionsInOrder(t)
	require.Contains(t, order, "small-1")
	require.Contains(t, order, "small-2")
	require.Less(t, max(slices.Index(order, "small-1"), slices.Index(order, "small-2")), large*pods/2+2, "its pods were evicted before most pods of the large drains")
}

func TestADrainKeepsTheOrderOfItsPods(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "storage", activitytest.WithLabel("tier", "storage"))
	shop.Pod(t, ref.Node, "plain")
	shop.Pod(t, ref.Node, "front", activitytest.WithLabel("tier", "front"))
	require.NoError(t, activitytest.TestCluster(t).Client.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: "front"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}},
		},
	}))
	workflow := &activitytest.Signals{}
	spec := maintenancev1.DrainSpec{PodOrder: []maintenancev1.PodOrder{{PodSelector: "tier=front", Order: -1}, {PodSelector: "tier=storage", Order: 1}}}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1, Spec: spec}, workflow, nil)
	waiting := workflow.WaitsFor(t, "DisruptionBudgetNever")
	require.Contains(t, waiting.Wait.Message, fmt.Sprintf("2 pods waiting for pods of a lower order: %[1]s/plain, %[1]s/storage", shop.Namespace))
	require.Empty(t, shop.Evictions(t))

	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: "front"}}))
	require.NoError(t, (<-ended).Err)
	shop.RequireEvictions(t, "front", "plain", "storage")
	require.Equal(t, []string{"front", "plain", "storage"}, shop.EvictionsInOrder(t))
}

package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestADrainEvictsEveryPodAndMarksTheNodeDrained(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for i := range 5 {
		shop.Pod(t, ref.Node, fmt.Sprintf("web-%d", i))
	}
	spared := shop.Pod(t, ref.Node, "spared", activitytest.WithLabel("app", "other"))
	status, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1, Spec: maintenancev1.DrainSpec{PodSelector: "app=web"}})
	require.NoError(t, err)
	require.Equal(t, maintenancev1.DrainStatus{TotalPods: 6, CurrentPods: 1, EvictionPods: 5, Evicted: 5, DrainProgress: 100, Attempt: 1}, status)
	require.Equal(t, []string{spared.Name}, shop.Left(t))
	shop.RequireEvictions(t, "web-0", "web-1", "web-2", "web-3", "web-4")

	node := activitytest.GetNode(t, ref.Node)
	require.Equal(t, corev1.ConditionTrue, kube.FindNodeCondition(node, kube.ConditionDrained).Status)
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionDrainInProgress))
}

func TestADrainReportsTheBudgetItWaitsFor(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for i := range 2 {
		shop.Pod(t, ref.Node, fmt.Sprintf("web-%d", i))
	}
	shop.Pod(t, ref.Node, "other", activitytest.WithLabel("app", "other"))
	budget := shop.Budget(t, "web", 2, 2)
	workflow := &activitytest.Signals{}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, workflow, nil)

	blocked := workflow.WaitsFor(t, "DisruptionBudgetNever")
	require.Equal(t, "Drain", blocked.Activity)
	require.Contains(t, blocked.Wait.Message, fmt.Sprintf("2 pods blocked by PodDisruptionBudget %s/web (its minAvailable is 2, and it selects 2 pods): ", shop.Namespace))
	require.Len(t, blocked.Drain.Blocked, 2)
	require.False(t, blocked.Wait.Since.IsZero())
	require.Eventually(t, func() bool { return !slices.Contains(shop.Left(t), "other") }, activitytest.EventTimeout, 10*time.Millisecond, "it has no budget")
	require.Eventually(t, func() bool {
		draining := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionDrainInProgress)
		return draining != nil && draining.Status == corev1.ConditionTrue
	}, activitytest.EventTimeout, 10*time.Millisecond)

	activitytest.Lower(t, budget, 0)
	result := <-ended
	require.NoError(t, result.Err)
	require.Equal(t, int32(3), result.Status.Evicted)
	shop.RequireEvictions(t, "web-0", "web-1", "other")
}

func TestADrainNeverEvictsMoreThanTheBudgetAllows(t *testing.T) {
	apart := func(n *devstack.Node) { n.Labels = map[string]string{"test.drydock.dev/shop": "apart"} }
	from, _ := activitytest.TestNode(t, apart), activitytest.TestNode(t, apart)
	namespace := activitytest.NewTenant(t).Namespace
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{devstack.AnnotationReadyAfter: "300ms"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"test.drydock.dev/shop": "apart"},
			Containers:   []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](6), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: pods,
		},
	}
	cluster := activitytest.TestCluster(t)
	require.NoError(t, cluster.Client.Create(t.Context(), deployment))
	healthy := func(want int32) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
			return deployment.Status.AvailableReplicas == want, client.IgnoreNotFound(err)
		}
	}
	require.NoError(t, cluster.Await(t.Context(), []client.Object{deployment.DeepCopy()}, healthy(6)))
	shop := activitytest.Tenant{Namespace: namespace}
	shop.Budget(t, "web", 5, 6)
	activitytest.Changed(t, from.Node, activitytest.Cordoned)

	events, err := activitytest.Stack.Cluster(activitytest.SpokeName).Client.PolicyV1().PodDisruptionBudgets(namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	fewest := make(chan int32, 1)
	go func() {
		least := int32(6)
		for event := range events.ResultChan() {
			if budget, ok := event.Object.(*policyv1.PodDisruptionBudget); ok {
				least = min(least, budget.Status.CurrentHealthy)
			}
		}
		fewest <- least
	}()
	status, err := activitytest.DrainNode(t, drain.Input{NodeRef: from, Attempt: 1})
	require.NoError(t, err)
	require.Positive(t, status.Evicted)
	require.Eventually(t, func() bool { return len(shop.Evictions(t)) == int(status.Evicted) }, activitytest.EventTimeout, 50*time.Millisecond)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{deployment.DeepCopy()}, healthy(6)))
	events.Stop()
	require.GreaterOrEqual(t, <-fewest, int32(5))
}

func TestAPodThatReturnsToTheNodeIsNotEvictedEndlessly(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	labels := map[string]string{"app": "agent"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: "agent"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				// An evicted pod stays until it has been replaced: otherwise the node could be empty for a moment.
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Finalizers: []string{"drydock.dev/until-replaced"}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: ref.Node}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
				},
			},
		},
	}
	cluster := activitytest.TestCluster(t)
	require.NoError(t, cluster.Client.Create(t.Context(), deployment))
	require.NoError(t, cluster.Await(t.Context(), []client.Object{deployment.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
		return deployment.Status.AvailableReplicas == 1, client.IgnoreNotFound(err)
	}))
	workflow := &activitytest.Signals{}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Cordoned: true, Attempt: 1}, workflow, nil)
	returned := workflow.WaitsFor(t, "ReturnsToNode")
	require.Contains(t, returned.Wait.Message, "it tolerates the cordon")
	var pods corev1.PodList
	require.NoError(t, cluster.Client.List(t.Context(), &pods, client.InNamespace(shop.Namespace)))
	for _, pod := range pods.Items {
		require.NoError(t, cluster.Client.Patch(t.Context(), &pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	}
	require.NoError(t, cluster.Client.Delete(t.Context(), deployment))
	result := <-ended
	require.NoError(t, result.Err)
	require.Equal(t, int32(4), result.Status.Evicted, "the last one was deleted with its controller")
	require.Eventually(t, func() bool { return len(shop.Evictions(t)) == 3 }, activitytest.EventTimeout, 50*time.Millisecond)
}

func TestATimedOutDrainNamesItsBlockers(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for i := range 3 {
		shop.Pod(t, ref.Node, fmt.Sprintf("web-%d", i))
	}
	shop.Budget(t, "web", 3, 3)
	var err error
	for enough := time.Second; enough < activitytest.EventTimeout && len(temporal.Blockers(err)) < 3; enough *= 2 { // until it has tried all evictions
		_, err = activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1, Deadline: new(time.Now().Add(enough))})
		require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
	}
	require.Contains(t, temporal.ErrorMessage(err), fmt.Sprintf("drain %s: 3 pods blocked by PodDisruptionBudget %s/web (its minAvailable is 3, and it selects 3 pods): ",
		ref.Node, shop.Namespace))
	blockers := temporal.Blockers(err)
	require.Len(t, blockers, 3)
	require.Equal(t, "Pod "+shop.Namespace+"/web-0", blockers[0].String())
	require.Contains(t, blockers[0].Message, "owner ConfigMap/operator")
	require.Len(t, shop.Left(t), 3)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionDrainInProgress))
}

func TestADrainWithUnevictablePodsEvictsNone(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	shop.Pod(t, ref.Node, "bare", activitytest.WithoutController)
	_, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
	require.Equal(t, []drydockv1.Blocker{{
		Kind: "Pod", Namespace: shop.Namespace, Name: "bare", Reason: "NoController",
		Message: "no controller would recreate it; force evicts it anyway", Since: temporal.Blockers(err)[0].Since,
	}}, temporal.Blockers(err))
	require.Len(t, shop.Left(t), 2)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionDrainInProgress))

	_, err = activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1, Spec: maintenancev1.DrainSpec{Force: true}})
	require.NoError(t, err)
	require.Empty(t, shop.Left(t))
}

func TestADrainWithAnInvalidFilterEvictsNone(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	_, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1, Spec: maintenancev1.DrainSpec{PodSelector: "app in (web"}})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.Contains(t, temporal.ErrorMessage(err), "drainSpec.podSelector")
	require.Len(t, shop.Left(t), 1)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionDrainInProgress))
}

func TestAPodWithTwoBudgetsIsReported(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	shop.Budget(t, "one", 0, 1)
	two := shop.Budget(t, "two", 0, 1)
	workflow := &activitytest.Signals{}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, workflow, nil)
	blocked := workflow.WaitsFor(t, "MultipleBudgets")
	require.Contains(t, blocked.Wait.Message, shop.Namespace+"/one, "+shop.Namespace+"/two")
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), two))
	require.NoError(t, (<-ended).Err)
}

func TestAPodRecreatedOnAnotherNodeIsNotEvicted(t *testing.T) {
	labelled := func(shop string) func(*devstack.Node) {
		return func(n *devstack.Node) { n.Labels = map[string]string{"test.drydock.dev/shop": shop} }
	}
	from, to := activitytest.TestNode(t, labelled("first")), activitytest.TestNode(t, labelled("second"))
	namespace := activitytest.NewTenant(t).Namespace
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"test.drydock.dev/shop": "first"},
					Containers:   []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
				},
			},
		},
	}
	cluster, shop := activitytest.TestCluster(t), activitytest.Tenant{Namespace: namespace}
	require.NoError(t, cluster.Client.Create(t.Context(), set))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db-0"}}
	shop.AwaitReady(t, pod)
	require.Equal(t, from.Node, pod.Spec.NodeName)

	patch := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Spec.NodeSelector["test.drydock.dev/shop"] = "second"
	require.NoError(t, cluster.Client.Patch(t.Context(), set, patch))
	generation := set.Generation
	require.NoError(t, cluster.Await(t.Context(), []client.Object{set.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(set), set)
		return set.Status.ObservedGeneration >= generation, err
	}))
	_, err := activitytest.DrainNode(t, drain.Input{NodeRef: from, Attempt: 1})
	require.NoError(t, err)
	again := &corev1.Pod{}
	require.NoError(t, cluster.Await(t.Context(), []client.Object{pod.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(pod), again)
		return again.Spec.NodeName == to.Node && activitytest.PodReady(again), client.IgnoreNotFound(err)
	}))
	require.NotEqual(t, pod.UID, again.UID)
	_, err = activitytest.DrainNode(t, drain.Input{NodeRef: from, Attempt: 1})
	require.NoError(t, err)
	shop.RequireEvictions(t, "db-0")
}

func TestAnEvictionKeepsTheGracePeriodOfThePod(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	pod := shop.Pod(t, ref.Node, "web", activitytest.WithAnnotation(devstack.AnnotationLeaveAfter, "1h"), func(pod *corev1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](17)
	})
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, nil, nil)
	cluster := activitytest.TestCluster(t)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{pod.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return !pod.DeletionTimestamp.IsZero(), err
	}))
	require.Equal(t, int64(17), *pod.DeletionGracePeriodSeconds)
	require.Empty(t, ended, "the drain waits for the end of the pods")
	require.NoError(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	require.NoError(t, (<-ended).Err)
}

func TestANodeThatIsDeletedEndsItsDrain(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	shop.Budget(t, "web", 1, 1)
	workflow := &activitytest.Signals{}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, workflow, nil)
	workflow.WaitsFor(t, "DisruptionBudgetNever")
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, ref.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType((<-ended).Err))

	_, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
}

func TestACancelledDrainEndsImmediately(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	shop.Budget(t, "web", 1, 1)
	activitytest.Mark(t, ref)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := (&drain.Activities{Clusters: activitytest.Clusters}).Drain(ctx, drain.Input{NodeRef: ref, Attempt: 1})
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionDrainInProgress) != nil
	}, activitytest.EventTimeout, 10*time.Millisecond)
	cancelled := time.Now()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Less(t, time.Since(cancelled), activitytest.EventTimeout)
	require.Equal(t, []string{"web"}, shop.Left(t))
}

func TestADrainResumesAfterItsWorkerIsKilled(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for i := range 3 {
		shop.Pod(t, ref.Node, fmt.Sprintf("slow-%d", i), activitytest.WithLabel("app", "slow"), activitytest.WithAnnotation(devstack.AnnotationLeaveAfter, "2s"))
	}
	shop.Pod(t, ref.Node, "web")
	budget := shop.Budget(t, "web", 1, 1)
	in := drain.Input{NodeRef: ref, Attempt: 1}
	activitytest.Mark(t, ref)
	ctx, kill := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := (&drain.Activities{Clusters: activitytest.Clusters}).Drain(ctx, in)
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(shop.Left(t)) == 1 }, activitytest.EventTimeout, 10*time.Millisecond)
	kill(errors.New("the worker was killed"))
	require.Error(t, <-ended)

	activitytest.Lower(t, budget, 0)
	before := &maintenancev1.DrainStatus{TotalPods: 4, EvictionPods: 4}
	result := <-activitytest.StartDrain(t, in, nil, before)
	require.NoError(t, result.Err)
	require.Equal(t, int32(4), result.Status.Evicted)
	shop.RequireEvictions(t, "slow-0", "slow-1", "slow-2", "web") // each pod once
}

func TestARepeatedDrainContinuesItsCounts(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for i := range 2 {
		shop.Pod(t, ref.Node, fmt.Sprintf("web-%d", i))
	}
	in := drain.Input{NodeRef: ref, Attempt: 2, Before: &maintenancev1.DrainStatus{Attempt: 1, TotalPods: 5, EvictionPods: 5, Evicted: 3}}
	status, err := activitytest.DrainNode(t, in)
	require.NoError(t, err)
	require.Equal(t, maintenancev1.DrainStatus{TotalPods: 5, EvictionPods: 5, Evicted: 5, DrainProgress: 100, Attempt: 2}, status)
}

func TestADrainWaitsForPodsOfATerminatingNamespace(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	pod := shop.Pod(t, ref.Node, "web", func(pod *corev1.Pod) { pod.Finalizers = []string{"test.drydock.dev/kept"} })
	cluster := activitytest.TestCluster(t)
	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop.Namespace}}))
	workflow := &activitytest.Signals{}
	ended := activitytest.StartDrain(t, drain.Input{NodeRef: ref, Attempt: 1}, workflow, nil)
	waiting := workflow.WaitsFor(t, "Terminating")
	require.Contains(t, waiting.Wait.Blockers[0].Message, "test.drydock.dev/kept", "the message names the finalizer")
	require.NoError(t, cluster.Client.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(t, (<-ended).Err)
}

func TestANodeWith250PodsIsDrainedInOneActivity(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	var names []string
	for i := range 250 {
		names = append(names, shop.Create(t, ref.Node, fmt.Sprintf("web-%03d", i)).Name)
	}
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Pod{Spec: corev1.PodSpec{NodeName: ref.Node}}}, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := cluster.Cache.List(ctx, &pods, client.MatchingFields{kube.IndexNodeName: ref.Node})
		ready := 0
		for i := range pods.Items {
			if activitytest.PodReady(&pods.Items[i]) {
				ready++
			}
		}
		return ready == 250, err
	}))
	began := time.Now()
	status, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1})
	require.NoError(t, err)
	require.Equal(t, int32(250), status.Evicted)
	t.Logf("drained in %s", time.Since(began))
	shop.RequireEvictions(t, names...)
}

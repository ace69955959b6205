package drain

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestThePreflightFindsWhatWouldBlockADrain(t *testing.T) {
	everyPod := &maintenancev1.WaitForPodCompletionSpec{}
	tests := []struct {
		name       string
		pods       []corev1.Pod
		budgets    []policyv1.PodDisruptionBudget
		spec       maintenancev1.DrainSpec
		completion *maintenancev1.WaitForPodCompletionSpec
		refused    string
		warning    string
	}{
		{name: "nothing", pods: manyPods(2), budgets: []policyv1.PodDisruptionBudget{webBudget(1, 3, 2, 3)}},
		{name: "a budget that will allow a disruption", pods: manyPods(2), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 2, 3)}},
		{
			name: "a budget that never allows a disruption", pods: manyPods(2), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 0, 3, limitedTo(intstr.FromInt32(0)))},
			warning: "the drain of node worker-7 would wait: 2 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0): " +
				"set it to 1 or more with `kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"maxUnavailable\":1}}'`",
		},
		{
			name: "a budget that never allows a disruption, in a drain that may not wait for a person", pods: manyPods(2),
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 0, 3, limitedTo(intstr.FromInt32(0)))}, spec: maintenancev1.DrainSpec{RefuseIfBlocked: true},
			refused: "node worker-7 stays in service, because its drain would wait until a person acts: 2 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0): " +
				"set it to 1 or more with `kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"maxUnavailable\":1}}'`",
			warning: "the drain of node worker-7 would wait: 2 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0): " +
				"set it to 1 or more with `kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"maxUnavailable\":1}}'`",
		},
		{
			name: "a budget that will allow a disruption, in a drain that may not wait for a person", pods: manyPods(2),
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 2, 3)}, spec: maintenancev1.DrainSpec{RefuseIfBlocked: true},
		},
		{
			name: "a budget that needs every pod", pods: manyPods(1), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 1, 1, 1)},
			warning: "the drain of node worker-7 would wait: 1 pod blocked by PodDisruptionBudget shop/web (its minAvailable is 1, and it selects 1 pod): " +
				"add replicas, or lower it with `kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"minAvailable\":0}}'`",
		},
		{
			name: "two budgets on one pod", pods: manyPods(1), budgets: []policyv1.PodDisruptionBudget{webBudget(1, 3, 2, 3), webBudget(1, 3, 2, 3, named("all"))},
			warning: "the drain of node worker-7 would wait: 1 pod blocked by several PodDisruptionBudgets at once (shop/all, shop/web), " +
				"which the API server does not evict: delete all but one, or narrow their selectors",
		},
		{
			name: "pods that only another specification evicts", pods: []corev1.Pod{webPod("web"), webPod("bare", bare), webPod("scratch", withEmptyDir)},
			refused: "node worker-7 stays in service, because its drain would fail: " +
				"1 pod without a controller, which only force evicts: shop/bare; 1 pod with emptyDir data, which only deleteEmptyDir evicts: shop/scratch",
			warning: "the drain of node worker-7 would fail: " +
				"1 pod without a controller, which only force evicts: shop/bare; 1 pod with emptyDir data, which only deleteEmptyDir evicts: shop/scratch",
		},
		{name: "pods that the specification evicts", pods: []corev1.Pod{webPod("bare", bare)}, spec: maintenancev1.DrainSpec{Force: true}},
		{name: "pods that the drain skips", pods: []corev1.Pod{webPod("bare", bare)}, spec: maintenancev1.DrainSpec{PodSelector: "app=other"}},
		{name: "pods that should end by themselves", pods: []corev1.Pod{webPod("training", bare)}, completion: everyPod},
		{
			name: "pods outside of those that should end by themselves", pods: []corev1.Pod{webPod("web"), webPod("bare", bare)},
			completion: &maintenancev1.WaitForPodCompletionSpec{PodSelector: "app=batch"},
			refused: "node worker-7 stays in service, because its drain would fail: " +
				"1 pod without a controller, which only force evicts: shop/bare",
			warning: "the drain of node worker-7 would fail: 1 pod without a controller, which only force evicts: shop/bare",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.pods, tt.budgets...)
			findings, err := Preflight(t.Context(), w, w, node, tt.spec, tt.completion)
			require.NoError(t, err)
			require.Equal(t, tt.warning, findings.Warning())
			if tt.refused == "" {
				require.NoError(t, findings.Err())
				return
			}
			require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(findings.Err()))
			require.Equal(t, tt.refused, temporal.ErrorMessage(findings.Err()))
			require.NotEmpty(t, temporal.Blockers(findings.Err()))
		})
	}
}

func TestAPreflightFailureIsConfirmedWithTheAPIServer(t *testing.T) {
	pods := []corev1.Pod{webPod("new", ownedBy("DaemonSet", "new"))}
	behind, server := newWorld(pods), newWorld(pods)
	server.snapshot.DaemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}}
	findings, err := Preflight(t.Context(), behind, server, node, maintenancev1.DrainSpec{}, nil)
	require.NoError(t, err)
	require.NoError(t, findings.Err())
	findings, err = Preflight(t.Context(), behind, behind, node, maintenancev1.DrainSpec{}, nil)
	require.NoError(t, err)
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(findings.Err()))
}

func TestThePreflightIgnoresADeletedNode(t *testing.T) {
	w := newWorld([]corev1.Pod{webPod("bare", bare)})
	findings, err := Preflight(t.Context(), w, w, "gone", maintenancev1.DrainSpec{}, nil)
	require.NoError(t, err)
	require.NoError(t, findings.Err())
	_, err = Preflight(t.Context(), w, w, node, maintenancev1.DrainSpec{PodSelector: "app in (web"}, nil)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
}

func TestADrainIsForeseenInNumbers(t *testing.T) {
	w := newWorld([]corev1.Pod{webPod("web"), webPod("bare", bare)}, webBudget(0, 2, 2, 3))
	findings, err := Preflight(t.Context(), w, w, node, maintenancev1.DrainSpec{}, nil)
	require.NoError(t, err)
	require.Equal(t, Forecast{
		Cluster: "spoke-1", Node: "worker-7", Evict: 1, Block: 1, Budgets: []string{"shop/web"},
		Warning: "the drain of node worker-7 would fail: 1 pod without a controller, which only force evicts: shop/bare",
	}, findings.Forecast("spoke-1"))
}

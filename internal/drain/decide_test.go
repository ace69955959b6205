package drain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const node = "worker-7"

// webPod returns a running, ready pod of ReplicaSet web in namespace shop on the node, with these changes.
func webPod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-of-web", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: ptr.To(true)}}
	}
}

func bare(pod *corev1.Pod)     { pod.OwnerReferences = nil }
func unready(pod *corev1.Pod)  { pod.Status.Conditions[0].Status = corev1.ConditionFalse }
func pending(pod *corev1.Pod)  { pod.Status.Phase = corev1.PodPending }
func finished(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
func failed(pod *corev1.Pod)   { pod.Status.Phase = corev1.PodFailed }
func elsewhere(pod *corev1.Pod) {
	pod.Spec.NodeName = "worker-8"
}

func mirror(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, Controller: ptr.To(true)}}
}

func withEmptyDir(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

func terminatingSince(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)} }
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func requesting(resourceName string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = requests1(resourceName) }
}

func requests1(resourceName string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}
}

// webBudget returns a budget of the pods of web with this status: how many disruptions it allows, and how many pods are healthy, needed
// and expected.
func webBudget(allowed, healthy, needed, expected int32, changes ...func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	budget := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1", Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(needed)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: healthy, DesiredHealthy: needed, ExpectedPods: expected,
		},
	}
	for _, change := range changes {
		change(&budget)
	}
	return budget
}

func named(name string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Name = name }
}

func evictingUnready(policy policyv1.UnhealthyPodEvictionPolicyType) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = &policy }
}

func limitedTo(maxUnavailable intstr.IntOrString) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, &maxUnavailable
	}
}

func demanding(minAvailable string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = ptr.To(intstr.FromString(minAvailable)) }
}

func snapshotOf(pods []corev1.Pod, budgets ...policyv1.PodDisruptionBudget) Snapshot {
	return Snapshot{
		Node:       &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "uid-of-node"}},
		Pods:       pods,
		Budgets:    budgets,
		DaemonSets: []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}}},
	}
}

func resourceFilters(expressions ...string) []maintenancev1.PodEvictionFilter {
	var filters []maintenancev1.PodEvictionFilter
	for _, expression := range expressions {
		filters = append(filters, maintenancev1.PodEvictionFilter{ByResourceNameRegex: &expression})
	}
	return filters
}

func TestEachPodOfANodeIsEvictedSkippedOrBlocks(t *testing.T) {
	type spec = maintenancev1.DrainSpec
	cases := []struct {
		name    string
		pod     corev1.Pod
		budgets []policyv1.PodDisruptionBudget
		spec    spec
		action  Action
		reason  Reason
	}{
		{name: "a pod of a ReplicaSet is evicted", pod: webPod("a"), action: Evict},
		{name: "a pod of a DaemonSet stays", pod: webPod("a", ownedBy("DaemonSet", "agent")), action: Skip, reason: ReasonDaemonSet},
		{name: "a pod of a DaemonSet stays even by force", pod: webPod("a", ownedBy("DaemonSet", "agent")), spec: spec{Force: true}, action: Skip, reason: ReasonDaemonSet},
		{name: "a finished pod of a DaemonSet goes", pod: webPod("a", ownedBy("DaemonSet", "agent"), failed), action: Evict, reason: ReasonFinished},
		{name: "a pod of a DaemonSet that is gone blocks", pod: webPod("a", ownedBy("DaemonSet", "other")), action: Block, reason: ReasonDaemonSetGone},
		{name: "a pod of a DaemonSet that is gone goes by force", pod: webPod("a", ownedBy("DaemonSet", "other")), spec: spec{Force: true}, action: Evict},
		{name: "with force, a pod of a DaemonSet that is gone blocks only because of its data", pod: webPod("a", ownedBy("DaemonSet", "other"), withEmptyDir), spec: spec{Force: true}, action: Block, reason: ReasonLocalStorage},
		{name: "a static pod stays", pod: webPod("a", mirror), action: Skip, reason: ReasonMirror},
		{name: "a static pod stays even with emptyDir and by force", pod: webPod("a", mirror, withEmptyDir), spec: spec{Force: true}, action: Skip, reason: ReasonMirror},
		{name: "a pod without controller blocks", pod: webPod("a", bare), action: Block, reason: ReasonNoController},
		{name: "a pod without controller goes by force", pod: webPod("a", bare), spec: spec{Force: true}, action: Evict},
		{name: "a finished pod without controller goes", pod: webPod("a", bare, finished), action: Evict, reason: ReasonFinished},
		{name: "a pod with emptyDir blocks", pod: webPod("a", withEmptyDir), action: Block, reason: ReasonLocalStorage},
		{name: "a pod with emptyDir blocks even by force", pod: webPod("a", withEmptyDir), spec: spec{Force: true}, action: Block, reason: ReasonLocalStorage},
		{name: "a pod with emptyDir goes if deleteEmptyDir is set", pod: webPod("a", withEmptyDir), spec: spec{DeleteEmptyDir: true}, action: Evict},
		{name: "kubectl's first of two refusals is reported", pod: webPod("a", bare, withEmptyDir), action: Block, reason: ReasonLocalStorage},
		{name: "the second refusal remains when the first is resolved", pod: webPod("a", bare, withEmptyDir), spec: spec{DeleteEmptyDir: true}, action: Block, reason: ReasonNoController},

		{name: "a pod that the selector does not match stays", pod: webPod("a"), spec: spec{PodSelector: "app!=web"}, action: Skip, reason: ReasonSelector},
		{name: "a pod that the selector matches goes", pod: webPod("a"), spec: spec{PodSelector: "app in (web,shop)"}, action: Evict},
		{name: "a pod that the selector does not match cannot block", pod: webPod("a", bare), spec: spec{PodSelector: "app=db"}, action: Skip, reason: ReasonSelector},
		{name: "a pod without the resource stays", pod: webPod("a"), spec: spec{PodEvictionFilters: resourceFilters("gpu")}, action: Skip, reason: ReasonResourceFilter},
		{name: "a bare pod without the resource cannot block", pod: webPod("a", bare, withEmptyDir), spec: spec{PodEvictionFilters: resourceFilters("gpu")}, action: Skip, reason: ReasonResourceFilter},
		{name: "a pod with the resource goes, because the expression is not anchored", pod: webPod("a", requesting("nvidia.com/gpu")), spec: spec{PodEvictionFilters: resourceFilters("gp")}, action: Evict},
		{name: "an anchored expression is honoured", pod: webPod("a", requesting("nvidia.com/gpu")), spec: spec{PodEvictionFilters: resourceFilters("^gpu")}, action: Skip, reason: ReasonResourceFilter},
		{name: "one matching filter is enough", pod: webPod("a", requesting("nvidia.com/gpu")), spec: spec{PodEvictionFilters: resourceFilters("rdma", "nvidia")}, action: Evict},
		{
			name: "an init container's resource counts", spec: spec{PodEvictionFilters: resourceFilters("^nvidia.com/")}, action: Evict,
			pod: webPod("a", func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: requests1("nvidia.com/gpu")}}}
			}),
		},
		{
			name: "a sidecar's resource counts", spec: spec{PodEvictionFilters: resourceFilters("rdma/")}, action: Evict,
			pod: webPod("a", func(pod *corev1.Pod) {
				pod.Spec.InitContainers = []corev1.Container{{
					Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
					Resources: corev1.ResourceRequirements{Requests: requests1("rdma/hca")},
				}}
			}),
		},
		{name: "a pod must match both selector and filter", pod: webPod("a", requesting("gpu")), spec: spec{PodSelector: "app=db", PodEvictionFilters: resourceFilters("gpu")}, action: Skip, reason: ReasonSelector},

		{name: "a finished pod goes", pod: webPod("a", finished), action: Evict, reason: ReasonFinished},
		{name: "a finished pod needs no budget", pod: webPod("a", finished), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3)}, action: Evict, reason: ReasonFinished},
		{name: "a terminating pod is awaited", pod: webPod("a", terminatingSince(time.Hour)), action: Evict, reason: ReasonTerminating},
		{name: "a terminating pod without controller does not block", pod: webPod("a", bare, terminatingSince(0)), action: Evict, reason: ReasonTerminating},
		{name: "a pod that has been terminating for too long is not awaited", pod: webPod("a", terminatingSince(time.Minute)), spec: spec{SkipWaitForDeleteSeconds: ptr.To[int32](30)}, action: Skip, reason: ReasonTerminating},
		{name: "a pod that has just begun to terminate is awaited", pod: webPod("a", terminatingSince(time.Second)), spec: spec{SkipWaitForDeleteSeconds: ptr.To[int32](30)}, action: Evict, reason: ReasonTerminating},
		{name: "0 seconds: a terminating pod is awaited for its grace period only", pod: webPod("a", terminatingSince(time.Second)), spec: spec{SkipWaitForDeleteSeconds: ptr.To[int32](0)}, action: Skip, reason: ReasonTerminating},
		{name: "a terminating pod of a DaemonSet stays", pod: webPod("a", ownedBy("DaemonSet", "agent"), terminatingSince(0)), action: Skip, reason: ReasonDaemonSet},

		{name: "a budget that allows a disruption lets the pod go", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(1, 3, 2, 3)}, action: Evict},
		{name: "the drain waits for a budget that allows none now", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 2, 3)}, action: Evict, reason: ReasonDisruptionBudget},
		{name: "a budget that allows none although every pod is healthy never allows one", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3)}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "a budget that needs every pod never allows one", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 3, 3)}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "a budget over a single replica never allows one", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 1, 1, 1)}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "maxUnavailable 0 never allows one", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 3, 3, limitedTo(intstr.FromInt32(0)))}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "maxUnavailable 0% never allows one, even before it has a status", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 0, 0, 0, limitedTo(intstr.FromString("0%")))}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "minAvailable 100% never allows one", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 0, 0, 0, demanding("100%"))}, action: Block, reason: ReasonDisruptionBudgetNever},
		{name: "the drain waits for a budget without a status", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 0, 0, 0)}, action: Evict, reason: ReasonDisruptionBudget},
		{
			name: "the drain waits for a budget during an eviction", pod: webPod("a"), action: Evict, reason: ReasonDisruptionBudget,
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 2, 3, func(b *policyv1.PodDisruptionBudget) {
				b.Status.DisruptedPods = map[string]metav1.Time{"b": {Time: now}}
			})},
		},
		{
			name: "the drain waits for a budget whose status is outdated", pod: webPod("a"), action: Evict, reason: ReasonDisruptionBudget,
			budgets: []policyv1.PodDisruptionBudget{webBudget(1, 3, 2, 3, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 })},
		},
		{
			name: "the drain waits for a budget whose status cannot be computed", pod: webPod("a"), action: Evict, reason: ReasonDisruptionBudget,
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3, func(b *policyv1.PodDisruptionBudget) {
				b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.SyncFailedReason, Message: "no scale"}}
			})},
		},
		{name: "the order of a pod does not change its decision", pod: webPod("a"), spec: spec{PodOrder: order("app=web", 3)}, action: Evict},
		{name: "two budgets over one pod block", pod: webPod("a"), budgets: []policyv1.PodDisruptionBudget{webBudget(1, 3, 2, 3), webBudget(1, 3, 2, 3, named("web-too"))}, action: Block, reason: ReasonMultipleBudgets},
		{name: "a pod that has not started yet needs no budget", pod: webPod("a", pending), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 3, 3), webBudget(0, 2, 3, 3, named("web-too"))}, action: Evict},
		{name: "a pod that is not ready goes while enough others are", pod: webPod("a", unready), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 2, 2, 3)}, action: Evict},
		{name: "a pod that is not ready stays while too few others are", pod: webPod("a", unready), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 1, 2, 3)}, action: Evict, reason: ReasonDisruptionBudget},
		{name: "a pod that is not ready goes if the budget always allows it", pod: webPod("a", unready), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 1, 2, 3, evictingUnready(policyv1.AlwaysAllow))}, action: Evict},
		{name: "the budget of another namespace does not matter", pod: webPod("a", func(p *corev1.Pod) { p.Namespace = "other" }), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3)}, action: Evict},
		{name: "the budget of other pods does not matter", pod: webPod("a", labelled("app", "db")), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3)}, action: Evict},
		{
			name: "an empty budget selector matches every pod of the namespace", pod: webPod("a"), action: Block, reason: ReasonDisruptionBudgetNever,
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })},
		},
		{
			name: "an absent budget selector matches no pod", pod: webPod("a"), action: Evict,
			budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3, func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil })},
		},
		{name: "budgets apply only to pods that may leave", pod: webPod("a", bare), budgets: []policyv1.PodDisruptionBudget{webBudget(0, 3, 3, 3)}, action: Block, reason: ReasonNoController},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{c.pod}, c.budgets...), c.spec, now)
			require.NoError(t, err)
			require.Len(t, preview.Pods, 1)
			decision := preview.Pods[0]
			require.Equal(t, c.action, decision.Action, decision.Message)
			require.Equal(t, c.reason, decision.Reason)
			require.Equal(t, c.action != Block, preview.Drainable)
			if c.reason != "" {
				require.NotEmpty(t, decision.Message, "a reason needs a message")
			}
		})
	}
}

func TestAPreviewHasTheDocumentedJSON(t *testing.T) {
	snapshot := snapshotOf([]corev1.Pod{
		webPod("web-1"), webPod("bare", bare, labelled("app", "tool")), webPod("ds-x", ownedBy("DaemonSet", "agent")), webPod("web-2", elsewhere),
	}, webBudget(0, 2, 2, 3))
	preview, err := Decide(t.Context(), node, snapshot, maintenancev1.DrainSpec{}, now)
	require.NoError(t, err)
	printed, err := json.Marshal(preview)
	require.NoError(t, err)
	require.JSONEq(t, `{"pods": [
		{"namespace":"shop","name":"bare","action":"block","reason":"NoController","message":"no controller would recreate it; force evicts it anyway"},
		{"namespace":"shop","name":"ds-x","action":"skip","reason":"DaemonSet","owner":"DaemonSet/agent","message":"its DaemonSet would recreate it at once"},
		{"namespace":"shop","name":"web-1","action":"evict","reason":"DisruptionBudget","owner":"ReplicaSet/web","budgets":["shop/web"],
		 "message":"PodDisruptionBudget shop/web allows no disruption now (0 of 3 may be disrupted; 2 of 3 healthy, needs 2)"}],
		"drainable": false}`, string(printed))
}

func TestAnEmptyNodeIsDrainableWithAnEmptyList(t *testing.T) {
	preview, err := Decide(t.Context(), node, snapshotOf(nil), maintenancev1.DrainSpec{}, now)
	require.NoError(t, err)
	printed, err := json.Marshal(preview)
	require.NoError(t, err)
	require.JSONEq(t, `{"pods": [], "drainable": true}`, string(printed))
}

func TestAMissingNodeIsNotReportedAsEmpty(t *testing.T) {
	snapshot := snapshotOf(nil)
	_, err := Decide(t.Context(), "worker-8", snapshot, maintenancev1.DrainSpec{}, now)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	snapshot.Node = nil
	_, err = Decide(t.Context(), node, snapshot, maintenancev1.DrainSpec{}, now)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
}

func TestAnInvalidSpecificationIsRefusedWithEveryField(t *testing.T) {
	spec := maintenancev1.DrainSpec{
		PodSelector:              "app in (web",
		TimeoutSeconds:           ptr.To[int32](-1),
		SkipWaitForDeleteSeconds: ptr.To[int32](-2),
		PodEvictionFilters:       append(resourceFilters("gpu", "(unclosed"), maintenancev1.PodEvictionFilter{}),
		PodOrder:                 []maintenancev1.PodOrder{{PodSelector: "app=web"}, {PodSelector: "app=="}, {Order: 1}, {PodSelector: "in("}},
	}
	_, err := Decide(t.Context(), node, snapshotOf(nil), spec, now)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	for _, field := range []string{
		"drainSpec.podSelector: Invalid value", "drainSpec.timeoutSeconds: Invalid value: -1", "drainSpec.skipWaitForDeleteSeconds: Invalid value: -2",
		"drainSpec.podOrder[2].podSelector: Required value", "drainSpec.podOrder[3].podSelector: Invalid value",
		"drainSpec.podEvictionFilters[1].byResourceNameRegex: Invalid value", "drainSpec.podEvictionFilters[2].byResourceNameRegex: Required value",
	} {
		require.ErrorContains(t, err, field)
	}
}

func TestADecisionListsTheBudgetsOfThePod(t *testing.T) {
	preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{webPod("a")}, webBudget(1, 3, 2, 3, named("z")), webBudget(1, 3, 2, 3, named("b"))),
		maintenancev1.DrainSpec{}, now)
	require.NoError(t, err)
	require.Equal(t, []string{"shop/b", "shop/z"}, preview.Pods[0].Budgets)
	require.Contains(t, preview.Pods[0].Message, "shop/b and shop/z")
}

func ExampleDecision_Refused() {
	for _, reason := range []Reason{ReasonNoController, ReasonLocalStorage, ReasonDaemonSetGone, ReasonDisruptionBudgetNever, ReasonMultipleBudgets} {
		fmt.Println(reason, Decision{Action: Block, Reason: reason}.Refused())
	}
	// Output:
	// NoController true
	// LocalStorage true
	// DaemonSetGone true
	// DisruptionBudgetNever false
	// MultipleBudgets false
}

func TestABudgetThatNeverAllowsADisruptionSaysWhatToChange(t *testing.T) {
	patch := func(spec string) string {
		return fmt.Sprintf("`kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{%s}}'`", spec)
	}
	for advice, budget := range map[string]policyv1.PodDisruptionBudget{
		"(its maxUnavailable is 0): set it to 1 or more with " + patch(`"maxUnavailable":1`):                                                   webBudget(0, 3, 3, 3, limitedTo(intstr.FromInt32(0))),
		"(its minAvailable is 100%): replace it with " + patch(`"minAvailable":null,"maxUnavailable":1`):                                       webBudget(0, 3, 3, 3, demanding("100%")),
		"(its minAvailable is 3, and it selects 3 pods): add replicas, or lower it with " + patch(`"minAvailable":2`):                          webBudget(0, 3, 3, 3),
		"(its minAvailable is 80%, and it selects 3 pods): add replicas, or change it with " + patch(`"minAvailable":null,"maxUnavailable":1`): webBudget(0, 3, 3, 3, demanding("80%")),
	} {
		preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{webPod("a")}, budget), maintenancev1.DrainSpec{}, now)
		require.NoError(t, err)
		require.Equal(t, ReasonDisruptionBudgetNever, preview.Pods[0].Reason)
		require.Equal(t, "1 pod blocked by PodDisruptionBudget shop/web "+advice, preview.Blocked())
		cause, _, _ := strings.Cut(advice, ":")
		require.Equal(t, "PodDisruptionBudget shop/web never allows a disruption "+cause, preview.Pods[0].Message)
	}
}

func TestABudgetWhoseStatusDoesNotMatchSaysWhatToCheck(t *testing.T) {
	for state, budget := range map[string]policyv1.PodDisruptionBudget{
		"the disruption controller has not seen its latest change yet; " + unobserved:             webBudget(1, 3, 2, 3, func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }),
		"its status counts no pods yet; " + unobserved:                                            webBudget(0, 0, 0, 0),
		"0 of 3 may be disrupted; 3 of 3 healthy, needs 2; its status is outdated: " + unobserved: webBudget(0, 3, 2, 3),
	} {
		preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{webPod("a")}, budget), maintenancev1.DrainSpec{}, now)
		require.NoError(t, err)
		require.Equal(t, ReasonDisruptionBudget, preview.Pods[0].Reason)
		require.Equal(t, "PodDisruptionBudget shop/web allows no disruption now ("+state+")", preview.Pods[0].Message)
	}
}

package drain

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func anyPods() *rapid.Generator[[]corev1.Pod] {
	return rapid.Custom(func(t *rapid.T) []corev1.Pod {
		owners := []func(*corev1.Pod){
			func(*corev1.Pod) {}, ownedBy("StatefulSet", "db"), ownedBy("DaemonSet", "agent"), ownedBy("DaemonSet", "gone"), mirror, bare,
		}
		phases := []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed}
		pods := make([]corev1.Pod, rapid.IntRange(0, 12).Draw(t, "pods"))
		for i := range pods {
			pods[i] = webPod(fmt.Sprintf("pod-%d", i), rapid.SampledFrom(owners).Draw(t, "owner"))
			pod := &pods[i]
			pod.Status.Phase = rapid.SampledFrom(phases).Draw(t, "phase")
			pod.Labels["tier"] = rapid.SampledFrom([]string{"front", "back"}).Draw(t, "tier")
			if rapid.Bool().Draw(t, "emptyDir") {
				withEmptyDir(pod)
			}
			if rapid.Bool().Draw(t, "gpu") {
				requesting("nvidia.com/gpu")(pod)
			}
			if rapid.Bool().Draw(t, "unready") {
				unready(pod)
			}
			if rapid.IntRange(0, 3).Draw(t, "terminating") == 0 {
				terminatingSince(time.Duration(rapid.IntRange(-30, 90).Draw(t, "seconds")) * time.Second)(pod)
			}
			if rapid.IntRange(0, 4).Draw(t, "elsewhere") == 0 {
				elsewhere(pod)
			}
		}
		return pods
	})
}

func anyBudgets() *rapid.Generator[[]policyv1.PodDisruptionBudget] {
	return rapid.Custom(func(t *rapid.T) []policyv1.PodDisruptionBudget {
		budgets := make([]policyv1.PodDisruptionBudget, rapid.IntRange(0, 2).Draw(t, "budgets"))
		for i := range budgets {
			number := func(label string) int32 { return rapid.Int32Range(0, 4).Draw(t, label) }
			budgets[i] = webBudget(number("allowed"), number("healthy"), number("needed"), number("expected"), named(fmt.Sprintf("budget-%d", i)))
			budgets[i].Spec.Selector.MatchLabels = map[string]string{"tier": rapid.SampledFrom([]string{"front", "back"}).Draw(t, "selects")}
		}
		return budgets
	})
}

func anySpec() *rapid.Generator[maintenancev1.DrainSpec] {
	return rapid.Custom(func(t *rapid.T) maintenancev1.DrainSpec {
		spec := maintenancev1.DrainSpec{
			Force:          rapid.Bool().Draw(t, "force"),
			DeleteEmptyDir: rapid.Bool().Draw(t, "deleteEmptyDir"),
			PodSelector:    rapid.SampledFrom([]string{"", "tier=front", "tier", "tier notin (front)", "app=none"}).Draw(t, "podSelector"),
		}
		if rapid.Bool().Draw(t, "filters") {
			spec.PodEvictionFilters = resourceFilters(rapid.SampledFrom([]string{"gpu", "^nvidia.com/.*$", "rdma"}).Draw(t, "expression"))
		}
		if rapid.Bool().Draw(t, "skipWait") {
			spec.SkipWaitForDeleteSeconds = ptr.To(rapid.Int32Range(0, 60).Draw(t, "seconds"))
		}
		return spec
	})
}

func decideAny(t *rapid.T, pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget, spec maintenancev1.DrainSpec) Preview {
	preview, err := Decide(context.Background(), node, snapshotOf(pods, budgets...), spec, now)
	require.NoError(t, err)
	return preview
}

func keysOf(preview Preview, actions ...Action) map[string]bool {
	keys := map[string]bool{}
	for _, decision := range preview.Pods {
		for _, action := range actions {
			if decision.Action == action {
				keys[decision.key()] = true
			}
		}
	}
	return keys
}

func TestEveryPodOfTheNodeIsInExactlyOneDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := anyPods().Draw(t, "pods")
		preview := decideAny(t, pods, anyBudgets().Draw(t, "budgets"), anySpec().Draw(t, "spec"))
		decided := map[string]int{}
		for _, decision := range preview.Pods {
			decided[decision.key()]++
		}
		for i := range pods {
			want := 0
			if pods[i].Spec.NodeName == node {
				want = 1
			}
			require.Equal(t, want, decided[pods[i].Namespace+"/"+pods[i].Name])
		}
		require.Equal(t, len(keysOf(preview, Block)) == 0, preview.Drainable)
	})
}

func TestNoRunningPodOfADaemonSetAndNoStaticPodIsEverEvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		preview := decideAny(t, anyPods().Draw(t, "pods"), anyBudgets().Draw(t, "budgets"), anySpec().Draw(t, "spec"))
		for _, decision := range preview.Pods {
			if isMirror(decision.pod) || decision.Owner == "DaemonSet/agent" && !isFinished(decision.pod) {
				require.Equal(t, Skip, decision.Action)
			}
		}
	})
}

func TestNarrowingTheSpecificationNeverAddsAPodToTheEvictions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, budgets := anyPods().Draw(t, "pods"), anyBudgets().Draw(t, "budgets")
		narrow := anySpec().Draw(t, "spec")
		wide := narrow
		wide.PodSelector, wide.PodEvictionFilters = "", nil
		all := keysOf(decideAny(t, pods, budgets, wide), Evict, Block)
		for key := range keysOf(decideAny(t, pods, budgets, narrow), Evict, Block) {
			require.Contains(t, all, key)
		}
	})
}

func TestWithForceAndDeleteEmptyDirNoPodIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec().Draw(t, "spec")
		spec.Force, spec.DeleteEmptyDir = true, true
		for _, decision := range decideAny(t, anyPods().Draw(t, "pods"), anyBudgets().Draw(t, "budgets"), spec).Pods {
			require.False(t, decision.Refused(), decision.key())
		}
	})
}

func TestTheOrderOfTheObjectsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, budgets, spec := anyPods().Draw(t, "pods"), anyBudgets().Draw(t, "budgets"), anySpec().Draw(t, "spec")
		shuffled := rapid.Permutation(pods).Draw(t, "shuffled")
		first, second := decideAny(t, pods, budgets, spec), decideAny(t, shuffled, budgets, spec)
		require.Equal(t, len(first.Pods), len(second.Pods))
		for i := range first.Pods {
			first.Pods[i].pod, second.Pods[i].pod = nil, nil
		}
		require.Equal(t, first, second)
	})
}

// kubectl itself, with a client over all objects, deletes and refuses the same pods.
func TestDecisionsAreThoseOfKubectl(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec().Draw(t, "spec")
		spec.PodEvictionFilters, spec.SkipWaitForDeleteSeconds = nil, nil // kubectl has no such filter, and uses the wall clock
		var pods []corev1.Pod
		for _, pod := range anyPods().Draw(t, "pods") {
			if pod.DeletionTimestamp == nil { // see decideTerminating
				pods = append(pods, pod)
			}
		}
		snapshot := snapshotOf(pods)
		objects := []runtime.Object{&snapshot.DaemonSets[0]}
		for i := range pods {
			if pods[i].Spec.NodeName == node { // the fake knows no field selectors
				objects = append(objects, &pods[i])
			}
		}
		helper := kubectldrain.Helper{
			Client: fake.NewClientset(objects...), IgnoreAllDaemonSets: true,
			Force: spec.Force, DeleteEmptyDirData: spec.DeleteEmptyDir, PodSelector: spec.PodSelector,
		}
		list, errs := helper.GetPodsForDeletion(node)
		leaving := map[string]bool{}
		for _, pod := range list.Pods() {
			leaving[pod.Namespace+"/"+pod.Name] = true
		}
		preview := decideAny(t, pods, nil, spec)
		require.Equal(t, leaving, keysOf(preview, Evict))
		require.Equal(t, len(errs) > 0, len(keysOf(preview, Block)) > 0, "kubectl: %v", errs)
	})
}

func FuzzABadFilterIsAnErrorAndNeverAnEmptyDrain(f *testing.F) {
	f.Add("app=web", "gpu")
	f.Add("app in (web", "(")
	f.Add("!app", "^$")
	f.Fuzz(func(t *testing.T, selector, expression string) {
		spec := maintenancev1.DrainSpec{PodSelector: selector, PodEvictionFilters: resourceFilters(expression)}
		_, problems := parseSpec(spec, field.NewPath("drainSpec"))
		preview, err := Decide(t.Context(), node, snapshotOf([]corev1.Pod{webPod("a", requesting("nvidia.com/gpu"))}), spec, now)
		require.Equal(t, len(problems) > 0, err != nil)
		if err != nil {
			require.Empty(t, preview)
			return
		}
		require.Len(t, preview.Pods, 1)
	})
}

package health_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

var (
	cordon       = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	controlPlane = corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	broken       = corev1.Taint{Key: "example.com/broken", Effect: corev1.TaintEffectNoExecute}
	preferNot    = corev1.Taint{Key: "example.com/busy", Effect: corev1.TaintEffectPreferNoSchedule}
)

// agent is a DaemonSet with a pod on every node, unless options change that.
func agent(options ...func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "agent", UID: "agent-uid"}}
	for _, option := range options {
		option(&ds.Spec.Template.Spec)
	}
	return ds
}

func agentPod(name, node string, ready corev1.ConditionStatus, owner types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: owner, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(began)}},
		},
	}
}

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = new(metav1.NewTime(began))
	return pod
}

func TestANodeMayReturnWhenItAndItsDaemonSetPodsAreReady(t *testing.T) {
	onlyOn := func(name string) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
	}
	notOn := func(name string) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name},
				}}}},
			}}}
		}
	}
	tolerating := func(spec *corev1.PodSpec) {
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	pinned := func(spec *corev1.PodSpec) { spec.NodeName = "w2" }
	crashing := agentPod("agent-1", "w1", corev1.ConditionFalse, "agent-uid")
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"},
	}}}
	leaving := agent()
	leaving.DeletionTimestamp = new(metav1.NewTime(began))

	for _, test := range []struct {
		name    string
		objects []health.Object
		reason  string
		message string
	}{
		{"no node", nil, health.ReasonNodeMissing, "not found: node w1"},
		{"a node that is not ready", []health.Object{node("w1", corev1.ConditionFalse)}, health.ReasonNodeNotReady, "Node w1: condition Ready is False: KubeletSays: so"},
		{"a node whose state is unknown", []health.Object{node("w1", corev1.ConditionUnknown)}, health.ReasonNodeNotReady, "Node w1: condition Ready is Unknown: KubeletSays: so"},
		{"a new node", []health.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}}, health.ReasonNodeNotReady, "Node w1: the kubelet has not reported whether it is Ready"},
		{"a node without daemon sets", []health.Object{node("w1", corev1.ConditionTrue)}, "", ""},
		{"a ready pod", []health.Object{node("w1", corev1.ConditionTrue), agent(), agentPod("agent-1", "w1", corev1.ConditionTrue, "agent-uid")}, "", ""},
		{"a pod that is not ready", []health.Object{node("w1", corev1.ConditionTrue), agent(), agentPod("agent-1", "w1", corev1.ConditionFalse, "agent-uid")}, health.ReasonDaemonSetPodNotReady, "Pod system/agent-1: pod of DaemonSet agent is not ready: it is Running"},
		{"a pod that crashes", []health.Object{node("w1", corev1.ConditionTrue), agent(), crashing}, health.ReasonDaemonSetPodNotReady, "Pod system/agent-1: pod of DaemonSet agent is not ready: container main waits: CrashLoopBackOff: back-off 10s"},
		{"a missing pod", []health.Object{node("w1", corev1.ConditionTrue), agent(), agentPod("agent-2", "w2", corev1.ConditionTrue, "agent-uid")}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a ready pod of a daemon set of the same name that is gone", []health.Object{node("w1", corev1.ConditionTrue), agent(), agentPod("agent-1", "w1", corev1.ConditionTrue, "former-uid")}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a ready pod that is terminating", []health.Object{node("w1", corev1.ConditionTrue), agent(), terminating(agentPod("agent-1", "w1", corev1.ConditionTrue, "agent-uid"))}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a ready pod beside one that is being replaced", []health.Object{node("w1", corev1.ConditionTrue), agent(), agentPod("agent-1", "w1", corev1.ConditionFalse, "agent-uid"), agentPod("agent-2", "w1", corev1.ConditionTrue, "agent-uid")}, "", ""},
		{"a daemon set that is being deleted", []health.Object{node("w1", corev1.ConditionTrue), leaving, agentPod("agent-1", "w1", corev1.ConditionFalse, "agent-uid")}, "", ""},

		{"a daemon set for another node", []health.Object{node("w1", corev1.ConditionTrue), agent(onlyOn("w2"))}, "", ""},
		{"a daemon set for this node", []health.Object{node("w1", corev1.ConditionTrue), agent(onlyOn("w1"))}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a daemon set with an affinity against this node", []health.Object{node("w1", corev1.ConditionTrue), agent(notOn("w1"))}, "", ""},
		{"a daemon set pinned to another node", []health.Object{node("w1", corev1.ConditionTrue), agent(pinned)}, "", ""},
		{"the cordon repels no daemon set", []health.Object{node("w1", corev1.ConditionTrue, cordon), agent()}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a taint repels a daemon set", []health.Object{node("w1", corev1.ConditionTrue, controlPlane), agent()}, "", ""},
		{"a tolerated taint does not repel a daemon set", []health.Object{node("w1", corev1.ConditionTrue, controlPlane), agent(tolerating)}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a taint that evicts repels a daemon set", []health.Object{node("w1", corev1.ConditionTrue, broken), agent()}, "", ""},
		{"a taint PreferNoSchedule does not repel a daemon set", []health.Object{node("w1", corev1.ConditionTrue, preferNot), agent()}, health.ReasonDaemonSetPodMissing, "DaemonSet system/agent: has no running pod on node w1"},
		{"a pod that runs in spite of a taint must be ready", []health.Object{node("w1", corev1.ConditionTrue, controlPlane), agent(), agentPod("agent-1", "w1", corev1.ConditionFalse, "agent-uid")}, health.ReasonDaemonSetPodNotReady, "Pod system/agent-1: pod of DaemonSet agent is not ready: it is Running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.EvaluateNode("w1", clusterOf(test.objects...))
			require.NoError(t, err)
			require.Equal(t, test.reason, result.Reason, result.Message)
			require.Equal(t, test.reason == "", result.Healthy)
			if test.reason != "" {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

func TestANodeCheckSelectsBySelectorThenMaintainedNodeThenAllNodes(t *testing.T) {
	objects := clusterOf(node("w2", corev1.ConditionFalse), node("w1", corev1.ConditionTrue), node("w3", corev1.ConditionUnknown))
	picking := func(name string) drydockv1.NodeCheck {
		return drydockv1.NodeCheck{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: name}}}
	}
	for _, test := range []struct {
		name     string
		check    drydockv1.NodeCheck
		node     string
		blockers []string
		reason   string
	}{
		{"every node of a cluster", drydockv1.NodeCheck{}, "", []string{"Node w2", "Node w3"}, health.ReasonNodeNotReady},
		{"the node under maintenance", drydockv1.NodeCheck{}, "w1", nil, ""},
		{"the node under maintenance is gone", drydockv1.NodeCheck{}, "w9", nil, health.ReasonNothingFound},
		{"a selector overrides the node under maintenance", picking("w2"), "w1", []string{"Node w2"}, health.ReasonNodeNotReady},
		{"a selector without a match", picking("w9"), "", nil, health.ReasonNothingFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.Evaluate(t.Context(), drydockv1.HealthCheck{Name: "nodes", Node: &test.check}, test.node, objects)
			require.NoError(t, err)
			require.Equal(t, test.reason, result.Reason)
			require.Equal(t, test.blockers, namesOf(result.Blockers))
		})
	}
}

func TestANodeThatIsNotFoundIsNamed(t *testing.T) {
	objects := clusterOf(node("w1", corev1.ConditionTrue))
	for name, check := range map[string]drydockv1.NodeCheck{
		"found no node w9":                {},
		"found no node with labels app=a": {Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
	} {
		result, err := health.Evaluate(t.Context(), drydockv1.HealthCheck{Name: "nodes", Node: &check}, "w9", objects)
		require.NoError(t, err)
		require.Equal(t, name, result.Message)
	}
}

func TestDeletedNodesAreSkipped(t *testing.T) {
	objects := clusterOf(node("w1", corev1.ConditionTrue), node("w2", corev1.ConditionFalse), node("w3", corev1.ConditionFalse))

	result, err := health.EvaluateNodes([]string{"w1", "gone"}, objects)
	require.NoError(t, err)
	require.True(t, result.Healthy, result.Message)

	result, err = health.EvaluateNodes([]string{"w1", "w2"}, objects)
	require.NoError(t, err)
	require.Equal(t, []string{"Node w2"}, namesOf(result.Blockers))
}

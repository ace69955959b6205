package health_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

func deployment(name string, status appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named("shop", name, map[string]string{"app": name}), Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}, Status: status}
}

func statefulSet(strategy appsv1.StatefulSetUpdateStrategy, status appsv1.StatefulSetStatus) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: named("shop", "db", nil),
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: strategy}, Status: status,
	}
}

func daemonSet(strategy appsv1.DaemonSetUpdateStrategyType, status appsv1.DaemonSetStatus) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: named("shop", "agent", nil),
		Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}}, Status: status,
	}
}

func TestAWorkloadIsHealthyWhenItsCurrentGenerationIsRolledOutAndAvailable(t *testing.T) {
	rolling := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	partitioned := appsv1.StatefulSetUpdateStrategy{
		Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(2))},
	}
	stuck := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	for _, test := range []struct {
		name     string
		workload health.Object
		message  string
	}{
		{"an available deployment", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}), ""},
		{"a deployment whose change is not observed", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), "generation 2 is not observed yet: its status is about generation 1"},
		{"a deployment that is not updated", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3}), "1 of 3 replicas are updated"},
		{"a deployment with old replicas", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 4}), "1 old replicas are pending termination"},
		{"a deployment with a replica missing", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2, UnavailableReplicas: 1}), "2 of 3 replicas are available"},
		{"a deployment past its progress deadline", deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2, AvailableReplicas: 2, Conditions: stuck}), "its rollout exceeded the progress deadline; 2 of 3 replicas are available"},

		{"an available stateful set", statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 3}), ""},
		{"a stateful set whose change is not observed", statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 1, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 3}), "generation 2 is not observed yet: its status is about generation 1"},
		{"a stateful set with a replica missing", statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 2, AvailableReplicas: 2, UpdatedReplicas: 3}), "2 of 3 replicas are available"},
		{"a replica that is ready but not for long enough", statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, AvailableReplicas: 2, UpdatedReplicas: 3}), "2 of 3 replicas are available"},
		{"a stateful set that is not updated", statefulSet(rolling, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 1}), "1 of 3 replicas are updated"},
		{"a stateful set that is updated down to its partition", statefulSet(partitioned, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 1}), ""},
		{"a stateful set that is updated by hand", statefulSet(appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, appsv1.StatefulSetStatus{ObservedGeneration: 2, ReadyReplicas: 3, AvailableReplicas: 3}), ""},

		{"an available daemon set", daemonSet(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 4, UpdatedNumberScheduled: 4, NumberAvailable: 4}), ""},
		{"a daemon set whose change is not observed", daemonSet(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 4, UpdatedNumberScheduled: 4, NumberAvailable: 4}), "generation 2 is not observed yet: its status is about generation 1"},
		{"a daemon set that is not updated", daemonSet(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 4, UpdatedNumberScheduled: 3, NumberAvailable: 4}), "3 of 4 pods are updated"},
		{"a daemon set that is updated by hand", daemonSet(appsv1.OnDeleteDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 4, NumberAvailable: 4}), ""},
		{"a daemon set with a pod missing", daemonSet(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 4, UpdatedNumberScheduled: 4, NumberAvailable: 3, NumberUnavailable: 1}), "3 of 4 pods are available"},
		{"a daemon set that needs no pod", daemonSet(appsv1.RollingUpdateDaemonSetStrategyType, appsv1.DaemonSetStatus{ObservedGeneration: 2}), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := drydockv1.HealthCheck{Name: "shop", Workload: &drydockv1.WorkloadCheck{Namespace: "shop"}}
			for _, workload := range []health.Object{test.workload, unstructuredOf(t, test.workload)} {
				result, err := health.Evaluate(t.Context(), check, "", clusterOf(workload))
				require.NoError(t, err)
				require.Equal(t, test.message == "", result.Healthy, result.Message)
				if test.message != "" {
					require.Equal(t, test.message, result.Blockers[0].Message)
				}
			}
		})
	}
}

// unstructuredOf returns the object as read from a file or by an untyped client.
func unstructuredOf(t *testing.T, object health.Object) health.Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kindOf(object))
	return u
}

func TestAWorkloadCheckSelectsByNamespaceKindsAndSelector(t *testing.T) {
	down := deployment("web", appsv1.DeploymentStatus{ObservedGeneration: 2})
	up := deployment("api", appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3})
	elsewhere := deployment("web", appsv1.DeploymentStatus{})
	elsewhere.Namespace = "other"
	for _, test := range []struct {
		name    string
		check   drydockv1.WorkloadCheck
		message string
	}{
		{"every workload of the namespace", drydockv1.WorkloadCheck{Namespace: "shop"}, "Deployment shop/web: 0 of 3 replicas are updated"},
		{"only workloads that match the selector", drydockv1.WorkloadCheck{Namespace: "shop", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}, ""},
		{"no workload of these kinds", drydockv1.WorkloadCheck{Namespace: "shop", Kinds: []drydockv1.WorkloadKind{drydockv1.StatefulSet}}, "found no workload in namespace shop"},
		{"no workload in the namespace", drydockv1.WorkloadCheck{Namespace: "shpo"}, "found no workload in namespace shpo"},
		{"no workload that matches the selector", drydockv1.WorkloadCheck{Namespace: "shop", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}, "found no workload in namespace shop with labels app=x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.Evaluate(t.Context(), drydockv1.HealthCheck{Name: "shop", Workload: &test.check}, "", clusterOf(down, up, elsewhere))
			require.NoError(t, err)
			require.Equal(t, test.message == "", result.Healthy)
			if test.message != "" {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

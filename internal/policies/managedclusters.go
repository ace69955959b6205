package policies

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ManagedClusters is the kind of objects that register clusters on a hub.
var ManagedClusters = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}

// conditionAvailable is the condition of a ManagedCluster whose agent answers.
const conditionAvailable = "ManagedClusterConditionAvailable"

// Available reports whether the hub reaches the agent of a cluster. Without it, reports of the cluster do not come.
func Available(managedCluster *unstructured.Unstructured) bool {
	return availability(managedCluster) == metav1.ConditionTrue
}

// Offline reports whether the hub says that it does not reach the agent of a cluster. Without the condition, the hub says nothing.
func Offline(managedCluster *unstructured.Unstructured) bool {
	status := availability(managedCluster)
	return status == metav1.ConditionFalse || status == metav1.ConditionUnknown
}

// OfflineSince is since when a cluster is Offline; zero: it is not, or the hub does not say it.
func OfflineSince(managedCluster *unstructured.Unstructured) time.Time {
	if !Offline(managedCluster) {
		return time.Time{}
	}
	text, _ := availableCondition(managedCluster)[fieldTransition].(string)
	since, _ := time.Parse(time.RFC3339, text)
	return since
}

// fieldTransition is the field of a condition with the time of its last change.
const fieldTransition = "lastTransitionTime"

// availability is the status of the condition; "": there is none.
func availability(managedCluster *unstructured.Unstructured) metav1.ConditionStatus {
	status, _ := availableCondition(managedCluster)["status"].(string)
	return metav1.ConditionStatus(status)
}

// availableCondition is the condition; nil: there is none.
func availableCondition(managedCluster *unstructured.Unstructured) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(managedCluster.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		if _, ok := fields["status"].(string); ok && fields["type"] == conditionAvailable {
			return fields
		}
	}
	return nil
}

// TrimManagedCluster keeps of a ManagedCluster, for a cache, its metadata and since when it is Available or not. Objects of other types stay as they are.
func TrimManagedCluster(object any) (any, error) {
	cluster, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	trimmed := &unstructured.Unstructured{Object: map[string]any{"metadata": cluster.Object["metadata"]}}
	trimmed.SetGroupVersionKind(cluster.GroupVersionKind())
	trimmed.SetManagedFields(nil)
	if found := availableCondition(cluster); found != nil {
		condition := map[string]any{"type": conditionAvailable, "status": found["status"]}
		if since, ok := found[fieldTransition].(string); ok {
			condition[fieldTransition] = since
		}
		trimmed.Object["status"] = map[string]any{"conditions": []any{condition}}
	}
	return trimmed, nil
}

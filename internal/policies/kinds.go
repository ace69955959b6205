// Package policies decides how a rollout enforces policies of a hub: which objects it creates, on which clusters each policy is enforced, and the
// progress of each cluster. Every function is pure.
package policies

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of the hub.
var (
	Policies          = schema.GroupVersionKind{Group: "policy.open-cluster-management.io", Version: "v1", Kind: "Policy"}
	PlacementBindings = schema.GroupVersionKind{Group: "policy.open-cluster-management.io", Version: "v1", Kind: "PlacementBinding"}
	PlacementRules    = schema.GroupVersionKind{Group: "apps.open-cluster-management.io", Version: "v1", Kind: "PlacementRule"}
	Placements        = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "Placement"}
	ClusterSets       = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta2", Kind: "ManagedClusterSet"}
	SetBindings       = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta2", Kind: "ManagedClusterSetBinding"}
)

// Labels.
const (
	// LabelRoot is on the replica of a policy in the namespace of a cluster. Its value is <namespace>.<name> of the policy.
	LabelRoot = "policy.open-cluster-management.io/root-policy"
	// LabelManagedBy and the next two are on every object of a rollout, as in TALM.
	LabelManagedBy        = "app.kubernetes.io/managed-by"
	LabelRollout          = "openshift-cluster-group-upgrades/clusterGroupUpgrade"
	LabelRolloutNamespace = "openshift-cluster-group-upgrades/clusterGroupUpgradeNamespace"
	// LabelCopyOf is the name of the policy on its copy, LabelForPolicy on its placement.
	LabelCopyOf    = "openshift-cluster-group-upgrades/parentPolicyName"
	LabelForPolicy = "openshift-cluster-group-upgrades/forPolicy"
	// AnnotationSource identifies, on the copy of a ConfigMap, the version of its source.
	AnnotationSource = "drydock.dev/source"
	// LabelClusterSet is the name of the cluster set on a ManagedCluster, and LabelName its own name, by which Placements of rollouts select it.
	LabelClusterSet = "cluster.open-cluster-management.io/clusterset"
	LabelName       = "name"
)

// GlobalSet is the cluster set that has all clusters.
const GlobalSet = "global"

// ManagedBy is the value of LabelManagedBy.
const ManagedBy = "drydock"

// Selectors by label.
const (
	// Roots selects root policies, not replicas.
	Roots = "!" + LabelRoot
	// Replicas selects the replicas of policies, except those of copies: a replica has the labels of its policy.
	Replicas = LabelRoot + ",!" + LabelRollout
	// Ours selects the objects of rollouts, except the replicas of copies.
	Ours = LabelManagedBy + "=" + ManagedBy + ",!" + LabelRoot
)

// IsReplica reports whether a policy of that name is the replica of another one: its name is <namespace>.<name>, and others have no dot.
func IsReplica(name string) bool { return strings.Contains(name, ".") }

// Pin identifies an object and its generation. It changes with the spec, but not with labels and annotations.
func Pin(object metav1.Object) string {
	return string(object.GetUID()) + "/" + strconv.FormatInt(object.GetGeneration(), 10)
}

// Generation is the generation in a pin.
func Generation(pin string) string {
	_, generation, _ := strings.Cut(pin, "/")
	return generation
}

// Trim keeps of a replica only its identity and what ReadReport reads: a hub has a replica for each cluster and policy, each with the whole policy in it.
func Trim(replica *unstructured.Unstructured) *unstructured.Unstructured {
	compliant, found, _ := unstructured.NestedString(replica.Object, "status", "compliant")
	report := ReadReport(replica)
	trimmed := &unstructured.Unstructured{Object: map[string]any{}}
	trimmed.SetGroupVersionKind(replica.GroupVersionKind())
	trimmed.SetNamespace(replica.GetNamespace())
	trimmed.SetName(replica.GetName())
	trimmed.SetUID(replica.GetUID())
	trimmed.SetResourceVersion(replica.GetResourceVersion())
	trimmed.SetDeletionTimestamp(replica.GetDeletionTimestamp())
	if found {
		trimmed.Object["status"] = map[string]any{"compliant": compliant}
	}
	trimmed.Object[trimmedTimes] = report.times()
	return trimmed
}

// TrimObject is Trim for a cache. Objects of other types stay as they are.
func TrimObject(object any) (any, error) {
	if replica, ok := object.(*unstructured.Unstructured); ok {
		return Trim(replica), nil
	}
	return object, nil
}

package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Named reports whether a cluster has the label by which the Placements of rollouts select it.
func Named(cluster string, clusterLabels map[string]string) bool {
	return clusterLabels[LabelName] == cluster
}

// ClusterSet is a set of clusters that is bound to a namespace.
type ClusterSet struct {
	Name string
	// Selector selects its clusters; nil: they have its name in LabelClusterSet. GlobalSet has all.
	Selector labels.Selector
}

// has reports whether a cluster with these labels is in the set.
func (s ClusterSet) has(clusterLabels map[string]string) bool {
	if s.Selector != nil {
		return s.Selector.Matches(labels.Set(clusterLabels))
	}
	return s.Name == GlobalSet || s.Name == clusterLabels[LabelClusterSet]
}

// selectorTypeLabels is the type of ManagedClusterSets that select their clusters by any labels.
const selectorTypeLabels = "LabelSelector"

// BoundSets are the sets that ManagedClusterSetBindings bind, as the ManagedClusterSets define them.
func BoundSets(bindings, sets []unstructured.Unstructured) []ClusterSet {
	bound := []ClusterSet{}
	for i := range bindings {
		name, _, _ := unstructured.NestedString(bindings[i].Object, "spec", "clusterSet")
		set := ClusterSet{Name: name}
		for j := range sets {
			if sets[j].GetName() == name {
				set.Selector = selectorOf(&sets[j])
			}
		}
		bound = append(bound, set)
	}
	return bound
}

// selectorOf is the selector of a ManagedClusterSet; nil: its clusters have its name in a label.
func selectorOf(set *unstructured.Unstructured) labels.Selector {
	kind, _, _ := unstructured.NestedString(set.Object, "spec", "clusterSelector", "selectorType")
	fields, _, _ := unstructured.NestedMap(set.Object, "spec", "clusterSelector", "labelSelector")
	if kind != selectorTypeLabels {
		return nil
	}
	var written metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &written) != nil {
		return labels.Nothing()
	}
	selector, err := metav1.LabelSelectorAsSelector(&written)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// UnboundSet is the set of a cluster if none of the sets that are bound to a namespace has the cluster: Placements there cannot select it then. "": one has it.
func UnboundSet(clusterLabels map[string]string, bound []ClusterSet) string {
	if slices.ContainsFunc(bound, func(set ClusterSet) bool { return set.has(clusterLabels) }) {
		return ""
	}
	return cmp.Or(clusterLabels[LabelClusterSet], GlobalSet)
}

// Unselectable is why the Placements of rollouts in a namespace cannot select a cluster; "": they can.
func Unselectable(cluster string, clusterLabels map[string]string, namespace string, bound []ClusterSet) string {
	if !Named(cluster, clusterLabels) {
		return fmt.Sprintf("Placements pick clusters by their label name: its ManagedCluster needs the label name=%s", cluster)
	}
	if set := UnboundSet(clusterLabels, bound); set != "" {
		return fmt.Sprintf("Placements in namespace %s cannot pick it: create the ManagedClusterSetBinding there for the set %s", namespace, set)
	}
	return ""
}

// PlacementNamespace is the namespace of the placements of a rollout for a policy.
func PlacementNamespace(rollout string, policy Ref, by ranv1.PolicyEnforcement) string {
	if by == ranv1.EnforceCopy {
		return rollout
	}
	return policy.Namespace
}

// AnnotationUnscheduled of a Placement stops its decisions from changing.
const AnnotationUnscheduled = "cluster.open-cluster-management.io/experimental-scheduling-disable"

// foreign are the fields with which another user can change what an object of a rollout does.
var foreign = [][]string{
	{"spec", "numberOfClusters"},
	{"spec", "clusterReplicas"},
	{"spec", "clusterSets"},
	{"spec", "clusterSelector"},
	{"spec", "clusterConditions"},
	{"metadata", "annotations", AnnotationUnscheduled},
	{"subFilter"},
	{"bindingOverrides"},
}

// AddedByOthers are the fields that another user added to an object of a rollout, and that change what it does.
func AddedByOthers(observed, written *unstructured.Unstructured) [][]string {
	var added [][]string
	for _, path := range foreign {
		_, found, _ := unstructured.NestedFieldNoCopy(observed.Object, path...)
		if _, ours, _ := unstructured.NestedFieldNoCopy(written.Object, path...); found && !ours {
			added = append(added, path)
		}
	}
	return added
}

// Selects reports whether a placement of a rollout, as it is on the hub, selects the clusters that it lists, and no others.
func Selects(placement *unstructured.Unstructured) bool {
	written := &unstructured.Unstructured{Object: map[string]any{"spec": placementSpec(placement.GetKind(), PlacedClusters(placement))}}
	if len(AddedByOthers(placement, written)) > 0 {
		return false
	}
	for _, field := range []string{"predicates", "tolerations", "clusters", "numberOfClusters", "clusterReplicas"} {
		found, _, _ := unstructured.NestedFieldNoCopy(placement.Object, "spec", field)
		wanted, _, _ := unstructured.NestedFieldNoCopy(written.Object, "spec", field)
		if !equality.Semantic.DeepEqual(found, wanted) {
			return false
		}
	}
	return true
}

// Does reports whether a placement or binding of a rollout, as it is on the hub, does what the rollout wrote.
func Does(observed, written *unstructured.Unstructured) bool {
	switch observed.GetKind() {
	case Policies.Kind:
		return true // its spec is fixed when it is created
	case PlacementBindings.Kind:
		return Binds(observed, written)
	}
	return Selects(observed) && slices.Equal(PlacedClusters(observed), PlacedClusters(written))
}

// Binds reports whether a binding of a rollout, as it is on the hub, does what the rollout wrote.
func Binds(observed, written *unstructured.Unstructured) bool {
	if len(AddedByOthers(observed, written)) > 0 {
		return false
	}
	field := func(object *unstructured.Unstructured, path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	for _, path := range [][]string{{"placementRef", "kind"}, {"placementRef", "name"}, {"subFilter"}, {"bindingOverrides", "remediationAction"}} {
		if !strings.EqualFold(field(observed, path...), field(written, path...)) {
			return false
		}
	}
	subjects, _, _ := unstructured.NestedSlice(observed.Object, "subjects")
	wanted, _, _ := unstructured.NestedSlice(written.Object, "subjects")
	return slices.ContainsFunc(subjects, func(subject any) bool {
		fields, _ := subject.(map[string]any)
		ours, _ := wanted[0].(map[string]any)
		return fields["kind"] == ours["kind"] && fields["name"] == ours["name"]
	})
}

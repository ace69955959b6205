package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// narrowing are the fields with which another user can keep an object of a rollout from its clusters.
var narrowing = [][]string{{"spec", "numberOfClusters"}, {"spec", "clusterReplicas"}, {"spec", "clusterSets"}, {"spec", "clusterSelector"}, {"subFilter"}}

// Narrowed are the fields that another user added to an object of a rollout, and that keep it from its clusters.
func Narrowed(observed, written *unstructured.Unstructured) [][]string {
	var added [][]string
	for _, path := range narrowing {
		_, found, _ := unstructured.NestedFieldNoCopy(observed.Object, path...)
		if _, ours, _ := unstructured.NestedFieldNoCopy(written.Object, path...); found && !ours {
			added = append(added, path)
		}
	}
	return added
}

// Selected are the clusters that a placement of a rollout, as it is on the hub, selects; none if another user narrowed it.
func Selected(placement *unstructured.Unstructured) []string {
	if len(Narrowed(placement, &unstructured.Unstructured{})) > 0 {
		return nil
	}
	return PlacedClusters(placement)
}

// Binds reports whether a binding of a rollout, as it is on the hub, does what the rollout wrote.
func Binds(observed, written *unstructured.Unstructured) bool {
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

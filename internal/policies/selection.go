package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Named reports whether a cluster has the label by which the Placements of rollouts select it.
func Named(cluster string, labels map[string]string) bool { return labels[LabelName] == cluster }

// BoundSets are the sets of ManagedClusterSetBindings.
func BoundSets(bindings []unstructured.Unstructured) []string {
	sets := []string{}
	for i := range bindings {
		set, _, _ := unstructured.NestedString(bindings[i].Object, "spec", "clusterSet")
		sets = append(sets, set)
	}
	return sets
}

// UnboundSet is the set of a cluster if it is not among the sets that are bound to a namespace, whose Placements cannot select the cluster then; "": it is.
func UnboundSet(labels map[string]string, sets []string) string {
	set := cmp.Or(labels[LabelClusterSet], GlobalSet)
	if slices.Contains(sets, GlobalSet) || slices.Contains(sets, set) {
		return ""
	}
	return set
}

// Unselectable is why the Placements of rollouts in a namespace cannot select a cluster; "": they can.
func Unselectable(cluster string, labels map[string]string, namespace string, sets []string) string {
	if !Named(cluster, labels) {
		return fmt.Sprintf("Placements pick clusters by their label name: its ManagedCluster needs the label name=%s", cluster)
	}
	if set := UnboundSet(labels, sets); set != "" {
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

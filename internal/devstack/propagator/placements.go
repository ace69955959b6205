package propagator

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Taints, as the hub derives them from the condition Available of a cluster.
const (
	taintUnavailable = "cluster.open-cluster-management.io/unavailable"
	taintUnreachable = "cluster.open-cluster-management.io/unreachable"
)

// placed are the clusters of each placement, by <kind>/<namespace>/<name>.
func (p *Propagator) placed(ctx context.Context) (map[string][]string, error) {
	clusters, err := p.list(ctx, clusterKind)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(clusters, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	setBindings, err := p.list(ctx, setBindingKind)
	if err != nil {
		return nil, err
	}
	placed := map[string][]string{}
	for _, kind := range []schema.GroupVersionKind{ruleKind, placementKind} {
		placements, err := p.list(ctx, kind)
		if err != nil {
			return nil, err
		}
		for i := range placements {
			key := kind.Kind + "/" + client.ObjectKeyFromObject(&placements[i]).String()
			placed[key] = decide(&placements[i], clusters, setBindings, p.placements[key])
		}
	}
	p.placements = placed
	return placed, nil
}

// decide returns the clusters of a placement. Of more clusters than numberOfClusters, those that it had before come first.
func decide(placement *unstructured.Unstructured, clusters, setBindings []unstructured.Unstructured, before []string) []string {
	var had, others []string
	for i := range clusters {
		cluster := &clusters[i]
		_, found := slices.BinarySearch(before, cluster.GetName())
		switch {
		case cluster.GetDeletionTimestamp() != nil, !selects(placement, cluster), !maySelect(placement, cluster, setBindings, found):
		case found:
			had = append(had, cluster.GetName())
		default:
			others = append(others, cluster.GetName())
		}
	}
	decided := append(had, others...)
	for _, field := range []string{"clusterReplicas", "numberOfClusters"} {
		if number, set, _ := unstructured.NestedInt64(placement.Object, "spec", field); set {
			decided = decided[:min(int(number), len(decided))]
		}
	}
	slices.Sort(decided)
	return decided
}

// selects reports whether a rule or placement selects a cluster. An empty one selects every cluster.
func selects(placement, cluster *unstructured.Unstructured) bool {
	named, _, _ := unstructured.NestedSlice(placement.Object, "spec", "clusters")
	if placement.GetKind() == ruleKind.Kind {
		return len(named) == 0 || slices.ContainsFunc(named, func(c any) bool { return c.(map[string]any)["name"] == cluster.GetName() })
	}
	predicates, _, _ := unstructured.NestedSlice(placement.Object, "spec", "predicates")
	return len(predicates) == 0 || slices.ContainsFunc(predicates, func(predicate any) bool { // a cluster need only match one
		expressions, _, _ := unstructured.NestedSlice(predicate.(map[string]any), "requiredClusterSelector", "labelSelector", "matchExpressions")
		return !slices.ContainsFunc(expressions, func(expression any) bool {
			fields := expression.(map[string]any)
			return !slices.Contains(fields["values"].([]any), any(cluster.GetLabels()[fields["key"].(string)]))
		})
	})
}

// maySelect reports whether a placement may select a cluster: its set must be bound to the namespace, and its taints be tolerated. A rule may select every
// cluster. had: the placement has the cluster already.
func maySelect(placement, cluster *unstructured.Unstructured, setBindings []unstructured.Unstructured, had bool) bool {
	if placement.GetKind() == ruleKind.Kind {
		return true
	}
	wanted, _, _ := unstructured.NestedStringSlice(placement.Object, "spec", "clusterSets")
	bound := slices.ContainsFunc(setBindings, func(binding unstructured.Unstructured) bool {
		set, _, _ := unstructured.NestedString(binding.Object, "spec", "clusterSet")
		return binding.GetNamespace() == placement.GetNamespace() && (len(wanted) == 0 || slices.Contains(wanted, set)) &&
			(set == "global" || set == cluster.GetLabels()["cluster.open-cluster-management.io/clusterset"])
	})
	tolerations, _, _ := unstructured.NestedSlice(placement.Object, "spec", "tolerations")
	return bound && !slices.ContainsFunc(taintsOf(cluster), func(taint map[string]any) bool {
		excludes := taint["effect"] == "NoSelect" || taint["effect"] == "NoSelectIfNew" && !had
		return excludes && !slices.ContainsFunc(tolerations, func(toleration any) bool { return tolerates(toleration.(map[string]any), taint) })
	})
}

// taintsOf are the taints of a cluster. A cluster without the condition Available is not known to be offline in this simulation.
func taintsOf(cluster *unstructured.Unstructured) []map[string]any {
	var taints []map[string]any
	listed, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "taints")
	for _, taint := range listed {
		taints = append(taints, taint.(map[string]any))
	}
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for _, condition := range conditions {
		fields := condition.(map[string]any)
		if fields["type"] != "ManagedClusterConditionAvailable" {
			continue
		}
		switch fields["status"] {
		case "False":
			taints = append(taints, map[string]any{"key": taintUnavailable, "effect": "NoSelect"})
		case "Unknown":
			taints = append(taints, map[string]any{"key": taintUnreachable, "effect": "NoSelect"})
		}
	}
	return taints
}

// tolerates reports whether a toleration fits a taint. Empty fields fit every taint.
func tolerates(toleration, taint map[string]any) bool {
	fits := func(field string) bool {
		value, _ := toleration[field].(string)
		return value == "" || value == taint[field]
	}
	value, _ := taint["value"].(string)
	wanted, _ := toleration["value"].(string)
	return fits("key") && fits("effect") && (toleration["operator"] == "Exists" || value == wanted)
}

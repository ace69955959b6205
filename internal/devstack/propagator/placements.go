package propagator

import (
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
	clusters, err := p.managed(ctx)
	if err != nil {
		return nil, err
	}
	bound, err := p.boundSets(ctx)
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
			placed[key] = decide(&placements[i], clusters, bound[placements[i].GetNamespace()], p.placements[key])
		}
	}
	p.placements = placed
	return placed, nil
}

// managed are the clusters that placements may select.
type managed struct {
	all []*managedCluster
	// named are those with that label name: most placements name clusters one by one, and there are as many of both as clusters.
	named map[string][]*managedCluster
}

type managedCluster struct {
	name   string
	labels map[string]string
	taints []map[string]any
}

func (p *Propagator) managed(ctx context.Context) (managed, error) {
	list, err := p.list(ctx, clusterKind)
	found := managed{named: map[string][]*managedCluster{}}
	for i := range list {
		if list[i].GetDeletionTimestamp() != nil {
			continue
		}
		cluster := &managedCluster{name: list[i].GetName(), labels: list[i].GetLabels(), taints: taintsOf(&list[i])}
		found.all = append(found.all, cluster)
		found.named[cluster.labels["name"]] = append(found.named[cluster.labels["name"]], cluster)
	}
	return found, err
}

// clusterSet is a set of clusters. Those with a selector have the clusters with these labels, and others those with their name in a label.
type clusterSet struct {
	name     string
	selects  bool
	selector map[string]string
}

func (s clusterSet) has(cluster *managedCluster) bool {
	if !s.selects {
		return s.name == "global" || s.name == cluster.labels["cluster.open-cluster-management.io/clusterset"]
	}
	for key, value := range s.selector {
		if cluster.labels[key] != value {
			return false
		}
	}
	return true
}

// boundSets are the cluster sets that are bound to each namespace.
func (p *Propagator) boundSets(ctx context.Context) (map[string][]clusterSet, error) {
	bindings, err := p.list(ctx, setBindingKind)
	if err != nil {
		return nil, err
	}
	sets, err := p.list(ctx, setKind)
	bound := map[string][]clusterSet{}
	for i := range bindings {
		name, _, _ := unstructured.NestedString(bindings[i].Object, "spec", "clusterSet")
		set := clusterSet{name: name}
		for j := range sets {
			if kind, _, _ := unstructured.NestedString(sets[j].Object, "spec", "clusterSelector", "selectorType"); sets[j].GetName() == name && kind == "LabelSelector" {
				set.selects = true
				set.selector, _, _ = unstructured.NestedStringMap(sets[j].Object, "spec", "clusterSelector", "labelSelector", "matchLabels")
			}
		}
		bound[bindings[i].GetNamespace()] = append(bound[bindings[i].GetNamespace()], set)
	}
	return bound, err
}

// decide returns the clusters of a placement, by name. Of more clusters than numberOfClusters, those that it had before come first.
func decide(placement *unstructured.Unstructured, clusters managed, bound []clusterSet, before []string) []string {
	var had, others []string
	for _, cluster := range selected(placement, clusters) {
		_, found := slices.BinarySearch(before, cluster.name)
		switch {
		case placement.GetKind() == placementKind.Kind && !maySelect(placement, cluster, bound, found):
		case found:
			had = append(had, cluster.name)
		default:
			others = append(others, cluster.name)
		}
	}
	slices.Sort(had)
	slices.Sort(others)
	decided := slices.Compact(append(had, others...))
	for _, field := range []string{"clusterReplicas", "numberOfClusters"} {
		if number, set, _ := unstructured.NestedInt64(placement.Object, "spec", field); set {
			decided = decided[:min(int(number), len(decided))]
		}
	}
	slices.Sort(decided)
	return decided
}

// selected are the clusters that a rule or placement selects, possibly twice. An empty one selects every cluster, and a cluster need only match one predicate.
func selected(placement *unstructured.Unstructured, clusters managed) []*managedCluster {
	var found []*managedCluster
	if placement.GetKind() == ruleKind.Kind {
		listed, _, _ := unstructured.NestedSlice(placement.Object, "spec", "clusters")
		if len(listed) == 0 {
			return clusters.all
		}
		names := map[any]bool{}
		for _, one := range listed {
			names[one.(map[string]any)["name"]] = true
		}
		for _, cluster := range clusters.all {
			if names[cluster.name] {
				found = append(found, cluster)
			}
		}
		return found
	}
	predicates, _, _ := unstructured.NestedSlice(placement.Object, "spec", "predicates")
	if len(predicates) == 0 {
		return clusters.all
	}
	for _, predicate := range predicates {
		matching := clusters.all
		expressions, _, _ := unstructured.NestedSlice(predicate.(map[string]any), "requiredClusterSelector", "labelSelector", "matchExpressions")
		for i, expression := range expressions {
			matching = matchingLabel(clusters, matching, i == 0, expression.(map[string]any))
		}
		found = append(found, matching...)
	}
	return found
}

// matchingLabel are those of the clusters whose labels match an expression. all: they are all clusters.
func matchingLabel(clusters managed, among []*managedCluster, all bool, expression map[string]any) []*managedCluster {
	var matching []*managedCluster
	key, operator := expression["key"].(string), expression["operator"].(string)
	values, _ := expression["values"].([]any)
	if all && key == "name" && operator == "In" {
		for _, value := range values {
			matching = append(matching, clusters.named[value.(string)]...)
		}
		return matching
	}
	for _, cluster := range among {
		value, has := cluster.labels[key]
		if map[string]bool{
			"In": has && slices.Contains(values, any(value)), "NotIn": !has || !slices.Contains(values, any(value)), "Exists": has, "DoesNotExist": !has,
		}[operator] {
			matching = append(matching, cluster)
		}
	}
	return matching
}

// maySelect reports whether a placement may select a cluster: its set must be bound to the namespace, and its taints be tolerated. A rule may select every
// cluster. had: the placement has the cluster already.
func maySelect(placement *unstructured.Unstructured, cluster *managedCluster, bound []clusterSet, had bool) bool {
	wanted, _, _ := unstructured.NestedStringSlice(placement.Object, "spec", "clusterSets")
	isBound := slices.ContainsFunc(bound, func(set clusterSet) bool {
		return (len(wanted) == 0 || slices.Contains(wanted, set.name)) && set.has(cluster)
	})
	if !isBound || len(cluster.taints) == 0 {
		return isBound
	}
	tolerations, _, _ := unstructured.NestedSlice(placement.Object, "spec", "tolerations")
	return !slices.ContainsFunc(cluster.taints, func(taint map[string]any) bool {
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

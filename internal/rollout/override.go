package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// unplaceable names the clusters that no placement can select yet, and what is missing. With policyEnforcement Override they would time out.
func unplaceable(cgu *ranv1.ClusterGroupUpgrade, selected []string, forUpgrade []Policy, inventory Inventory) []string {
	if cgu.Spec.PolicyEnforcement != ranv1.EnforceOverride {
		return nil
	}
	var working []string
	for _, cluster := range selected {
		if firstPolicyToEnforce(cluster, forUpgrade) >= 0 {
			working = append(working, cluster)
		}
	}
	labels := map[string]map[string]string{}
	for _, cluster := range inventory.Clusters {
		labels[cluster.Name] = cluster.Labels
	}
	return append(withoutName(working, labels), unboundSets(working, labels, forUpgrade, inventory.BoundSets)...)
}

// withoutName names the clusters without the label by which placements select them.
func withoutName(clusters []string, labels map[string]map[string]string) []string {
	found := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return labels[cluster]["name"] == cluster })
	if len(found) == 0 {
		return nil
	}
	return []string{"policyEnforcement Override picks clusters by their label name, which is missing or another on ManagedClusters: " + someNames(found)}
}

// unboundSets names the clusters whose set is not bound to the namespace of a policy, and the bindings to create.
func unboundSets(clusters []string, labels map[string]map[string]string, forUpgrade []Policy, bound map[string][]string) []string {
	var problems []string
	for _, namespace := range slices.Compact(namespaces(forUpgrade)) {
		sets, known := bound[namespace]
		if !known || slices.Contains(sets, policies.GlobalSet) {
			continue
		}
		var missing, unseen []string
		for _, cluster := range clusters {
			set := cmp.Or(labels[cluster][policies.LabelClusterSet], policies.GlobalSet)
			if !slices.Contains(sets, set) {
				missing, unseen = append(missing, set), append(unseen, cluster)
			}
		}
		if len(unseen) == 0 {
			continue
		}
		slices.Sort(missing)
		problems = append(problems, fmt.Sprintf("placements in namespace %s cannot pick ManagedClusters yet: create the ManagedClusterSetBindings there for the sets %s (for: %s)",
			namespace, strings.Join(slices.Compact(missing), ", "), someNames(unseen)))
	}
	return problems
}

package rollout

import (
	"fmt"
	"slices"
	"strings"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// overrideWarnings warns of clusters that no placement can select. With policyEnforcement Override they would time out.
func overrideWarnings(cgu *ranv1.ClusterGroupUpgrade, selected []string, forUpgrade []Policy, inventory Inventory) string {
	if cgu.Spec.PolicyEnforcement != ranv1.EnforceOverride {
		return ""
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
	return labelWarning(working, labels) + clusterSetWarning(working, labels, forUpgrade, inventory.BoundSets)
}

// labelWarning warns of clusters without the label by which placements select them.
func labelWarning(clusters []string, labels map[string]map[string]string) string {
	found := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return labels[cluster]["name"] == cluster })
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("; policyEnforcement Override picks clusters by their label name, which is missing or another on ManagedClusters %s", found)
}

// clusterSetWarning warns of clusters whose set is not bound to the namespace of a policy: placements there cannot select them.
func clusterSetWarning(clusters []string, labels map[string]map[string]string, forUpgrade []Policy, bound map[string][]string) string {
	var text strings.Builder
	for _, namespace := range slices.Compact(namespaces(forUpgrade)) {
		sets, known := bound[namespace]
		if !known || slices.Contains(sets, policies.GlobalSet) {
			continue
		}
		var missing, unseen []string
		for _, cluster := range clusters {
			set := labels[cluster][policies.LabelClusterSet]
			if slices.Contains(sets, set) {
				continue
			}
			if set == "" {
				set = policies.GlobalSet
			}
			missing, unseen = append(missing, set), append(unseen, cluster)
		}
		slices.Sort(missing)
		for _, set := range slices.Compact(missing) {
			fmt.Fprintf(&text, "; namespace %s needs ManagedClusterSetBinding %s (spec.clusterSet: %s)", namespace, set, set)
		}
		if len(unseen) > 0 {
			fmt.Fprintf(&text, " for placements there to pick ManagedClusters %s", unseen)
		}
	}
	return text.String()
}

package rollout

import (
	"fmt"
	"slices"
	"strings"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// HubAPIs are the parts of a hub's API on which the enforcement of policies depends.
type HubAPIs struct {
	// Overrides: its PlacementBindings can override the action of policies.
	Overrides bool
	// Placements: it serves Placements, and not only PlacementRules.
	Placements bool
}

// PolicyEnforcement returns how a rollout enforces its policies: as its spec says, and otherwise by overrides where the hub can. It returns nil if the
// hub is not known.
func PolicyEnforcement(cgu *ranv1.ClusterGroupUpgrade, hub *HubAPIs) *ranv1.EnforcementStatus {
	if hub == nil || RemediationOf(cgu) != ManagedPolicies {
		return nil
	}
	enforcement := &ranv1.EnforcementStatus{By: cgu.Spec.PolicyEnforcement, Placements: ranv1.KindPlacementRule}
	if hub.Placements {
		enforcement.Placements = ranv1.KindPlacement
	}
	if enforcement.By == "" {
		enforcement.By = ranv1.EnforceCopy
		if hub.Overrides && hub.Placements {
			enforcement.By = ranv1.EnforceOverride
		}
	}
	return enforcement
}

// PlacementNamespaces are the namespaces of the placements of a rollout that enforces policies.
func PlacementNamespaces(cgu *ranv1.ClusterGroupUpgrade, enforcement ranv1.EnforcementStatus, enforced []Policy) []string {
	var found []string
	for _, policy := range enforced {
		found = append(found, placementNamespace(cgu, enforcement, policy))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func placementNamespace(cgu *ranv1.ClusterGroupUpgrade, enforcement ranv1.EnforcementStatus, policy Policy) string {
	return policies.PlacementNamespace(cgu.Namespace, policies.Ref{Namespace: policy.Namespace, Name: policy.Name}, enforcement.By)
}

// unplaceable names the clusters that no placement can select yet, and what is missing. They would time out.
func (p *Plan) unplaceable(cgu *ranv1.ClusterGroupUpgrade, selected []string, forUpgrade []Policy, inventory Inventory) []string {
	if p.PolicyEnforcement == nil || p.PolicyEnforcement.Placements != ranv1.KindPlacement {
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
	problems := withoutName(working, labels)
	for _, namespace := range PlacementNamespaces(cgu, *p.PolicyEnforcement, forUpgrade) {
		sets, known := inventory.BoundSets[namespace]
		if !known {
			continue
		}
		placed := slices.DeleteFunc(slices.Clone(working), func(cluster string) bool {
			return !slices.ContainsFunc(forUpgrade, func(policy Policy) bool {
				return placementNamespace(cgu, *p.PolicyEnforcement, policy) == namespace && policy.mayWorkOn(cluster)
			})
		})
		problems = append(problems, unboundSets(namespace, placed, labels, sets)...)
	}
	return problems
}

// mayWorkOn reports whether the policy may have to be enforced on a cluster. One that reads a status may lose its compliance during the rollout.
func (p Policy) mayWorkOn(cluster string) bool {
	return p.BoundTo(cluster) && (p.ReadsStatus || !p.Compliant[cluster])
}

// withoutName names the clusters without the label by which placements select them.
func withoutName(clusters []string, labels map[string]map[string]string) []string {
	found := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return policies.Named(cluster, labels[cluster]) })
	if len(found) == 0 {
		return nil
	}
	return []string{"Placements pick clusters by their label name, which is missing or another on ManagedClusters: " + someNames(found)}
}

// unboundSets names the clusters whose set is not bound to a namespace, and the bindings to create.
func unboundSets(namespace string, clusters []string, labels map[string]map[string]string, sets []policies.ClusterSet) []string {
	var missing, unseen []string
	for _, cluster := range clusters {
		if set := policies.UnboundSet(labels[cluster], sets); set != "" {
			missing, unseen = append(missing, set), append(unseen, cluster)
		}
	}
	if len(unseen) == 0 {
		return nil
	}
	slices.Sort(missing)
	return []string{fmt.Sprintf("Placements in namespace %s cannot pick ManagedClusters yet: create the ManagedClusterSetBindings there for the sets %s (for: %s)",
		namespace, strings.Join(slices.Compact(missing), ", "), someNames(unseen))}
}

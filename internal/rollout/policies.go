package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

const reasonNotAllManifestTemplatesExist = "NotAllManifestTemplatesExist"

// policyChoice is what becomes of the policies that a rollout names.
type policyChoice struct {
	forUpgrade, compliantBefore []Policy
	missing                     []string
	invalid, enforcing          []Policy
	// ambiguous names with the namespaces they were found in.
	ambiguous map[string][]string
}

// choosePolicies finds the managed policies among all, and tells those that the rollout enforces from those that every selected
// cluster is Compliant with. A policy that is already enforced is left out.
func choosePolicies(managed, selected []string, all []Policy) policyChoice {
	choice := policyChoice{ambiguous: map[string][]string{}}
	seen := map[string]bool{}
	for _, name := range managed {
		if seen[name] {
			continue
		}
		seen[name] = true
		found := candidates(name, selected, all)
		if len(found) == 0 {
			choice.missing = append(choice.missing, name)
			continue
		}
		if len(found) > 1 {
			choice.ambiguous[name] = namespaces(found)
			continue
		}
		choice.add(found[0], selected)
	}
	return choice
}

func (c *policyChoice) add(policy Policy, selected []string) {
	switch {
	case policy.Enforces:
		c.enforcing = append(c.enforcing, policy)
	case policy.Invalid != "":
		c.invalid = append(c.invalid, policy)
	case !policy.ReadsStatus && compliantEverywhere(policy, selected):
		c.compliantBefore = append(c.compliantBefore, policy)
	default:
		c.forUpgrade = append(c.forUpgrade, policy)
	}
}

// candidates returns the policies of that name that are bound to a selected cluster; if there are none, all of that name.
func candidates(name string, selected []string, all []Policy) []Policy {
	var named, bound []Policy
	for _, policy := range all {
		if policy.Name != name {
			continue
		}
		named = append(named, policy)
		if slices.ContainsFunc(selected, policy.BoundTo) {
			bound = append(bound, policy)
		}
	}
	if len(bound) > 0 {
		return bound
	}
	return named
}

func compliantEverywhere(policy Policy, selected []string) bool {
	for _, cluster := range selected {
		if !policy.Compliant[cluster] {
			return false
		}
	}
	return true
}

// firstPolicyToEnforce returns the index of the first policy that is bound to the cluster and not Compliant, or -1; and whether any
// policy is bound to it.
func firstPolicyToEnforce(cluster string, policies []Policy) (index int, bound bool) {
	for i, policy := range policies {
		if !policy.BoundTo(cluster) {
			continue
		}
		bound = true
		if !policy.Compliant[cluster] {
			return i, true
		}
	}
	return -1, bound
}

// verdict names every problem, in the words of the operator whose kind this is, and the policies that are left out because they
// already enforce.
func (c policyChoice) verdict() verdict {
	v := verdict{condition: ranv1.ConditionValidated, reason: ranv1.ReasonNotAllManagedPoliciesExist}
	var problems []string
	if len(c.missing) > 0 {
		problems = append(problems, fmt.Sprintf("Missing managed policies: %s", c.missing))
	}
	if len(c.invalid) > 0 {
		problems = append(problems, fmt.Sprintf("Invalid managed policies: %s", names(c.invalid)))
		for _, policy := range c.invalid {
			problems = append(problems, fmt.Sprintf("policy %s/%s: %s", policy.Namespace, policy.Name, policy.Invalid))
		}
	}
	if len(c.ambiguous) > 0 {
		v.reason = ranv1.ReasonAmbiguousManagedPoliciesNames
		found, _ := json.Marshal(c.ambiguous)
		problems = slices.Insert(problems, 0,
			fmt.Sprintf("Managed policy name should be unique, but was found in multiple namespaces: %s", found))
	}
	if len(problems) > 0 {
		v.message = strings.Join(problems, "; ")
		return v
	}
	v.reason, v.good, v.message = ranv1.ReasonValidationCompleted, true, "Completed validation"
	for _, policy := range c.enforcing {
		v.message += fmt.Sprintf("; policy %s/%s is left out because it already enforces", policy.Namespace, policy.Name)
	}
	return v
}

// missingTemplates returns the manifest work templates of the rollout that do not exist in its namespace.
func missingTemplates(cgu *ranv1.ClusterGroupUpgrade, existing []types.NamespacedName) []string {
	var missing []string
	for _, name := range cgu.Spec.ManifestWorkTemplates {
		if !slices.Contains(existing, types.NamespacedName{Namespace: cgu.Namespace, Name: name}) {
			missing = append(missing, name)
		}
	}
	return missing
}

func names(policies []Policy) []string {
	var names []string
	for _, policy := range policies {
		names = append(names, policy.Name)
	}
	return names
}

func namespaces(policies []Policy) []string {
	var namespaces []string
	for _, policy := range policies {
		namespaces = append(namespaces, policy.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// policyChoice is the result of a check of the policies that a rollout names.
type policyChoice struct {
	forUpgrade, compliantBefore []Policy
	missing                     []string
	// unbound are bound to no selected cluster.
	unbound            []Policy
	invalid, enforcing []Policy
	// ambiguous names with the namespaces they were found in.
	ambiguous map[string][]string
	// platform are the reasons why the policies do not determine one release.
	platform []string
	// dependencies are the dependencies on policies that are remediated later.
	dependencies []string
}

// choosePolicies finds the managed policies. It separates those that the rollout enforces from those that every selected cluster complies with. It
// leaves out policies that enforce already.
func choosePolicies(cgu *ranv1.ClusterGroupUpgrade, selected []string, inventory Inventory) policyChoice {
	choice := policyChoice{ambiguous: map[string][]string{}}
	enforcement, seen := PolicyEnforcement(cgu, inventory.Hub), map[string]bool{}
	for _, name := range cgu.Spec.ManagedPolicies {
		if seen[name] {
			continue
		}
		seen[name] = true
		named, bound := candidates(name, selected, inventory.Policies)
		switch {
		case len(bound) == 0:
			choice.missing, choice.unbound = append(choice.missing, name), append(choice.unbound, named...)
			continue
		case len(bound) > 1:
			choice.ambiguous[name] = namespaces(bound)
			continue
		}
		policy := bound[0]
		if policy.Invalid == "" && enforcement != nil {
			policy.Invalid = notEnforceable(cgu, policy, enforcement.By, *inventory.Hub)
		}
		choice.add(policy, selected)
	}
	choice.platform = platformProblems(choice.forUpgrade)
	choice.dependencies = laterDependencies(choice.forUpgrade)
	return choice
}

// notEnforceable is why a rollout cannot enforce a policy; empty: it can.
func notEnforceable(cgu *ranv1.ClusterGroupUpgrade, policy Policy, by ranv1.PolicyEnforcement, hub HubAPIs) string {
	rollout := types.NamespacedName{Namespace: cgu.Namespace, Name: cgu.Name}
	_, err := policies.NamesFor(rollout, policies.Ref{Namespace: policy.Namespace, Name: policy.Name}, by)
	switch {
	case err != nil:
		return err.Error()
	case by == ranv1.EnforceOverride && !hub.Overrides:
		return "the PlacementBindings of this hub have no bindingOverrides: use policyEnforcement Copy"
	case by == ranv1.EnforceOverride:
	case policy.Namespace == cgu.Namespace:
	case policy.HubReads.NotCopied != "":
		return fmt.Sprintf("a copy in namespace %s could not do the same, because its hub templates %s: start the rollout in %s, or with policyEnforcement Override",
			cgu.Namespace, policy.HubReads.NotCopied, policy.Namespace)
	case len(policy.MissingSources) > 0:
		return "its hub templates read " + strings.Join(policy.MissingSources, ", ")
	}
	return ""
}

// contentOf lists the Subscriptions of policies as JSON, by the name of the policy.
func contentOf(all []Policy) map[string]string {
	content := map[string]string{}
	for _, policy := range all {
		if len(policy.Subscriptions) > 0 {
			text, _ := json.Marshal(policy.Subscriptions) // cannot fail
			content[policy.Name] = string(text)
		}
	}
	return content
}

// laterDependencies names the dependencies on later policies, which would never be fulfilled.
func laterDependencies(forUpgrade []Policy) []string {
	var found []string
	for i, policy := range forUpgrade {
		for _, dependency := range policy.DependsOn {
			later := slices.ContainsFunc(forUpgrade[i:], func(p Policy) bool {
				return p.Namespace == dependency.Namespace && p.Name == dependency.Name
			})
			switch {
			case later && dependency.Name == policy.Name:
				found = append(found, fmt.Sprintf("Managed Policy %s depends on itself", policy.Name))
			case later:
				found = append(found, fmt.Sprintf("Managed Policy %s depends on %s, which is to be remediated later", policy.Name, dependency.Name))
			}
		}
	}
	return found
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

// candidates returns the policies of that name, and those of them that are bound to a selected cluster. Without a selected cluster, that is all of them.
func candidates(name string, selected []string, all []Policy) (named, bound []Policy) {
	for _, policy := range all {
		if policy.Name != name {
			continue
		}
		named = append(named, policy)
		if len(selected) == 0 || slices.ContainsFunc(selected, policy.BoundTo) {
			bound = append(bound, policy)
		}
	}
	return named, bound
}

func compliantEverywhere(policy Policy, selected []string) bool {
	for _, cluster := range selected {
		if !policy.Compliant[cluster] {
			return false
		}
	}
	return true
}

// NotBound lists by cluster the indexes of the policies that are not bound to it. The others must stay bound until the cluster has passed them, or
// its compliance would be unknown.
func NotBound(enforced []Policy, clusters []string) map[string][]int {
	notBound := map[string][]int{}
	for _, cluster := range clusters {
		for i, policy := range enforced {
			if !policy.BoundTo(cluster) {
				notBound[cluster] = append(notBound[cluster], i)
			}
		}
	}
	return notBound
}

// firstPolicyToEnforce returns the index of the first policy that is bound to the cluster and not Compliant, or -1.
func firstPolicyToEnforce(cluster string, forUpgrade []Policy) int {
	return slices.IndexFunc(forUpgrade, func(p Policy) bool { return p.BoundTo(cluster) && !p.Compliant[cluster] })
}

// hasWork reports whether a selected cluster needs work.
func (c policyChoice) hasWork(cgu *ranv1.ClusterGroupUpgrade, selected []string) bool {
	if remediation := RemediationOf(cgu); remediation == NodeMaintenance || remediation == ManifestWorks {
		return len(selected) > 0
	}
	return slices.ContainsFunc(selected, func(cluster string) bool { return firstPolicyToEnforce(cluster, c.forUpgrade) >= 0 })
}

// reasonNoWork is why the rollout has no work on a cluster. The cluster is done only if it complies with at least one policy of the rollout.
func (c policyChoice) reasonNoWork(cluster string) (reason, message string) {
	boundTo := func(p Policy) bool { return p.BoundTo(cluster) }
	enforced := slices.DeleteFunc(slices.Clone(c.enforcing), func(p Policy) bool { return !p.BoundTo(cluster) || p.Compliant[cluster] })
	switch {
	case len(enforced) > 0:
		return ReasonAlreadyEnforced, fmt.Sprintf("the cluster does not comply with policies that the rollout leaves out because they enforce already: %s", names(enforced))
	case slices.ContainsFunc(slices.Concat(c.forUpgrade, c.compliantBefore, c.enforcing), boundTo):
		return ReasonAlreadyCompliant, "compliant with every policy of the rollout that is bound to the cluster"
	}
	return ReasonNotBound, "no policy of the rollout is bound to the cluster"
}

// verdict names every problem, in the words of TALM, and the policies that enforce already.
func (c policyChoice) verdict(selected []string) verdict {
	v := verdict{condition: ranv1.ConditionValidated, reason: ranv1.ReasonNotAllManagedPoliciesExist}
	var problems []string
	if len(c.missing) > 0 {
		problems = append(problems, fmt.Sprintf("Missing managed policies: %s", c.missing))
	}
	for _, policy := range c.unbound {
		problems = append(problems, fmt.Sprintf("policy %s is bound to none of the selected clusters (%s): bind it to them with a PlacementBinding", policy, someNames(selected)))
	}
	if len(c.invalid) > 0 {
		problems = append(problems, fmt.Sprintf("Invalid managed policies: %s", names(c.invalid)))
		for _, policy := range c.invalid {
			problems = append(problems, fmt.Sprintf("policy %s: %s", policy, policy.Invalid))
		}
	}
	if len(c.ambiguous) > 0 {
		v.reason = ranv1.ReasonAmbiguousManagedPoliciesNames
		found, _ := json.Marshal(c.ambiguous)
		problems = slices.Insert(problems, 0,
			fmt.Sprintf("Managed policy name should be unique, but was found in multiple namespaces: %s", found))
	}
	if len(problems) == 0 && len(c.platform) > 0 {
		v.reason = ranv1.ReasonInvalidPlatformImage
	}
	problems = append(problems, c.platform...)
	if len(problems) == 0 && len(c.dependencies) > 0 {
		v.reason = ranv1.ReasonUnresolvableDependency
	}
	problems = append(problems, c.dependencies...)
	if len(problems) > 0 {
		v.message = strings.Join(problems, "; ")
		return v
	}
	v.reason, v.good, v.message = ranv1.ReasonValidationCompleted, true, "Completed validation"
	for _, policy := range c.enforcing {
		v.message += fmt.Sprintf("; policy %s is left out because it already enforces", policy)
	}
	return v
}

func names(found []Policy) []string {
	var names []string
	for _, policy := range found {
		names = append(names, policy.Name)
	}
	return names
}

func namespaces(found []Policy) []string {
	var namespaces []string
	for _, policy := range found {
		namespaces = append(namespaces, policy.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func namespacesOf(found []Policy) map[string]string {
	if len(found) == 0 {
		return nil
	}
	namespaces := map[string]string{}
	for _, policy := range found {
		namespaces[policy.Name] = policy.Namespace
	}
	return namespaces
}

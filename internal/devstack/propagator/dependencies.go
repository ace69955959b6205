package propagator

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dependency is the compliance with another policy, by the name of its replica, that a policy waits for.
type dependency struct{ policy, compliance string }

// needsOf returns the dependencies of a policy and its templates. Their namespace defaults to that of the policy.
func needsOf(policy *unstructured.Unstructured) []dependency {
	listed, _, _ := unstructured.NestedSlice(policy.Object, "spec", "dependencies")
	templates, _, _ := unstructured.NestedSlice(policy.Object, "spec", "policy-templates")
	for _, template := range templates {
		extra, _, _ := unstructured.NestedSlice(template.(map[string]any), "extraDependencies")
		listed = append(listed, extra...)
	}
	var needs []dependency
	for _, one := range listed {
		fields := one.(map[string]any)
		if fields["kind"] != policyKind.Kind {
			continue
		}
		namespace, _ := fields["namespace"].(string)
		if namespace == "" {
			namespace = policy.GetNamespace()
		}
		compliance, _ := fields["compliance"].(string)
		needs = append(needs, dependency{policy: namespace + "." + fields["name"].(string), compliance: compliance})
	}
	return needs
}

// standing returns the compliance of a cluster with a replica; it is pending until its dependencies hold. A replica that depends on itself
// stays pending. asked are the replicas on the path of dependencies. The caller holds the lock.
func (p *Propagator) standing(key client.ObjectKey, asked []string) string {
	r, bound := p.replicas[key]
	if !bound {
		return ""
	}
	asked = append(slices.Clone(asked), key.Name)
	for _, need := range r.needs {
		if slices.Contains(asked, need.policy) || p.standing(client.ObjectKey{Namespace: key.Namespace, Name: need.policy}, asked) != need.compliance {
			return pending
		}
	}
	if p.complies[key.Namespace][r.content] {
		return compliant
	}
	return other
}

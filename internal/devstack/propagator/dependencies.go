package propagator

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dependency is the required compliance with another policy, by the name of its replica.
type dependency struct{ policy, compliance string }

// dependenciesOf returns the dependencies of a policy and its templates. Their namespace defaults to that of the policy.
func dependenciesOf(policy *unstructured.Unstructured) []dependency {
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

// complianceOf returns the compliance of a cluster with a replica. It is pending until the dependencies are satisfied; a replica that depends on
// itself stays pending. path are the replicas on the path of dependencies. The caller holds the lock.
func (p *Propagator) complianceOf(key client.ObjectKey, path []string) string {
	r, bound := p.replicas[key]
	if !bound {
		return ""
	}
	path = append(slices.Clone(path), key.Name)
	for _, need := range r.needs {
		if slices.Contains(path, need.policy) || p.complianceOf(client.ObjectKey{Namespace: key.Namespace, Name: need.policy}, path) != need.compliance {
			return pending
		}
	}
	if r.failure == "" && p.complies[key.Namespace][r.content] {
		return compliant
	}
	return other
}

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/deploy/rbac"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
)

// unobserved are the rights that the shared part of the end-to-end tests does not use, each with what needs it.
var unobserved = map[string]string{}

// checkRights compares the audit logs of a fleet with the roles of deploy/rbac, after all tests that share it: the API servers allowed each right at least
// once, or it is in unobserved. A right that nothing uses any longer must be removed.
func checkRights(f *fleet.Fleet) error {
	if !allSharedTests() {
		return nil
	}
	roles, err := rbac.Roles()
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, cluster := range f.Clusters() {
		if err := addUsed(used, roles, cluster); err != nil {
			return err
		}
	}
	var problems []error
	for _, role := range roles {
		for right := range rightsOf(role) {
			_, listed := unobserved[right]
			switch {
			case !used[right] && !listed:
				problems = append(problems, fmt.Errorf("no test used %s of %s: remove it, or say in unobserved what needs it", right, role.File))
			case used[right] && listed:
				problems = append(problems, fmt.Errorf("a test used %s of %s: remove it from unobserved", right, role.File))
			}
		}
	}
	return errors.Join(problems...)
}

// allSharedTests reports whether this process ran all tests that share the fleet.
func allSharedTests() bool {
	return selectedPart() != partAlone && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" && !testing.Short()
}

// addUsed adds the rights that the API server of a cluster has allowed.
func addUsed(used map[string]bool, roles []rbac.Role, cluster *devstack.Cluster) error {
	events, err := cluster.AuditEvents()
	if err != nil {
		return err
	}
	for _, event := range events {
		account, ours := strings.CutPrefix(event.User.Username, "system:serviceaccount:drydock-system:")
		if !ours || event.ObjectRef == nil || event.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		for _, role := range roles {
			if !boundFor(role, account, event) {
				continue
			}
			for right, rule := range rightsOf(role) {
				if strings.HasSuffix(right, " "+requested(event)) && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, event.ObjectRef.Name)) {
					used[right] = true
				}
			}
		}
	}
	return nil
}

// boundFor reports whether the role may have been what allowed a request of the account. Tests bind roles that the manifests bind for nobody.
func boundFor(role rbac.Role, account string, event auditv1.Event) bool {
	if slices.Contains(role.Cluster, account) || slices.Contains(role.Namespaced[event.ObjectRef.Namespace], account) {
		return true
	}
	return len(role.Cluster) == 0 && strings.Contains(event.Annotations["authorization.k8s.io/reason"], `ClusterRole "`+role.Name+`"`)
}

// requested is the right that a request needs, as "VERB RESOURCE".
func requested(event auditv1.Event) string {
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return event.Verb + " " + rbac.Resource(event.ObjectRef.APIGroup, resource)
}

// rightsOf are the rights of a role, as "ROLE: VERB RESOURCE", with their rules.
func rightsOf(role rbac.Role) map[string]rbacv1.PolicyRule {
	rights := map[string]rbacv1.PolicyRule{}
	for _, rule := range role.Rules {
		for _, resource := range rbac.Resources(rule) {
			for _, verb := range rule.Verbs {
				rights[role.Name+": "+verb+" "+resource] = rule
			}
		}
	}
	return rights
}

// TestUnobservedRightsAreShipped keeps the list from growing stale when a right is removed.
func TestUnobservedRightsAreShipped(t *testing.T) {
	roles, err := rbac.Roles()
	if err != nil {
		t.Fatal(err)
	}
	shipped := map[string]rbacv1.PolicyRule{}
	for _, role := range roles {
		maps.Copy(shipped, rightsOf(role))
	}
	for right, reason := range unobserved {
		if _, found := shipped[right]; !found || reason == "" {
			t.Errorf("unobserved: %q: no role has this right, or no reason is given", right)
		}
	}
}

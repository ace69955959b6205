package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/deploy/rbac"
)

// Right is a verb on a resource, named as kubectl names it, that a ServiceAccount of drydock-system has, or used.
type Right struct{ Account, Verb, Resource string }

// String describes the right: "drydock-initiator: patch nodes".
func (r Right) String() string { return r.Account + ": " + r.Verb + " " + r.Resource }

// GrantedRights returns what the shipped roles give to the accounts of the workers, in order. Roles that no manifest binds are for namespaces of the user's choice:
// one of the hub, and others of the initiator.
func GrantedRights() ([]Right, error) {
	roles, err := rbac.Roles()
	if err != nil {
		return nil, err
	}
	granted := map[Right]bool{}
	for _, role := range roles {
		accounts := map[string]bool{}
		for _, account := range role.Cluster {
			accounts[account] = true
		}
		for _, bound := range role.Namespaced {
			for _, account := range bound {
				accounts[account] = true
			}
		}
		switch {
		case len(accounts) > 0:
		case role.Name == "drydock-copied-configmaps":
			accounts[hubAccount] = true
		default:
			accounts[initiatorAccount] = true
		}
		for _, rule := range role.Rules {
			for _, resource := range rbac.Resources(rule) {
				for _, verb := range rule.Verbs {
					for account := range accounts {
						granted[Right{account, verb, resource}] = true
					}
				}
			}
		}
	}
	return sortedRights(granted), nil
}

// UsedRights returns the rights that the accounts of Drydock used in an audit log, in order. A request that the API server refused for want of a right does not
// count.
func UsedRights(events []auditv1.Event) []Right {
	used := map[Right]bool{}
	for _, event := range events {
		account, ours := strings.CutPrefix(event.User.Username, drydockAccounts)
		if !ours || event.ObjectRef == nil || event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		verbs := []string{event.Verb}
		switch {
		case event.Verb == "patch" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusCreated:
			verbs = append(verbs, "create") // an apply that creates needs both
		case event.Verb == "watch":
			verbs = append(verbs, "list") // a watch begins with the list, and a client lists where the server does not send it
		}
		for _, verb := range verbs {
			used[Right{account, verb, rbac.Resource(event.ObjectRef.APIGroup, resource)}] = true
		}
	}
	return sortedRights(used)
}

// CompareRights returns the rights that are granted and that no test uses, neither the end-to-end tests nor those of UsedByActivities, and those that these lists
// name and no role grants.
func CompareRights(granted, used []Right) (problems []string) {
	elsewhere := map[string]bool{}
	for right := range UnloggedRights {
		elsewhere[right] = true
	}
	for _, rights := range UsedByActivities {
		for _, right := range rights {
			elsewhere[right] = true
		}
	}
	for _, right := range granted {
		if !slices.Contains(used, right) && !elsewhere[right.String()] {
			problems = append(problems, fmt.Sprintf("no test uses the right %q of deploy/rbac: remove it, or add it to fleet.UsedByActivities", right))
		}
		delete(elsewhere, right.String())
	}
	for _, right := range slices.Sorted(maps.Keys(elsewhere)) {
		problems = append(problems, fmt.Sprintf("deploy/rbac does not grant the right %q of fleet.UsedByActivities", right))
	}
	return problems
}

func sortedRights(set map[Right]bool) []Right {
	rights := make([]Right, 0, len(set))
	for right := range set {
		rights = append(rights, right)
	}
	slices.SortFunc(rights, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return rights
}

// UsedByActivities are the rights that no end-to-end test uses, and the packages of activities whose tests use them with the shipped roles. Those tests check that.
var UsedByActivities = map[string][]string{
	"harbor": {
		"drydock-initiator: create ingresses.networking.k8s.io", "drydock-initiator: patch ingresses.networking.k8s.io", "drydock-initiator: delete ingresses.networking.k8s.io",
	},
	"objects": {
		"drydock-hub: get components.sreportal.io", "drydock-hub: get maintenances.sreportal.io", "drydock-hub: get incidents.sreportal.io",
		"drydock-hub: get customresourcedefinitions.apiextensions.k8s.io",
		"drydock-hub: list clusterrolebindings.rbac.authorization.k8s.io", "drydock-hub: list deployments.apps",
		"drydock-hub: watch clusterrolebindings.rbac.authorization.k8s.io", "drydock-hub: watch deployments.apps",
		"drydock-initiator: list clusterrolebindings.rbac.authorization.k8s.io", "drydock-initiator: watch clusterrolebindings.rbac.authorization.k8s.io",
		"drydock-initiator: get nodemaintenances.maintenance.nvidia.com",
	},
	"onboarding": {"drydock-hub: create clustergroupupgrades.ran.openshift.io", "drydock-hub: delete clustergroupupgrades.ran.openshift.io"},
	"policies": {
		"drydock-hub: get placementrules.apps.open-cluster-management.io", "drydock-hub: create placementrules.apps.open-cluster-management.io",
		"drydock-hub: list placementrules.apps.open-cluster-management.io", "drydock-hub: watch placementrules.apps.open-cluster-management.io",
		"drydock-hub: patch placementrules.apps.open-cluster-management.io", "drydock-hub: delete placementrules.apps.open-cluster-management.io",
	},
}

// UnloggedRights are rights whose use no audit log shows, with the reason.
var UnloggedRights = map[string]string{
	"drydock-hub: create events":       "the audit policy does not log Events; TestAnAppliedClusterGroupUpgradeIsPlannedEnabledAndDeleted of internal/e2e reads them",
	"drydock-initiator: create events": "the same; the tests of activities/node read them",
}

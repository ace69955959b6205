package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// operated are the kinds whose original operators do the same work as Drydock. Such an operator is recognised by its permission to write the
// status of the kind.
var operated = map[string]string{
	"ran.openshift.io":       "clustergroupupgrades",
	"maintenance.nvidia.com": "nodemaintenances",
	"sreportal.io":           "maintenances",
}

// examineOperators reports the original operators that still run. The check passes: both may run, but not on the same objects.
func examineOperators(ctx context.Context, config *rest.Config, at place) finding {
	check := at.String() + ": operators"
	running, err := runningOperators(ctx, config)
	switch {
	case err != nil:
		return well(check, "unknown: "+err.Error())
	case len(running) == 0:
		return well(check, "none runs for ClusterGroupUpgrades, NodeMaintenances or Maintenances")
	}
	return well(check, "still running: "+strings.Join(running, "; "))
}

// runningOperators finds the Deployments whose ServiceAccounts may write the status of an operated kind. It ignores wildcard permissions.
func runningOperators(ctx context.Context, config *rest.Config) ([]string, error) {
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	roles, err := cluster.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoles: %w", err)
	}
	writes := map[string][]string{}
	for _, role := range roles.Items {
		if kinds := writtenBy(role.Rules); len(kinds) > 0 {
			writes[role.Name] = kinds
		}
	}
	if len(writes) == 0 {
		return nil, nil
	}
	everywhere, err := cluster.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	writers := map[types.NamespacedName][]string{}
	for _, binding := range everywhere.Items {
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				account := types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}
				writers[account] = append(writers[account], writes[binding.RoleRef.Name]...)
			}
		}
	}
	deployments, err := cluster.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	var running []string
	for _, deployment := range deployments.Items {
		kinds := writers[types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Spec.Template.Spec.ServiceAccountName}]
		if len(kinds) > 0 && !scaledDown(deployment) {
			slices.Sort(kinds)
			running = append(running, fmt.Sprintf("Deployment %s/%s for %s", deployment.Namespace, deployment.Name, listed(slices.Compact(kinds))))
		}
	}
	return running, nil
}

// writtenBy returns the operated kinds whose status the rules of a role allow to write.
func writtenBy(rules []rbacv1.PolicyRule) []string {
	var kinds []string
	for group, resource := range operated {
		if slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource+"/status") &&
				(slices.Contains(rule.Verbs, "update") || slices.Contains(rule.Verbs, "patch"))
		}) {
			kinds = append(kinds, resource+"."+group)
		}
	}
	return kinds
}

func scaledDown(deployment appsv1.Deployment) bool {
	return deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0
}

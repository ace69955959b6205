// Package operators finds the original operators of the kinds that Drydock also acts on.
package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

// Kinds are the kinds that have an original operator. It is recognised by its permission to write their status.
func Kinds() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "maintenance.nvidia.com", Resource: "nodemaintenances"},
		{Group: "ran.openshift.io", Resource: "clustergroupupgrades"},
		{Group: "sreportal.io", Resource: "components"},
		{Group: "sreportal.io", Resource: "incidents"},
		{Group: "sreportal.io", Resource: "maintenances"},
	}
}

// Operator is a Deployment that acts on kinds.
type Operator struct {
	types.NamespacedName
	Kinds []schema.GroupResource
}

// String returns the operator as "Deployment namespace/name for kinds".
func (o Operator) String() string {
	var kinds []string
	for _, kind := range o.Kinds {
		kinds = append(kinds, kind.String())
	}
	return fmt.Sprintf("Deployment %s for %s", o.NamespacedName, strings.Join(kinds, ", "))
}

// Reader reads ClusterRoles and Deployments, as a clientset.
type Reader interface {
	AppsV1() appsclient.AppsV1Interface
	RbacV1() rbacclient.RbacV1Interface
}

// Running finds the operators of a cluster: the Deployments whose ServiceAccounts may write the status of one of Kinds. It ignores wildcard permissions,
// Drydock's own worker, and Deployments that are scaled to zero.
func Running(ctx context.Context, cluster Reader) ([]Operator, error) {
	running, _, err := Find(ctx, cluster)
	return running, err
}

// Find is Running. It also reports whether ClusterRoles give such permissions: otherwise no Deployment can be an operator.
func Find(ctx context.Context, cluster Reader) (running []Operator, permitted bool, err error) {
	roles, err := cluster.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("list ClusterRoles: %w", err)
	}
	writes := map[string][]schema.GroupResource{}
	for _, role := range roles.Items {
		if kinds := writtenBy(role.Rules); len(kinds) > 0 && !strings.HasPrefix(role.Name, ownPrefix) {
			writes[role.Name] = kinds
		}
	}
	if len(writes) == 0 {
		return nil, false, nil
	}
	bindings, err := cluster.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, true, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	writers := map[types.NamespacedName][]schema.GroupResource{}
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				account := types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}
				writers[account] = append(writers[account], writes[binding.RoleRef.Name]...)
			}
		}
	}
	deployments, err := cluster.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, true, fmt.Errorf("list Deployments: %w", err)
	}
	for _, deployment := range deployments.Items {
		kinds := writers[types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Spec.Template.Spec.ServiceAccountName}]
		if len(kinds) > 0 && !scaledDown(deployment) {
			running = append(running, Operator{types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name}, sorted(kinds)})
		}
	}
	return running, true, nil
}

// ownPrefix begins the names of the ClusterRoles in deploy/rbac.
const ownPrefix = "drydock-"

// writtenBy returns the kinds whose status the rules of a role allow to write.
func writtenBy(rules []rbacv1.PolicyRule) []schema.GroupResource {
	return slices.DeleteFunc(Kinds(), func(kind schema.GroupResource) bool {
		return !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, kind.Group) && slices.Contains(rule.Resources, kind.Resource+"/status") &&
				(slices.Contains(rule.Verbs, "update") || slices.Contains(rule.Verbs, "patch"))
		})
	})
}

func sorted(kinds []schema.GroupResource) []schema.GroupResource {
	slices.SortFunc(kinds, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(kinds)
}

func scaledDown(deployment appsv1.Deployment) bool {
	return deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0
}

// Steered are the kinds whose objects Drydock's workers act on: on the hub, or in all other clusters.
func Steered(hub bool) []schema.GroupVersionKind {
	if hub {
		return []schema.GroupVersionKind{
			{Group: "ran.openshift.io", Version: "v1alpha1", Kind: "ClusterGroupUpgrade"},
			{Group: "drydock.dev", Version: "v1alpha1", Kind: "MaintenanceWindow"},
			{Group: "sreportal.io", Version: "v1alpha1", Kind: "Component"},
			{Group: "sreportal.io", Version: "v1alpha1", Kind: "Maintenance"},
			{Group: "sreportal.io", Version: "v1alpha1", Kind: "Incident"},
		}
	}
	return []schema.GroupVersionKind{
		{Group: "maintenance.nvidia.com", Version: "v1alpha1", Kind: "NodeMaintenance"},
		{Group: "maintenance.nvidia.com", Version: "v1alpha1", Kind: "MaintenanceOperatorConfig"},
		{Group: "drydock.dev", Version: "v1alpha1", Kind: "WorkloadLockPolicy"},
		{Group: "goharbor.io", Version: "v1beta1", Kind: "HarborCluster"},
	}
}

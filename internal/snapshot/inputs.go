package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
)

// Inventory reads the input of a rollout's plan from the hub, and only the objects that this rollout needs. A cluster that does not serve
// ManagedClusters is not a hub: an error.
func Inventory(ctx context.Context, reader client.Reader, cgu *ranv1.ClusterGroupUpgrade, now time.Time) (rollout.Inventory, error) {
	var inventory rollout.Inventory
	clusters := &unstructured.UnstructuredList{}
	clusters.SetGroupVersionKind(policies.ManagedClusters.GroupVersion().WithKind(policies.ManagedClusters.Kind + "List"))
	if err := reader.List(ctx, clusters); err != nil {
		return rollout.Inventory{}, fmt.Errorf("list ManagedClusters on the hub: %w", err)
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		inventory.Clusters = append(inventory.Clusters, rollout.Cluster{
			Name: cluster.GetName(), Labels: cluster.GetLabels(), Offline: policies.Offline(cluster),
		})
	}
	if len(cgu.Spec.ManagedPolicies) > 0 {
		var err error
		if inventory.Policies, err = rootPolicies(ctx, reader, cgu.Spec.ManagedPolicies); err != nil {
			return rollout.Inventory{}, err
		}
		if inventory.Settles, err = confirmCompliance(ctx, reader, inventory.Policies, rollout.Selected(&cgu.Spec, inventory.Clusters), now); err != nil {
			return rollout.Inventory{}, err
		}
		if err = readEnforcement(ctx, reader, cgu, &inventory); err != nil {
			return rollout.Inventory{}, err
		}
	}
	if len(cgu.Spec.ManifestWorkTemplates) > 0 {
		templates := metadataList(manifestworks.Templates)
		if err := listIfServed(ctx, reader, templates); err != nil {
			return rollout.Inventory{}, err
		}
		for _, template := range templates.Items {
			found := rollout.Template{NamespacedName: client.ObjectKeyFromObject(&template)}
			if _, err := manifestworks.ExpectedValues(template.Annotations); err != nil {
				found.Invalid = err.Error()
			}
			inventory.ManifestWorkTemplates = append(inventory.ManifestWorkTemplates, found)
		}
	}
	return inventory, readPrecaching(ctx, reader, cgu, &inventory)
}

// readPrecaching reads what replaces the precached content that the policies of a rollout name.
func readPrecaching(ctx context.Context, reader client.Reader, cgu *ranv1.ClusterGroupUpgrade, inventory *rollout.Inventory) (err error) {
	if !cgu.Spec.PreCaching {
		return nil
	}
	if inventory.PreCachingConfig, err = preCachingConfig(ctx, reader, cgu); err != nil {
		return err
	}
	var overrides corev1.ConfigMap
	name := rollout.PreCachingOverridesOf(cgu)
	if err := client.IgnoreNotFound(reader.Get(ctx, name, &overrides)); err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", name, err)
	}
	inventory.PreCachingOverrides = overrides.Data
	return nil
}

// preCachingConfig reads the configuration that a rollout refers to; nil if there is none, or the hub does not know the kind.
func preCachingConfig(ctx context.Context, reader client.Reader, cgu *ranv1.ClusterGroupUpgrade) (*ranv1.PreCachingConfigSpec, error) {
	name, named := rollout.PreCachingConfigOf(cgu)
	if !named {
		return nil, nil
	}
	var config ranv1.PreCachingConfig
	err := reader.Get(ctx, name, &config)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get PreCachingConfig %s: %w", name, err)
	}
	return &config.Spec, nil
}

// maxConcurrentReads limits the policies that are read at the same time.
const maxConcurrentReads = 16

// rootPolicies reads the root policies with these names, in all namespaces. It reads no other policies in full, because their status grows with
// the fleet, and no replicas in the clusters' namespaces.
func rootPolicies(ctx context.Context, reader client.Reader, names []string) ([]rollout.Policy, error) {
	list := metadataList(policies.Policies)
	roots, err := labels.Parse(policies.Roots)
	if err != nil {
		return nil, err
	}
	if err := listIfServed(ctx, reader, list, client.MatchingLabelsSelector{Selector: roots}); err != nil {
		return nil, err
	}
	named := slices.DeleteFunc(list.Items, func(root metav1.PartialObjectMetadata) bool { return !slices.Contains(names, root.Name) })
	read := make([]*rollout.Policy, len(named))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(maxConcurrentReads)
	for i := range named {
		reads.Go(func() (err error) {
			read[i], err = rootPolicy(reading, reader, client.ObjectKeyFromObject(&named[i]))
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var found []rollout.Policy
	for _, policy := range read {
		if policy != nil {
			found = append(found, *policy)
		}
	}
	return found, nil
}

// rootPolicy reads a policy; nil if it no longer exists.
func rootPolicy(ctx context.Context, reader client.Reader, name client.ObjectKey) (*rollout.Policy, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(policies.Policies)
	if err := reader.Get(ctx, name, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get policy %s: %w", name, err)
	}
	policy, err := rollout.ReadPolicy(object)
	return &policy, err
}

// NotBound returns the indexes of the policies that are not bound to clusters. It ignores deleted policies, which enforcement reports.
func NotBound(ctx context.Context, reader client.Reader, status *ranv1.ClusterGroupUpgradeStatus, clusters []string) (map[string][]int, error) {
	managed := status.ManagedPoliciesForUpgrade
	if len(managed) == 0 {
		return nil, nil
	}
	var names []string
	for _, policy := range managed {
		names = append(names, policy.Name)
	}
	found, err := rootPolicies(ctx, reader, names)
	if err != nil {
		return nil, err
	}
	enforced := make([]rollout.Policy, len(managed))
	for i, policy := range managed {
		at := slices.IndexFunc(found, func(p rollout.Policy) bool { return p.Name == policy.Name && p.Namespace == policy.Namespace })
		if at < 0 {
			return nil, nil
		}
		enforced[i] = found[at]
	}
	return rollout.NotBound(enforced, clusters), nil
}

// Scheduling reads the input of the scheduling of node maintenance at time now. Budgets, if given, replace those of the cluster, which are those of the
// named configuration (see MaintenanceConfig).
func Scheduling(
	ctx context.Context, reader client.Reader, budgets *maintenancev1.MaintenanceOperatorConfigSpec, named types.NamespacedName, now time.Time,
) (scheduling.Input, error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return scheduling.Input{}, fmt.Errorf("list nodes: %w", err)
	}
	var requests maintenancev1.NodeMaintenanceList
	if err := listIfServed(ctx, reader, &requests); err != nil {
		return scheduling.Input{}, err
	}
	if budgets == nil {
		config, err := MaintenanceConfig(ctx, reader, named)
		if err != nil {
			return scheduling.Input{}, err
		}
		budgets = &config
	}
	in := scheduling.InputOf(nodes.Items, requests.Items, *budgets, now)
	in.Requests = append(in.Requests, marked(nodes.Items, in.Requests)...)
	return in, nil
}

// marked are the maintenances with ownership marks on nodes but without a known request: they still hold their slots.
func marked(nodes []corev1.Node, known []scheduling.SlotRequest) []scheduling.SlotRequest {
	held := map[string]bool{}
	for _, request := range known {
		held[request.Node] = held[request.Node] || request.Granted
	}
	var requests []scheduling.SlotRequest
	for i := range nodes {
		workflow, _ := kube.OwnerWorkflow(kube.Owner(&nodes[i]))
		if workflow != "" && !held[nodes[i].Name] {
			requests = append(requests, scheduling.SlotRequest{Request: scheduling.Request{Name: workflow, Node: nodes[i].Name}, Granted: true})
		}
	}
	return requests
}

// SeveralConfigs is the error of a cluster with several MaintenanceOperatorConfigs that count, listed as namespace/name.
type SeveralConfigs []string

// Error implements error.
func (s SeveralConfigs) Error() string {
	return fmt.Sprintf("%d MaintenanceOperatorConfigs found (%s): delete all but one, or name one with --maintenance-config of drydock-worker", len(s), strings.Join(s, ", "))
}

// MaintenanceConfig reads the budgets of a cluster: from the configuration of that namespace and name or, without a name, from the only one of the
// namespace. Those in other namespaces do not count, because tenants may write them. Without a configuration it returns the defaults. Errors:
// SeveralConfigs, or the read error.
func MaintenanceConfig(ctx context.Context, reader client.Reader, named types.NamespacedName) (maintenancev1.MaintenanceOperatorConfigSpec, error) {
	var configs maintenancev1.MaintenanceOperatorConfigList
	if err := listIfServed(ctx, reader, &configs); err != nil {
		return maintenancev1.MaintenanceOperatorConfigSpec{}, err
	}
	configs.Items = slices.DeleteFunc(configs.Items, func(config maintenancev1.MaintenanceOperatorConfig) bool { return !counts(&config, named) })
	switch len(configs.Items) {
	case 0:
		return maintenancev1.MaintenanceOperatorConfigSpec{}, nil
	case 1:
		return configs.Items[0].Spec, nil
	}
	var several SeveralConfigs
	for _, config := range configs.Items {
		several = append(several, config.Namespace+"/"+config.Name)
	}
	slices.Sort(several)
	return maintenancev1.MaintenanceOperatorConfigSpec{}, several
}

// counts reports whether a MaintenanceOperatorConfig is that name, or in that namespace.
func counts(config *maintenancev1.MaintenanceOperatorConfig, named types.NamespacedName) bool {
	return config.Namespace == named.Namespace && (named.Name == "" || config.Name == named.Name)
}

// IgnoredConfigs returns the MaintenanceOperatorConfigs that do not count, if none does, as namespace/name.
func IgnoredConfigs(ctx context.Context, reader client.Reader, named types.NamespacedName) ([]string, error) {
	var configs maintenancev1.MaintenanceOperatorConfigList
	if err := listIfServed(ctx, reader, &configs); err != nil {
		return nil, err
	}
	var ignored []string
	for i := range configs.Items {
		if counts(&configs.Items[i], named) {
			return nil, nil
		}
		ignored = append(ignored, configs.Items[i].Namespace+"/"+configs.Items[i].Name)
	}
	slices.Sort(ignored)
	return ignored, nil
}

func metadataList(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// listIfServed lists nothing when the cluster does not serve the kind.
func listIfServed(ctx context.Context, reader client.Reader, list client.ObjectList, options ...client.ListOption) error {
	err := reader.List(ctx, list, options...)
	if err != nil && !meta.IsNoMatchError(err) {
		kind := cmp.Or(list.GetObjectKind().GroupVersionKind().Kind, reflect.TypeOf(list).Elem().Name())
		return fmt.Errorf("list %s: %w", kind, err)
	}
	return nil
}

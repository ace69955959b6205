package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// CRDs is the kind of the objects that define other kinds.
var CRDs = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// The CRDs of PlacementBindings, of which those of old hubs have no overrides, and of Placements, which old hubs lack.
const (
	bindingsCRD   = "placementbindings.policy.open-cluster-management.io"
	placementsCRD = "placements.cluster.open-cluster-management.io"
)

// readEnforcement reads how the hub can enforce the policies of a rollout, and which cluster sets its Placements may select from.
func readEnforcement(ctx context.Context, reader client.Reader, cgu *ranv1.ClusterGroupUpgrade, inventory *rollout.Inventory) (err error) {
	if inventory.Hub, err = hubAPIs(ctx, reader); inventory.Hub == nil {
		return err
	}
	enforcement := rollout.PolicyEnforcement(cgu, inventory.Hub)
	for i := range inventory.Policies {
		if err = readSources(ctx, reader, cgu.Namespace, enforcement.By, &inventory.Policies[i]); err != nil {
			return err
		}
	}
	if enforcement.Placements == ranv1.KindPlacement {
		inventory.BoundSets, err = boundSets(ctx, reader, rollout.PlacementNamespaces(cgu, *enforcement, inventory.Policies))
	}
	return err
}

// configMaps is the kind of the objects that a copy of a policy needs, if its hub templates read them.
var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// readSources reads which ConfigMaps a copy of a policy needs and cannot get.
func readSources(ctx context.Context, reader client.Reader, namespace string, by ranv1.PolicyEnforcement, policy *rollout.Policy) error {
	for _, name := range policy.HubReads.Copies(namespace, policy.Namespace, by) {
		source := &metav1.PartialObjectMetadata{}
		source.SetGroupVersionKind(configMaps)
		switch err := reader.Get(ctx, client.ObjectKey{Namespace: policy.Namespace, Name: name}, source); {
		case apierrors.IsNotFound(err):
			policy.MissingSources = append(policy.MissingSources, fmt.Sprintf("ConfigMap %s/%s, which does not exist", policy.Namespace, name))
		case apierrors.IsForbidden(err):
			policy.MissingSources = append(policy.MissingSources, fmt.Sprintf(
				"ConfigMap %s/%s, which Drydock may not read: bind the ClusterRole drydock-copied-configmaps in the namespaces of the policies and of the rollout", policy.Namespace, name))
		case err != nil && !meta.IsNoMatchError(err):
			return fmt.Errorf("get ConfigMap %s/%s: %w", policy.Namespace, name, err)
		}
	}
	return nil
}

// hubAPIs reads what a hub can do; nil: unknown, because it is a file without the CRD of PlacementBindings.
func hubAPIs(ctx context.Context, reader client.Reader) (*rollout.HubAPIs, error) {
	bindings, err := readCRD(ctx, reader, bindingsCRD)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	placements, err := readCRD(ctx, reader, placementsCRD)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return &rollout.HubAPIs{Overrides: overrides(bindings), Placements: placements.GetName() != ""}, nil
}

// readCRD reads a CRD; it is empty if the cluster does not have it.
func readCRD(ctx context.Context, reader client.Reader, name string) (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(CRDs)
	err := client.IgnoreNotFound(reader.Get(ctx, client.ObjectKey{Name: name}, crd))
	if err != nil && !meta.IsNoMatchError(err) {
		err = fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
	}
	return crd, err
}

// overrides reports whether the PlacementBindings of a CRD can override the action of policies.
func overrides(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		if fields["name"] == policies.PlacementBindings.Version {
			_, found, _ := unstructured.NestedMap(fields, "schema", "openAPIV3Schema", "properties", "bindingOverrides", "properties", "remediationAction")
			return found
		}
	}
	return false
}

// boundSets reads which sets of clusters are bound to namespaces; nil where the hub does not serve the kind.
func boundSets(ctx context.Context, reader client.Reader, namespaces []string) (map[string][]policies.ClusterSet, error) {
	var sets unstructured.UnstructuredList
	sets.SetGroupVersionKind(policies.ClusterSets.GroupVersion().WithKind(policies.ClusterSets.Kind + "List"))
	if err := listIfServed(ctx, reader, &sets); err != nil {
		return nil, err
	}
	bound := map[string][]policies.ClusterSet{}
	for _, namespace := range namespaces {
		var bindings unstructured.UnstructuredList
		bindings.SetGroupVersionKind(policies.SetBindings.GroupVersion().WithKind(policies.SetBindings.Kind + "List"))
		err := reader.List(ctx, &bindings, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list ManagedClusterSetBindings of namespace %s: %w", namespace, err)
		}
		bound[namespace] = policies.BoundSets(bindings.Items, sets.Items)
	}
	return bound, nil
}

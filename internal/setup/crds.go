// Package setup prepares clusters for Drydock: CRDs, and the namespace of the hub in which Drydock saves what must outlive a workflow.
package setup

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/deploy/crds"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// annotationCreatedBy marks the CRDs that setup created and may replace. A CRD without it belongs to another owner, usually the original operator of
// the kind.
const (
	annotationCreatedBy = "drydock.dev/created-by"
	// FieldManager is setup as the manager of fields.
	FieldManager = "drydock-setup"
)

// Site is the use of a cluster.
type Site string

const (
	Hub   Site = "hub"
	Spoke Site = "spoke"
)

// ofHub reports whether a CRD belongs on the hub: its objects are about many clusters, such as rollouts, windows and status pages.
func ofHub(file string) bool {
	return file == "drydock.dev_maintenancewindows.yaml" || strings.HasPrefix(file, ranv1.GroupVersion.Group+"_") ||
		strings.HasPrefix(file, sreportalv1.GroupVersion.Group+"_")
}

// Definitions are the CRDs to install on a site: those about many clusters on the hub, all others on the spokes.
func Definitions(where Site) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var wanted []*unstructured.Unstructured
	for _, file := range files {
		if ofHub(file) != (where == Hub) {
			continue
		}
		text, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			return nil, err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, definition); err != nil {
			return nil, fmt.Errorf("shipped CRD %s: %w", file, err)
		}
		wanted = append(wanted, definition)
	}
	return wanted, nil
}

// CRDs reads and writes the CRDs of one cluster.
type CRDs struct{ dynamic.ResourceInterface }

func NewCRDs(config *rest.Config) (CRDs, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return CRDs{}, err
	}
	return CRDs{client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})}, nil
}

// State is the state of a CRD on a cluster.
type State string

const (
	Missing State = "missing"
	// Ours: setup created it. Foreign: another client did.
	Ours    State = "ours"
	Foreign State = "foreign"
)

// Inspect returns the state of a CRD, and the fields that a foreign one lacks: that cluster drops them from objects.
func (c CRDs) Inspect(ctx context.Context, wanted *unstructured.Unstructured) (State, []string, error) {
	found, err := c.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Missing, nil, nil
	case err != nil:
		return "", nil, err
	case found.GetAnnotations()[annotationCreatedBy] == FieldManager:
		return Ours, nil, nil
	}
	return Foreign, lacks(found, wanted), nil
}

// Install creates or updates a CRD that setup owns, and waits until the cluster serves it. Fields with another manager are a conflict, and
// are not overwritten.
func (c CRDs) Install(ctx context.Context, wanted *unstructured.Unstructured) error {
	wanted = wanted.DeepCopy()
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationCreatedBy] = FieldManager
	wanted.SetAnnotations(annotations)
	if _, err := c.Apply(ctx, wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: FieldManager}); err != nil {
		return err
	}
	return c.awaitEstablished(ctx, wanted.GetName())
}

func (c CRDs) awaitEstablished(ctx context.Context, name string) error {
	one := fields.OneTermEqualSelector("metadata.name", name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = one
			return c.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = one
			return c.Watch(ctx, options)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		definition, ok := event.Object.(*unstructured.Unstructured)
		return ok && Established(definition), nil
	})
	return err
}

func Established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == "Established" && fields["status"] == "True"
	})
}

// lacks names the fields of the wanted CRD's schema that the found one does not have.
func lacks(found, wanted *unstructured.Unstructured) []string {
	var missing []string
	for version, schema := range schemas(wanted) {
		has, served := schemas(found)[version]
		if !served {
			missing = append(missing, "version "+version)
			continue
		}
		missing = append(missing, missingFields("", has, schema)...)
	}
	slices.Sort(missing)
	return missing
}

// schemas are the structural schemas of a CRD by version.
func schemas(definition *unstructured.Unstructured) map[string]map[string]any {
	byVersion := map[string]map[string]any{}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		name, _, _ := unstructured.NestedString(version, "name")
		schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		byVersion[name] = schema
	}
	return byVersion
}

func missingFields(path string, has, wanted map[string]any) []string {
	if open, _, _ := unstructured.NestedBool(has, "x-kubernetes-preserve-unknown-fields"); open {
		return nil
	}
	if items, isList, _ := unstructured.NestedMap(wanted, "items"); isList {
		hasItems, _, _ := unstructured.NestedMap(has, "items")
		return missingFields(path+"[]", hasItems, items)
	}
	wantedFields, _, _ := unstructured.NestedMap(wanted, "properties")
	hasFields, _, _ := unstructured.NestedMap(has, "properties")
	var missing []string
	for name, schema := range wantedFields {
		field := strings.TrimPrefix(path+"."+name, ".")
		known, ok := hasFields[name].(map[string]any)
		if !ok {
			missing = append(missing, field)
			continue
		}
		if schema, ok := schema.(map[string]any); ok {
			missing = append(missing, missingFields(field, known, schema)...)
		}
	}
	return missing
}

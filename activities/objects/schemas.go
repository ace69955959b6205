package objects

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
)

// schemaAge is how long a CRD that lacks fields is remembered. After that, it may have been replaced by one that has them.
const schemaAge = 5 * time.Minute

// schemas are the CRDs that lack fields of Drydock's statuses, because the original operator installed them. It is safe for concurrent use.
type schemas struct {
	known sync.Map // of schemaKey to *remembered
}

type schemaKey struct {
	cluster string
	kind    schema.GroupVersionKind
}

type remembered struct {
	definition *apiextensionsv1.CustomResourceDefinition
	until      time.Time
}

// apply applies the status of an object, without the fields that the cluster's CRD lacks.
func (s *schemas) apply(ctx context.Context, cluster *kube.Cluster, applied *unstructured.Unstructured) error {
	key := schemaKey{cluster.Name, applied.GroupVersionKind()}
	if found, ok := s.known.Load(key); ok && time.Now().Before(found.(*remembered).until) {
		return applyPruned(ctx, cluster, found.(*remembered).definition, applied)
	}
	err := apply(ctx, cluster.Client, applied)
	if !lacksField(err) {
		return err
	}
	definition, err := readDefinition(ctx, cluster, key.kind)
	if err != nil {
		return err
	}
	s.known.Store(key, &remembered{definition, time.Now().Add(schemaAge)})
	return applyPruned(ctx, cluster, definition, applied)
}

// lacksField reports whether the API server refused to apply a field that the CRD does not have.
func lacksField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}

func applyPruned(ctx context.Context, cluster *kube.Cluster, definition *apiextensionsv1.CustomResourceDefinition, applied *unstructured.Unstructured) error {
	if err := manifest.Prune(definition, applied); err != nil {
		return err
	}
	return apply(ctx, cluster.Client, applied)
}

// readDefinition reads the CRD of a kind.
func readDefinition(ctx context.Context, cluster *kube.Cluster, kind schema.GroupVersionKind) (*apiextensionsv1.CustomResourceDefinition, error) {
	mapping, err := cluster.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := mapping.Resource.GroupResource().String()
	if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
		return nil, fmt.Errorf("read CRD %s: %w", name, err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	return definition, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, definition)
}

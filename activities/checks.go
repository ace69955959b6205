package activities

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// evaluate judges the checks and returns a result for each. Node is the node under maintenance, or "". Errors: InvalidSpec,
// ClusterUnreachable, and others that may pass.
func evaluate(objects objects, checks []drydockv1.HealthCheck, node string) ([]health.Result, error) {
	results := make([]health.Result, 0, len(checks))
	for _, check := range checks {
		result, err := health.Evaluate(check, node, objects)
		if err != nil {
			return nil, explainCheck(objects.cluster, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// checkKinds returns what must be watched to see the results of the checks change. A kind that the cluster does not serve, or does not
// let us watch, is watched once it does. Errors: InvalidSpec.
func checkKinds(cluster *kube.Cluster, checks []drydockv1.HealthCheck) ([]client.Object, error) {
	watches, err := health.Watches(checks...)
	if err != nil {
		return nil, explainCheck(cluster, err)
	}
	var kinds []client.Object
	for _, watch := range watches {
		object, err := newObject(cluster.Client.Scheme(), watch.Kind)
		if err != nil {
			return nil, explainCheck(cluster, err)
		}
		object.SetNamespace(watch.Namespace)
		object.SetName(watch.Name)
		kinds = append(kinds, kube.IfServed(object))
	}
	return kinds, nil
}

// explainCheck types an error of package health, which is wrapped in the name of the check.
func explainCheck(cluster *kube.Cluster, err error) error {
	if errors.Is(err, health.ErrInvalid) {
		return temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	if errType := temporal.ErrorType(err); errType != "" {
		return temporal.Error(errType, err.Error(), err)
	}
	return explain(cluster, "look", err)
}

// objects lets checks read from a cluster, as long as ctx lives.
type objects struct {
	ctx     context.Context
	cluster *kube.Cluster
	reader  client.Reader
}

var _ health.Objects = objects{}

// objectsOf reads from the cluster's Cache, or from its Client when what the cache holds is not good enough: a list without a resource
// version waits until it is current, some 90 ms on a busy API server, and so is evidence of now. What the Cache lists is not copied:
// checks only read.
func objectsOf(ctx context.Context, cluster *kube.Cluster, reader client.Reader) objects {
	return objects{ctx: ctx, cluster: cluster, reader: reader}
}

// List returns the objects of a kind.
func (o objects) List(kind schema.GroupVersionKind, namespace string) ([]health.Object, error) {
	list, err := newList(o.cluster.Client.Scheme(), kind)
	if err != nil {
		return nil, err
	}
	err = o.reader.List(o.ctx, list, client.UnsafeDisableDeepCopy, client.InNamespace(namespace))
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w: %w", health.ErrNotServed, err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: %w", health.ErrForbidden, err)
	case err != nil:
		return nil, err
	}
	var listed []health.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		listed = append(listed, item.(health.Object))
		return nil
	})
	return listed, err
}

// Node returns the node of that name, or nil when there is none. The Cache is not believed that: it may not have the node yet.
func (o objects) Node(name string) (*corev1.Node, error) {
	node, key := &corev1.Node{}, client.ObjectKey{Name: name}
	err := o.reader.Get(o.ctx, key, node)
	if apierrors.IsNotFound(err) {
		err = o.cluster.Client.Get(o.ctx, key, node)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, err
}

// PodsOn returns the pods that are bound to a node.
func (o objects) PodsOn(node string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := o.reader.List(o.ctx, &list, client.UnsafeDisableDeepCopy, client.MatchingFields{kube.IndexNodeName: node}); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// newObject returns an empty object of the kind: the Go type when there is one, since all of the house shares its informer; else an
// unstructured one.
func newObject(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.Object, error) {
	known, err := scheme.New(kind)
	if runtime.IsNotRegisteredError(err) {
		unknown := &unstructured.Unstructured{}
		unknown.SetGroupVersionKind(kind)
		return unknown, nil
	}
	if object, ok := known.(client.Object); ok {
		return object, nil
	}
	return nil, noObjects(kind)
}

// newList returns an empty list of objects of the kind, as newObject does.
func newList(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.ObjectList, error) {
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	known, err := scheme.New(listKind)
	if runtime.IsNotRegisteredError(err) {
		unknown := &unstructured.UnstructuredList{}
		unknown.SetGroupVersionKind(listKind)
		return unknown, nil
	}
	if list, ok := known.(client.ObjectList); ok {
		return list, nil
	}
	return nil, noObjects(kind)
}

// noObjects is about kinds such as v1 Status, which a server knows but does not keep.
func noObjects(kind schema.GroupVersionKind) error {
	return fmt.Errorf("%w: condition.kind: a cluster keeps no objects of kind %s", health.ErrInvalid, kind.Kind)
}

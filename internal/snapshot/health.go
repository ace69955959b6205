package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
)

// Evidence is the input of health checks, read from a cluster or a file until its context ends.
type Evidence struct {
	ctx    context.Context
	reader client.Reader
	scheme *runtime.Scheme
	fetch  Fetch
	// secrets reads Secrets, which no cache may hold in full.
	secrets client.Reader
	// at is the time of the evaluation; nil: now.
	at *time.Time
}

var _ health.Objects = Evidence{}

// Fetch sends an HTTP GET request, with limits of time and size.
type Fetch func(ctx context.Context, address string) (health.Answer, error)

// NewEvidence reads objects from the reader, those of the scheme as Go types, and sends requests with fetch.
func NewEvidence(ctx context.Context, reader client.Reader, scheme *runtime.Scheme, fetch Fetch) Evidence {
	return Evidence{ctx: ctx, reader: reader, scheme: scheme, fetch: fetch, secrets: reader}
}

// WithSecrets returns evidence that reads Secrets from another reader.
func (e Evidence) WithSecrets(reader client.Reader) Evidence {
	e.secrets = reader
	return e
}

// At returns evidence for an evaluation at that time.
func (e Evidence) At(now time.Time) Evidence {
	e.at = &now
	return e
}

// now is the time of the evaluation.
func (e Evidence) now() time.Time {
	if e.at == nil {
		return time.Now()
	}
	return *e.at
}

// Evidence reads the objects of a file, and sends no request.
func (f *File) Evidence(ctx context.Context) Evidence {
	return NewEvidence(ctx, f, f.scheme, func(context.Context, string) (health.Answer, error) {
		return health.Answer{}, fmt.Errorf("%w: a file of objects cannot tell", health.ErrNoRequest)
	})
}

// List returns the objects of a kind.
func (e Evidence) List(kind schema.GroupVersionKind, namespace string) ([]health.Object, error) {
	list, err := newList(e.scheme, kind)
	if err != nil {
		return nil, err
	}
	err = e.reader.List(e.ctx, list, client.UnsafeDisableDeepCopy, client.InNamespace(namespace))
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

// Node returns the node of that name, or nil when there is none.
func (e Evidence) Node(name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := e.reader.Get(e.ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, err
}

// PodsOn returns the pods that are bound to a node.
func (e Evidence) PodsOn(node string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := e.reader.List(e.ctx, &list, client.UnsafeDisableDeepCopy, client.MatchingFields{kube.IndexNodeName: node}); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// Fetch sends a request to an address. The address of the request has the user and password of the Secret, and is kept and shown nowhere.
func (e Evidence) Fetch(address string, secret *drydockv1.HealthCheckSecret) (health.Answer, error) {
	if _, file := e.reader.(*File); secret == nil || file { // a file sends no request
		return e.fetch(e.ctx, address)
	}
	authorized, err := url.Parse(address)
	if err != nil {
		return health.Answer{}, errors.New("is not an address")
	}
	if authorized.User, err = e.credentials(secret.Name, authorized.Host); err != nil {
		return health.Answer{}, fmt.Errorf("%w: %w", health.ErrNoCredentials, err)
	}
	return e.fetch(e.ctx, authorized.String())
}

// credentials returns the user and password in a Secret, if it may be sent to the host.
func (e Evidence) credentials(name, host string) (*url.Userinfo, error) {
	key := client.ObjectKey{Namespace: drydockv1.HealthCheckSecretNamespace, Name: name}
	var secret corev1.Secret
	if err := e.secrets.Get(e.ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	allowed := strings.FieldsFunc(secret.Annotations[drydockv1.AnnotationHosts], func(r rune) bool { return r == ',' || r == ' ' })
	if !slices.Contains(allowed, host) {
		return nil, fmt.Errorf("the annotation %s of Secret %s does not list %s", drydockv1.AnnotationHosts, key, host)
	}
	user, password := secret.Data[corev1.BasicAuthUsernameKey], secret.Data[corev1.BasicAuthPasswordKey]
	if len(user) == 0 || len(password) == 0 {
		return nil, fmt.Errorf("secret %s must have the keys username and password", key)
	}
	return url.UserPassword(string(user), string(password)), nil
}

// Harbor returns the health of a HarborCluster, by its services.
func (e Evidence) Harbor(namespace, name string) (*health.HarborHealth, error) {
	hc := &goharborv1.HarborCluster{}
	err := e.reader.Get(e.ctx, client.ObjectKey{Namespace: namespace, Name: name}, hc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	var observed harbor.Observed
	if err == nil {
		observed, err = HarborServices(e.ctx, e.reader, hc)
	}
	if err == nil {
		err = readSecretNames(e.ctx, e.secrets, namespace, observed.Secrets)
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w: %w", health.ErrNotServed, err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: %w", health.ErrForbidden, err)
	case err != nil:
		return nil, err
	}
	evaluation := harbor.Evaluate(hc, observed, e.now())
	return &health.HarborHealth{Status: evaluation.Status, Conditions: evaluation.Conditions, Pending: harbor.Pending(hc)}, nil
}

// NewObject returns an empty object of the kind: of its Go type, whose informer is shared, or an unstructured one.
func NewObject(scheme *runtime.Scheme, kind schema.GroupVersionKind) (client.Object, error) {
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

// newList returns an empty list of objects of the kind, as NewObject does.
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

// noObjects is the error of kinds such as v1 Status, which a server knows but does not store.
func noObjects(kind schema.GroupVersionKind) error {
	return fmt.Errorf("%w: condition.kind: a cluster keeps no objects of kind %s", health.ErrInvalid, kind.Kind)
}

package snapshot

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

// Harbor reads the objects that the health of a HarborCluster depends on. A kind that is not served is a Failure of its condition.
func Harbor(ctx context.Context, reader client.Reader, hc *goharborv1.HarborCluster) (harbor.Observed, error) {
	observed, err := HarborServices(ctx, reader, hc)
	if err != nil {
		return observed, err
	}
	return observed, readSecretNames(ctx, reader, hc.Namespace, observed.Secrets)
}

// readSecretNames reads only the names of Secrets.
func readSecretNames(ctx context.Context, reader client.Reader, namespace string, names map[string]bool) error {
	secrets, err := SecretMetadata(ctx, reader, namespace)
	for _, secret := range secrets {
		names[secret.Name] = true
	}
	return err
}

// SecretMetadata reads the metadata of the Secrets of a namespace.
func SecretMetadata(ctx context.Context, reader client.Reader, namespace string) ([]*metav1.PartialObjectMetadata, error) {
	list := metadataList(harbor.Secret)
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Secrets in namespace %s: %w", namespace, err)
	}
	secrets := make([]*metav1.PartialObjectMetadata, 0, len(list.Items))
	for i := range list.Items {
		secrets = append(secrets, &list.Items[i])
	}
	return secrets, nil
}

// HarborServices is Harbor without the Secrets.
func HarborServices(ctx context.Context, reader client.Reader, hc *goharborv1.HarborCluster) (harbor.Observed, error) {
	r := harborReader{ctx: ctx, reader: reader, hc: hc, observed: harbor.Observed{
		Secrets: map[string]bool{}, Failures: map[goharborv1.ConditionType]harbor.Failure{},
	}}
	wanted := harbor.ObjectsOf(hc)
	r.observed.Postgresql = r.find(goharborv1.DatabaseReady, harbor.Postgresql, wanted.Postgresql)
	r.observed.RedisFailover = r.find(goharborv1.CacheReady, harbor.RedisFailover, wanted.RedisFailover)
	if redis := r.observed.RedisFailover; redis != nil {
		r.observed.RedisServers = typedObject[appsv1.StatefulSet](&r, goharborv1.CacheReady, harbor.StatefulSet, "rfr-"+redis.GetName())
		r.observed.Sentinels = typedObject[appsv1.Deployment](&r, goharborv1.CacheReady, harbor.Deployment, "rfs-"+redis.GetName())
	}
	r.observed.Tenant = r.find(goharborv1.StorageReady, harbor.Tenant, wanted.Tenant)
	r.observed.BucketJob = typedObject[batchv1.Job](&r, goharborv1.StorageReady, harbor.Job, wanted.BucketJob)
	r.observed.Harbor = r.find(goharborv1.ServiceReady, harbor.Harbor, wanted.Harbor)
	return r.observed, r.err
}

// harborReader reads objects until the first error.
type harborReader struct {
	ctx      context.Context
	reader   client.Reader
	hc       *goharborv1.HarborCluster
	observed harbor.Observed
	err      error
}

// find returns the object of that name, or the first one with the label or owner reference of the HarborCluster; nil if there is none.
func (r *harborReader) find(condition goharborv1.ConditionType, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if r.read(condition, kind, name, object) {
		return object
	}
	if name == "" || r.err != nil || r.observed.Failures[condition].Reason != "" {
		return nil
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.reader.List(r.ctx, &list, client.InNamespace(r.hc.Namespace)); err != nil {
		r.err = fmt.Errorf("list %s in namespace %s: %w", kind.Kind, r.hc.Namespace, err)
		return nil
	}
	var first *unstructured.Unstructured
	for i := range list.Items {
		if found := &list.Items[i]; harbor.Belongs(found, r.hc.Name) && (first == nil || found.GetName() < first.GetName()) {
			first = found
		}
	}
	return first
}

// read reads the object of that name, and reports whether there is one.
func (r *harborReader) read(condition goharborv1.ConditionType, kind schema.GroupVersionKind, name string, object client.Object) bool {
	if name == "" || r.err != nil {
		return false
	}
	err := r.reader.Get(r.ctx, client.ObjectKey{Namespace: r.hc.Namespace, Name: name}, object)
	switch {
	case err == nil:
		return true
	case meta.IsNoMatchError(err):
		r.observed.Failures[condition] = harbor.Failure{
			Reason: harbor.ReasonCRDMissing, Message: fmt.Sprintf("the cluster does not serve %s of %s: install its operator", kind.Kind, kind.GroupVersion()),
		}
	case !apierrors.IsNotFound(err):
		r.err = fmt.Errorf("get %s %s/%s: %w", kind.Kind, r.hc.Namespace, name, err)
	}
	return false
}

// typedObject returns the object of that name as its Go type, whose watch is shared; nil if there is none.
func typedObject[T any, P interface {
	*T
	client.Object
}](r *harborReader, condition goharborv1.ConditionType, kind schema.GroupVersionKind, name string) *T {
	object := P(new(T))
	if !r.read(condition, kind, name, object) {
		return nil
	}
	return (*T)(object)
}

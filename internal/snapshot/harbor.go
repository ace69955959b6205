package snapshot

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

// Harbor reads the objects that a HarborCluster's services are judged by. A kind that the cluster does not serve is a Failure of its
// condition.
func Harbor(ctx context.Context, reader client.Reader, hc *goharborv1.HarborCluster) (harbor.Observed, error) {
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
	r.readSecrets()
	return r.observed, r.err
}

// harborReader reads until something goes wrong.
type harborReader struct {
	ctx      context.Context
	reader   client.Reader
	hc       *goharborv1.HarborCluster
	observed harbor.Observed
	err      error
}

// find returns the object of that name, or else the one that belongs to the HarborCluster by its label or owner; nil when there is none, or
// when the HarborCluster has no such object.
func (r *harborReader) find(condition goharborv1.ConditionType, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	if name == "" || r.err != nil {
		return nil
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := r.reader.List(r.ctx, &list, client.InNamespace(r.hc.Namespace))
	if meta.IsNoMatchError(err) {
		r.observed.Failures[condition] = harbor.Failure{
			Reason: harbor.ReasonCRDMissing, Message: fmt.Sprintf("the cluster does not serve %s of %s: install its operator", kind.Kind, kind.GroupVersion()),
		}
		return nil
	}
	if err != nil {
		r.err = fmt.Errorf("list %s in namespace %s: %w", kind.Kind, r.hc.Namespace, err)
		return nil
	}
	var belonging *unstructured.Unstructured
	for i := range list.Items {
		if list.Items[i].GetName() == name {
			return &list.Items[i]
		}
		if r.belongs(&list.Items[i]) {
			belonging = &list.Items[i]
		}
	}
	return belonging
}

func (r *harborReader) belongs(object *unstructured.Unstructured) bool {
	if object.GetLabels()[harbor.LabelCluster] == r.hc.Name {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == "HarborCluster" && strings.HasPrefix(owner.APIVersion, goharborv1.GroupVersion.Group+"/") && owner.Name == r.hc.Name
}

// typedObject returns the object that find finds in its Go type.
func typedObject[T any](r *harborReader, condition goharborv1.ConditionType, kind schema.GroupVersionKind, name string) *T {
	found := r.find(condition, kind, name)
	if found == nil {
		return nil
	}
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		r.err = fmt.Errorf("read %s %s/%s: %w", kind.Kind, r.hc.Namespace, found.GetName(), err)
		return nil
	}
	return object
}

// readSecrets reads no more than their names.
func (r *harborReader) readSecrets() {
	if r.err != nil {
		return
	}
	secrets := metadataList(harbor.Secret)
	if err := r.reader.List(r.ctx, secrets, client.InNamespace(r.hc.Namespace)); err != nil {
		r.err = fmt.Errorf("list Secrets in namespace %s: %w", r.hc.Namespace, err)
		return
	}
	for _, secret := range secrets.Items {
		r.observed.Secrets[secret.Name] = true
	}
}

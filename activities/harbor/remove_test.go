package harbor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
)

// end deletes the HarborCluster like its workflow. foreign are the remaining objects, by part.
func (r *registry) end(foreign map[harbor.Part]string) {
	r.t.Helper()
	require.NoError(r.t, r.harbor().DeleteHarborCluster(r.t.Context(), r.ref))
	deleting := false
	for range 100 { // another object may be seen before
		if deleting = r.await().Deleting; deleting {
			break
		}
	}
	require.True(r.t, deleting)
	for _, part := range []harbor.Part{harbor.PartHarbor, harbor.PartDatabase, harbor.PartCache, harbor.PartStorage} {
		for range 2 { // a repeated removal changes nothing
			result, err := r.harbor().RemoveHarborPart(r.t.Context(), RemovePartInput{Ref: r.ref, Part: part})
			require.NoError(r.t, err)
			require.Equal(r.t, foreign[part], result.Foreign)
		}
	}
	hc, err := readHarborCluster(r.t.Context(), r.cluster.Client, r.ref)
	require.NoError(r.t, err)
	require.Equal(r.t, goharborv1.StatusUnhealthy, hc.Status.Status)
	require.Equal(r.t, harbor.ReasonRemoving, harbor.ConditionOf(hc.Status, goharborv1.ServiceReady).Reason, "Harbor is removed and no longer evaluated")
	require.NoError(r.t, r.harbor().RemoveHarborFinalizer(r.t.Context(), RemoveFinalizerInput{Ref: r.ref}))
	require.True(r.t, r.await().Deleting, "the object still has its finalizer")
	require.NoError(r.t, r.harbor().RemoveHarborFinalizer(r.t.Context(), RemoveFinalizerInput{Ref: r.ref, Removed: true}))
	require.True(r.t, r.await().Gone)
	require.Nil(r.t, r.object(harbor.Harbor, "main-harbor"))
	require.Nil(r.t, r.object(harbor.Secret, "main-database-password"))
	require.Nil(r.t, r.object(harbor.Job, "minio-main"))
	require.Nil(r.t, r.object(harbor.Ingress, "minio-main"))
}

// claims returns how many claims there are that are not being deleted.
func (r *registry) claims() int {
	r.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	require.NoError(r.t, r.cluster.Client.List(r.t.Context(), &claims, client.InNamespace(r.ref.Namespace)))
	left := 0
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp == nil {
			left++
		}
	}
	return left
}

// own makes the HarborCluster the controller of an object, as the Harbor operator does.
func (r *registry) own(kind schema.GroupVersionKind, name string) {
	r.t.Helper()
	r.patch(r.object(kind, name), fmt.Sprintf(`{"metadata":{"labels":{"goharbor.io/harbor-cluster":null},"ownerReferences":[`+
		`{"apiVersion":"goharbor.io/v1beta1","kind":"HarborCluster","name":"main","uid":%q,"controller":true,"blockOwnerDeletion":true},`+
		`{"apiVersion":"v1","kind":"ConfigMap","name":"theirs","uid":"1"}]}}`, r.ref.UID))
}

func harborRetains(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	data := map[schema.GroupVersionKind]string{harbor.Postgresql: r.postgres(), harbor.RedisFailover: "main-redis", harbor.Tenant: "minio-main"}
	requireDisowned := func(kind schema.GroupVersionKind, name string) {
		object := r.object(kind, name)
		require.Equal(t, "main", object.GetLabels()[harbor.LabelCluster], "%s still has the label", kind)
		require.Len(t, object.GetOwnerReferences(), 1, "%s would be deleted with the HarborCluster", kind)
		require.Equal(t, "ConfigMap", object.GetOwnerReferences()[0].Kind, "foreign owners stay")
	}
	for kind, name := range data {
		r.own(kind, name)
	}
	r.own(harbor.Secret, "minio-main-creds")
	for applied := map[harbor.Part]bool{}; !applied[harbor.PartDatabase] || !applied[harbor.PartCache] || !applied[harbor.PartStorage]; {
		for _, due := range r.await().Parts {
			applied[due.Part] = true
		}
	}
	for kind, name := range data {
		requireDisowned(kind, name)
		r.own(kind, name)
	}
	requireDisowned(harbor.Secret, "minio-main-creds")
	r.own(harbor.Secret, "minio-main-creds")

	// Without its finalizer, its owned objects would be deleted with it.
	require.NoError(t, r.harbor().RemoveHarborFinalizer(t.Context(), RemoveFinalizerInput{Ref: r.ref}))
	r.end(nil)
	for kind, name := range data {
		requireDisowned(kind, name)
	}
	requireDisowned(harbor.Secret, "minio-main-creds")
	require.NotNil(t, r.object(harbor.Postgresql, r.postgres()))
	require.NotNil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.NotNil(t, r.object(harbor.Tenant, "minio-main"))
	require.NotNil(t, r.object(harbor.Secret, "minio-main-creds"))
	require.NotNil(t, r.object(harbor.Secret, "minio-main-configuration"))
	require.Equal(t, 3, r.claims())
}

func harborDeletes(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	r.untilIs(goharborv1.StatusHealthy)
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: "theirs"}}
	foreign.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	foreign.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	require.NoError(t, r.cluster.Client.Create(t.Context(), foreign))
	r.end(nil)
	require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	require.Nil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.Nil(t, r.object(harbor.Tenant, "minio-main"))
	require.Nil(t, r.object(harbor.Secret, "minio-main-creds"))
	require.Nil(t, r.object(harbor.Secret, "minio-main-configuration"))
	require.Nil(t, r.object(harbor.Secret, "main-redis"))
	require.Equal(t, 1, r.claims(), "the foreign claim")
}

func harborKeepsForeignObjects(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	r.untilIs(goharborv1.StatusHealthy)
	for _, theirs := range []*unstructured.Unstructured{r.object(harbor.RedisFailover, "main-redis"), r.object(harbor.Tenant, "minio-main")} {
		r.patch(theirs, `{"metadata":{"labels":{"goharbor.io/harbor-cluster":"another"}}}`)
	}
	require.NoError(t, r.cluster.Client.Delete(t.Context(), r.object(harbor.Postgresql, r.postgres())))
	r.end(map[harbor.Part]string{
		harbor.PartCache: "RedisFailover " + r.ref.Namespace + "/main-redis", harbor.PartStorage: "Tenant " + r.ref.Namespace + "/minio-main",
	})
	require.NotNil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.NotNil(t, r.object(harbor.Tenant, "minio-main"))
	require.NotNil(t, r.object(harbor.Secret, "minio-main-creds"), "it may be in use")
	require.Equal(t, 2, r.claims(), "the claims of the deleted database are removed")
}

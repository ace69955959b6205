package chaos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/harbor"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

// harborDeletion is the deletion of a HarborCluster during which the worker crashes.
type harborDeletion struct {
	harborCrash
	policy goharborv1.DeletionPolicy
	// held, set instead of a request, is an object with a foreign finalizer, which blocks its deletion.
	held *harbor.Object
	// data has the UIDs of the objects with data before the deletion, by kind.
	data map[string]types.UID
}

func (d *harborDeletion) String() string {
	if d.held != nil {
		return fmt.Sprintf("%s, by policy %s, while %s is held", d.namespace, d.policy, d.held.Kind.Kind)
	}
	return d.harborCrash.String() + ", by policy " + string(d.policy)
}

// harborDeletions returns a deletion for each request, without and with its execution, and deletions that wait for a finalizer.
func harborDeletions(s *scenarioRun, spoke *devstack.Cluster) []*harborDeletion {
	always := []faultproxy.Match{
		requestTo("delete", "harbors", "main-harbor"), requestTo("delete", "secrets", "main-database-password"), requestTo("delete", "jobs", "minio-main"),
		requestTo("delete", "ingresses", "minio-main"), requestTo("patch", "harborclusters", "main"),
	}
	data := []faultproxy.Match{
		requestTo("delete", "postgresqls", "*"), requestTo("delete", "redisfailovers", "main-redis"), requestTo("delete", "secrets", "main-redis"),
		requestTo("delete", "tenants", "minio-main"), requestTo("delete", "secrets", "minio-main-creds"), requestTo("delete", "secrets", "minio-main-configuration"),
		requestTo("deletecollection", "persistentvolumeclaims", ""),
	}
	var all []*harborDeletion
	for _, answered := range []bool{false, true} {
		for _, request := range always {
			all = append(all, &harborDeletion{policy: goharborv1.RetainData, harborCrash: harborCrash{request: request, answered: answered}})
		}
		for _, request := range data {
			all = append(all, &harborDeletion{policy: goharborv1.DeleteData, harborCrash: harborCrash{request: request, answered: answered}})
		}
	}
	for _, held := range []harbor.Object{{Kind: harbor.Harbor, Name: "main-harbor"}, {Kind: harbor.Tenant, Name: "minio-main"}} {
		all = append(all, &harborDeletion{policy: goharborv1.DeleteData, held: &held})
	}
	for i, d := range all {
		d.locate(s, spoke, i)
	}
	return all
}

// harborDeletionCrashes: each object is deleted exactly once, except retained data.
func harborDeletionCrashes(t *testing.T, s *scenarioRun) {
	spoke, api := s.harborSpoke(t)
	all := harborDeletions(s, spoke)
	s.bringUp(t, spoke, all)
	var targets, stopped []*harborCrash
	for _, d := range all {
		d.begin(t, s, spoke, api)
		targets = append(targets, &d.harborCrash)
		if d.held == nil {
			stopped = append(stopped, &d.harborCrash)
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(all), func(d *harborDeletion) bool { return d.held == nil })
	for _, d := range waiting {
		awaitStatus(t, s, d.workflow, "waits for "+d.held.Name, func(status harborworkflow.Status) bool {
			return status.Wait != nil && len(status.Wait.Blockers) > 0
		})
	}
	s.crashAt(t, spoke, stopped)
	for _, d := range waiting {
		d.setFinalizers(t, api, "null")
	}
	s.requireEnds(t)
	events := devstacktest.AuditEvents(t, spoke)
	for _, d := range all {
		d.requireResult(t, api, events)
	}
	s.removeNamespaces(t, spoke, api, targets)
}

// bringUp creates the Harbors and waits until they are healthy.
func (s *scenarioRun) bringUp(t *testing.T, spoke *devstack.Cluster, all []*harborDeletion) {
	t.Helper()
	dir := t.TempDir()
	var group errgroup.Group
	group.SetLimit(4)
	for _, d := range all {
		s.started(&work{name: d.namespace, workflow: d.workflow, end: ended})
		group.Go(func() error {
			if err := s.AddHarborNamespace(t.Context(), spoke, d.namespace); err != nil {
				return err
			}
			file := filepath.Join(dir, d.namespace+".yaml")
			if err := os.WriteFile(file, fleet.HarborCluster{Namespace: d.namespace, Redirected: true, DeletionPolicy: d.policy}.Manifest(), 0o600); err != nil {
				return err
			}
			if err := s.Run(t.Context(), io.Discard, "harbor", "apply", "-f", file, "--cluster", spoke.Name); err != nil {
				return err
			}
			return d.awaitHealthy(t.Context(), s, spoke)
		})
	}
	require.NoError(t, group.Wait())
}

// begin deletes the HarborCluster as a user does, and blocks the removal at its request or held object.
func (d *harborDeletion) begin(t *testing.T, s *scenarioRun, spoke *devstack.Cluster, api client.Client) {
	t.Helper()
	d.data = d.dataLeft(t, api)
	require.Len(t, d.data, 3)
	if d.held != nil {
		d.setFinalizers(t, api, `["example.org/foreign"]`)
	} else {
		d.stop(s, spoke)
	}
	require.NoError(t, api.Delete(t.Context(), &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "main"}}))
}

// setFinalizers sets the finalizers of the held object.
func (d *harborDeletion) setFinalizers(t *testing.T, api client.Client, finalizers string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(d.held.Kind)
	object.SetNamespace(d.namespace)
	object.SetName(d.held.Name)
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, finalizers)
	require.NoError(t, api.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

// dataLeft returns the UIDs of the remaining objects with data, by kind.
func (d *harborDeletion) dataLeft(t *testing.T, api client.Client) map[string]types.UID {
	t.Helper()
	left := map[string]types.UID{}
	for _, kind := range []schema.GroupVersionKind{harbor.Postgresql, harbor.RedisFailover, harbor.Tenant} {
		for _, object := range d.list(t, api, kind) {
			left[kind.Kind] = object.UID
		}
	}
	return left
}

// list returns the objects of a kind that are not being deleted.
func (d *harborDeletion) list(t *testing.T, api client.Client, kind schema.GroupVersionKind) []metav1.PartialObjectMetadata {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	require.NoError(t, api.List(t.Context(), list, client.InNamespace(d.namespace)))
	return slices.DeleteFunc(list.Items, func(object metav1.PartialObjectMetadata) bool { return object.DeletionTimestamp != nil })
}

// requireResult compares the remaining and the deleted objects with the deletion policy.
func (d *harborDeletion) requireResult(t *testing.T, api client.Client, events []auditv1.Event) {
	t.Helper()
	deleted := map[string]int{
		"harbors/main-harbor": 1, "secrets/main-database-password": 1, "secrets/minio-main": 1, "jobs/minio-main": 1, "ingresses/minio-main": 1,
	}
	claims := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	if d.policy == goharborv1.DeleteData {
		for _, object := range []string{"postgresqls/postgresql-" + d.namespace + "-main", "redisfailovers/main-redis", "tenants/minio-main", "secrets/main-redis", "secrets/minio-main-creds", "secrets/minio-main-configuration"} {
			deleted[object] = 1
		}
		deleted["persistentvolumeclaims/"] = 3 // one request for the claims of each service
		require.Empty(t, d.dataLeft(t, api), "%s", d)
		require.Empty(t, d.list(t, api, claims), "%s", d)
	} else {
		require.Equal(t, d.data, d.dataLeft(t, api), "%s", d)
		require.Len(t, d.list(t, api, claims), 3, "%s", d)
	}
	for _, kind := range []schema.GroupVersionKind{harbor.Harbor, harbor.Job, harbor.Ingress, goharborv1.GroupVersion.WithKind("HarborCluster")} {
		require.Empty(t, d.list(t, api, kind), "%s: %s", d, kind.Kind)
	}
	require.Equal(t, deleted, writesOf(events, d.namespace, func(e auditv1.Event) bool { return e.Verb == "delete" || e.Verb == "deletecollection" }), "%s", d)
}

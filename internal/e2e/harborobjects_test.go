package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// harborUser applies a HarborCluster with the API of Kubernetes alone.
type harborUser struct {
	*harborSpoke
	t         *testing.T
	namespace string
}

// applyHarbor creates the HarborCluster of the documentation.
func applyHarbor(t *testing.T, spoke *harborSpoke, namespace string) *harborUser {
	t.Helper()
	require.NoError(t, theFleet.AddHarborNamespace(t.Context(), spoke.Cluster, namespace))
	text, err := os.ReadFile(exampleHarbor(t, namespace))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, &object.Object))
	require.NoError(t, spoke.api.Create(t.Context(), object))
	return &harborUser{spoke, t, namespace}
}

func (u *harborUser) object(apiVersion, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(u.namespace)
	object.SetName(name)
	return object
}

func (u *harborUser) main() *unstructured.Unstructured {
	return u.object("goharbor.io/v1beta1", "HarborCluster", "main")
}

func (u *harborUser) patch(patch string) error {
	return u.api.Patch(u.t.Context(), u.main(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// eventually waits until an object satisfies a condition; nil: it does not exist.
func (u *harborUser) eventually(object *unstructured.Unstructured, what string, reached func(*unstructured.Unstructured) bool) {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		err := u.api.Get(u.t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return reached(nil)
		}
		return err == nil && reached(object)
	}, stateLimit, 200*time.Millisecond, what)
}

func isGone(object *unstructured.Unstructured) bool { return object == nil }

func TestAnAppliedHarborClusterBecomesHealthyAndIsRemovedWhenDeleted(t *testing.T) {
	reserve(t, "spoke-2")
	u := applyHarbor(t, newHarborSpoke(t, theFleet.Spokes[1]), "harbor-applied")
	u.becomes(t, u.namespace, "healthy", healthyHarbor)
	u.eventually(u.main(), "the status does not name the worker", func(main *unstructured.Unstructured) bool {
		writer, _, _ := unstructured.NestedStringMap(main.Object, "status", "operator")
		version := writer["controllerVersion"]
		return version != "" && version == strings.TrimSpace(succeeds(t, "version", "-o", "name"))
	})

	for patch, refusal := range map[string]string{
		`{"spec":{"version":"2.4.9"}}`:                                             "spec.version",
		`{"spec":{"cache":{"kind":"Redis","spec":{"redis":{"host":"redis"}}}}}`:    "spec.cache.kind",
		`{"spec":{"storage":{"spec":{"redirect":{"enable":true,"expose":null}}}}}`: "spec.redirect.expose must have the ingress",
	} {
		err := u.patch(patch)
		require.True(t, apierrors.IsInvalid(err), "%s: %v", patch, err)
		require.Contains(t, err.Error(), refusal)
	}
	require.NoError(t, u.patch(`{"spec":{"version":"2.10.0"}}`))
	versionIs := func(version string) func(*unstructured.Unstructured) bool {
		return func(harbor *unstructured.Unstructured) bool {
			applied, _, _ := unstructured.NestedString(harbor.Object, "spec", "version")
			return applied == version
		}
	}
	harbor := u.object("goharbor.io/v1beta1", "Harbor", "main-harbor")
	u.eventually(harbor, "the new version is not applied", versionIs("2.10.0"))

	succeeds(t, "harbor", "cancel", "main", "-n", u.namespace, "--cluster", u.Name)
	u.eventually(u.main(), "the HarborCluster is still managed", func(main *unstructured.Unstructured) bool {
		return len(main.GetFinalizers()) == 0 && main.GetAnnotations()["drydock.dev/unmanaged"] == "2"
	})
	require.NoError(t, u.patch(`{"spec":{"version":"2.11.0"}}`))
	u.eventually(harbor, "an edit does not resume the management", versionIs("2.11.0"))
	u.eventually(u.main(), "the HarborCluster has no finalizer", func(main *unstructured.Unstructured) bool {
		return len(main.GetFinalizers()) == 1 && main.GetAnnotations()["drydock.dev/unmanaged"] == ""
	})
	u.becomes(t, u.namespace, "healthy", healthyHarbor)

	require.NoError(t, u.patch(`{"spec":{"deletionPolicy":"Delete"}}`))
	require.NoError(t, u.api.Delete(t.Context(), u.main()))
	u.eventually(u.main(), "the HarborCluster is not released", isGone)
	u.eventually(harbor, "Harbor is not deleted", isGone)
}

// HarborClusters are created, edited and deleted while no worker runs.
func TestHarborClustersChangeWhileNoWorkerRuns(t *testing.T) {
	alone(t)
	spoke := newHarborSpoke(t, theFleet.Spokes[0])
	deleted := applyHarbor(t, spoke, "harbor-deleted")
	spoke.becomes(t, deleted.namespace, "healthy", healthyHarbor)
	server := temporalClient(t)
	require.NoError(t, theFleet.Worker.Kill())
	created := applyHarbor(t, spoke, "harbor-created")
	require.NoError(t, server.TerminateWorkflow(t.Context(), "harbor/"+spoke.Name+"/"+deleted.namespace+"/main", "", "nothing cleans up"))
	require.NoError(t, deleted.api.Delete(t.Context(), deleted.main()))
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	deleted.eventually(deleted.main(), "the deleted HarborCluster is not released", isGone)
	deleted.eventually(deleted.object("goharbor.io/v1beta1", "Harbor", "main-harbor"), "Harbor is not deleted", isGone)
	spoke.becomes(t, created.namespace, "healthy", healthyHarbor)
	require.NoError(t, created.api.Delete(t.Context(), created.main()))
	created.eventually(created.main(), "the HarborCluster is not released", isGone)
}

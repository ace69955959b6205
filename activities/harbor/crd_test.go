package harbor

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/temporal"
)

// The cluster first has the CRD of the Harbor operator, without Drydock's fields, and then one with an unknown required field.
func TestAHarborClusterCRDOfAnotherOperatorIsReported(t *testing.T) {
	definitions, err := dynamic.NewForConfig(activitytest.Stack.Cluster(activitytest.SpokeName).Config)
	require.NoError(t, err)
	crds := definitions.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "harborclusters.goharbor.io"
	shipped, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	ours, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": shipped.Object["spec"]}})
	require.NoError(t, err)
	change := func(patch string) {
		_, err := crds.Patch(context.WithoutCancel(t.Context()), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	t.Cleanup(func() { change(string(ours)) })

	h := &Activities{Clusters: activitytest.Admin}
	in := ApplyClusterInput{Cluster: activitytest.SpokeName, Object: *harborCluster(t, devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.SpokeName)))}
	applied, err := h.ApplyHarborCluster(t.Context(), in)
	require.NoError(t, err)
	said := goharborv1.HarborClusterStatus{Status: goharborv1.StatusHealthy, ObservedGeneration: applied.Generation}
	apply := func() error { _, err := h.ApplyHarborCluster(t.Context(), in); return err }
	write := func() error { // a change each time, because an unchanged object is not validated
		said.Status = map[goharborv1.ClusterStatus]goharborv1.ClusterStatus{
			goharborv1.StatusHealthy: goharborv1.StatusUnhealthy, goharborv1.StatusUnhealthy: goharborv1.StatusHealthy,
		}[said.Status]
		return h.WriteHarborStatus(t.Context(), WriteStatusInput{Ref: applied.Ref, Status: said})
	}
	require.NoError(t, write())
	// A server applies a changed CRD with a delay.
	isRefused := func(attempt func() error, because ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			err := attempt()
			require.Equal(c, temporal.ErrInvalidSpec, temporal.ErrorType(err))
			for _, text := range because {
				require.Contains(c, temporal.ErrorMessage(err), text)
			}
		}, activitytest.EventTimeout, 50*time.Millisecond)
	}
	isDone := func(attempt func() error) {
		t.Helper()
		require.Eventually(t, func() bool { return attempt() == nil }, activitytest.EventTimeout, 50*time.Millisecond)
	}
	const isForeign, advice = ": its CRD of HarborCluster is not Drydock's: ", ": apply deploy/crds/goharbor.io_harborclusters.yaml over it; do not delete it"

	change(`[
		{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/deletionPolicy"},
		{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineSeconds"},
		{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/observedGeneration"}]`)
	isRefused(apply, "cluster spoke: apply "+applied.String()+isForeign, ": field not declared in schema"+advice)
	isRefused(write, "cluster spoke: write the status of "+applied.String()+isForeign+"it does not keep all of it"+advice)

	change(`[
		{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/sealed","value":{"type":"integer"}},
		{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/required","value":["sealed"]}]`)
	isRefused(write, isForeign, "status.sealed: Required value", advice)

	change(string(ours))
	isDone(apply)
	isDone(write)
}

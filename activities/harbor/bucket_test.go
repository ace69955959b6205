package harbor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
)

func harborRecreatesItsBucket(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	job := func() *unstructured.Unstructured { return r.object(harbor.Job, "minio-main") }
	untilReplaced := func(before types.UID) *unstructured.Unstructured {
		t.Helper()
		for range 100 {
			if now := job(); now != nil && now.GetUID() != before {
				return now
			}
			r.await()
		}
		require.Fail(t, "the Job was not replaced")
		return nil
	}
	// A Job whose image cannot be pulled neither completes nor fails.
	simulated.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{After: -1})
	stuck := untilReplaced("")
	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"minIO":{"mc":{"image":"mirror.example/mc:1"}}}}}}`)
	mirrored := untilReplaced(stuck.GetUID())
	spec, _, _ := unstructured.NestedSlice(mirrored.Object, "spec", "template", "spec", "containers")
	require.Equal(t, "mirror.example/mc:1", spec[0].(map[string]any)["image"])
	simulated.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{})
	r.untilIs(goharborv1.StatusHealthy)
	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"minIO":{"mc":{"image":"mirror.example/mc:2"}}}}}}`)
	r.until(func(s goharborv1.HarborClusterStatus) bool {
		return s.Status == goharborv1.StatusHealthy && s.ObservedGeneration == 3
	})
	require.Equal(t, mirrored.GetUID(), job().GetUID(), "the Job has created the bucket")

	// The times of objects are whole seconds.
	require.Eventually(t, func() bool { return time.Now().Unix() > mirrored.GetCreationTimestamp().Unix() }, activitytest.EventTimeout, 20*time.Millisecond)
	tenant := r.object(harbor.Tenant, "minio-main")
	require.NoError(t, r.cluster.Client.Delete(t.Context(), tenant))
	untilReplaced(mirrored.GetUID())
	require.NotEqual(t, tenant.GetUID(), r.object(harbor.Tenant, "minio-main").GetUID())
	r.untilIs(goharborv1.StatusHealthy)
}

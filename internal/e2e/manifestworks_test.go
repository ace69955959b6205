package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// managedCluster is the manifest of a ManagedCluster without a real cluster.
func managedCluster(name string) string {
	return fmt.Sprintf("{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: %s, labels: {name: %s, ring: edge}}}", name, name)
}

// agents simulate the agents of clusters. They apply the ManifestWorks in their namespaces immediately, except that of the offline cluster.
type agents struct {
	mu sync.Mutex
	// works are the created ManifestWorks in order, as <cluster>/<template>.
	works []string
}

// applied is the status of a ManifestWork that is applied, with the feedback that the firmware template expects.
const applied = `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"},{"type":"Available","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}],"resourceStatus":{"manifests":[{
"resourceMeta":{"ordinal":0},"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"},{"type":"Available","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"},{"type":"StatusFeedbackSynced","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}],
"statusFeedback":{"values":[{"name":"isUpgradeCompleted","fieldValue":{"type":"String","string":"True"}}]}}]}}}`

func simulateAgents(t *testing.T, offline string) *agents {
	t.Helper()
	hub, err := client.NewWithWatch(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	none := worksOnHub()
	require.NoError(t, hub.List(t.Context(), none))
	require.Empty(t, none.Items)
	works := changesSince(t.Context(), t, none.GetResourceVersion(), func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return hub.Watch(ctx, worksOnHub(), &client.ListOptions{Raw: &options})
	})
	simulated := &agents{}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range works {
			work, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type != watch.Added {
				continue
			}
			simulated.mu.Lock()
			template := strings.Split(strings.TrimPrefix(work.GetName(), "works-"), "-")[0]
			simulated.works = append(simulated.works, work.GetNamespace()+"/"+template)
			simulated.mu.Unlock()
			if work.GetNamespace() != offline {
				assert.NoError(t, client.IgnoreNotFound(hub.Status().Patch(context.Background(), work, client.RawPatch(types.MergePatchType, []byte(applied)))))
			}
		}
	})
	t.Cleanup(running.Wait)
	return simulated
}

func worksOnHub() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("work.open-cluster-management.io/v1")
	list.SetKind("ManifestWorkList")
	return list
}

// The last cluster is offline. Its ManagedCluster is deleted while the rollout waits for it.
func TestManifestWorksAreRolledOutThroughTheHub(t *testing.T) {
	reserve(t, edges)
	clusters := []string{"edge-1", "edge-2", "edge-3", "edge-4"}
	for _, edge := range clusters {
		createOnHub(t, managedCluster(edge))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: edge}}
		if _, err := theFleet.Hub.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
	}
	for template, expected := range map[string]string{"os-config": "", "firmware": `[{"manifestIndex":0,"name":"isUpgradeCompleted","value":"True"}]`} {
		createOnHub(t, fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {namespace: default, name: %s, annotations: {openshift-cluster-group-upgrades/expectedValues: %q}}
spec:
  placementRefs: [{name: none}]
  manifestWorkTemplate: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: %s}}]}}`, template, expected, template))
	}
	simulated := simulateAgents(t, "edge-4")

	succeeds(t, "upgrade", "start", "-f", filepath.Join("..", "..", "docs", "examples", "manifestwork-rollout.yaml"))
	awaitStatus(t, "works", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "edge-4").Reason == "Pending" && clusterOf(s, "edge-4").CurrentManifestWork != nil
	})
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	deleted := &unstructured.Unstructured{}
	deleted.SetAPIVersion("cluster.open-cluster-management.io/v1")
	deleted.SetKind("ManagedCluster")
	deleted.SetName("edge-4")
	require.NoError(t, hub.Delete(t.Context(), deleted))
	status, code := awaitEnd(t, "works")

	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterFailed, clusterOf(status, "edge-4").State)
	require.Equal(t, ranv1.ReasonClusterDeleted, clusterOf(status, "edge-4").Reason)
	for _, edge := range clusters[:3] {
		require.Equal(t, ranv1.ClusterComplete, clusterOf(status, edge).State, edge)
	}
	simulated.mu.Lock()
	defer simulated.mu.Unlock()
	require.Equal(t, []string{"edge-1/os", "edge-1/firmware"}, simulated.works[:2], "the canary is first, and its templates are applied in order")
	slices.Sort(simulated.works)
	require.Equal(t, []string{
		"edge-1/firmware", "edge-1/os", "edge-2/firmware", "edge-2/os", "edge-3/firmware", "edge-3/os", "edge-4/os",
	}, simulated.works, "each ManifestWork is created once")
	left := worksOnHub()
	require.NoError(t, hub.List(t.Context(), left))
	require.Empty(t, left.Items)
}

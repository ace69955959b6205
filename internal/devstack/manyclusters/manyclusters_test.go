package manyclusters_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/manyclusters"
	"drydock.dev/drydock/internal/kube"
)

func TestSimulatedClustersServeWhatDrydockUses(t *testing.T) {
	definitions, err := manyclusters.Definitions("deploy/crds", "nodemaintenances")
	require.NoError(t, err)
	simulated, err := manyclusters.Start([]string{"one", "two"}, manyclusters.Options{Definitions: definitions, Objects: func(cluster string) []runtime.Object {
		return []runtime.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + cluster}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p1"}, Spec: corev1.PodSpec{NodeName: "node-of-" + cluster}},
		}
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, simulated.Close()) })
	configs := map[string]*rest.Config{}
	for _, cluster := range simulated {
		configs[cluster.Name] = cluster.Config
	}
	clusters := kube.New(kube.FromConfigs(nil, configs), kube.Options{})
	t.Cleanup(clusters.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	one, err := clusters.Cluster(ctx, "one")
	require.NoError(t, err)
	two, err := clusters.Cluster(ctx, "two")
	require.NoError(t, err, "the clusters have different UIDs")
	for _, tt := range []struct {
		cluster *kube.Cluster
		node    string
	}{{one, "node-of-one"}, {two, "node-of-two"}} {
		var nodes corev1.NodeList
		require.NoError(t, tt.cluster.Cache.List(ctx, &nodes))
		require.Len(t, nodes.Items, 1)
		require.Equal(t, tt.node, nodes.Items[0].Name)
	}

	request := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "r-", Finalizers: []string{"example.com/f"}},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: "node-of-one"},
	}
	require.NoError(t, one.Client.Create(ctx, request))
	awaitRequest := func(done func(*maintenancev1.NodeMaintenance) bool) {
		t.Helper()
		require.NoError(t, one.Await(ctx, []client.Object{&maintenancev1.NodeMaintenance{}}, func(ctx context.Context) (bool, error) {
			cached := &maintenancev1.NodeMaintenance{}
			err := one.Cache.Get(ctx, client.ObjectKeyFromObject(request), cached)
			if apierrors.IsNotFound(err) {
				return done(nil), nil
			}
			return done(cached), err
		}))
	}
	awaitRequest(func(cached *maintenancev1.NodeMaintenance) bool { return cached != nil })

	stale := request.DeepCopy()
	request.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
	require.NoError(t, one.Client.Status().Update(ctx, request))
	require.EqualValues(t, 1, request.Generation)
	require.True(t, apierrors.IsConflict(one.Client.Update(ctx, stale)))
	require.NoError(t, one.Client.Delete(ctx, request))
	awaitRequest(func(cached *maintenancev1.NodeMaintenance) bool {
		return cached != nil && cached.DeletionTimestamp != nil && len(cached.Status.Conditions) == 1
	})
	patch := client.MergeFrom(request.DeepCopy())
	request.Finalizers = nil
	require.NoError(t, one.Client.Patch(ctx, request, patch))
	awaitRequest(func(cached *maintenancev1.NodeMaintenance) bool { return cached == nil })

	node := &corev1.Node{}
	require.NoError(t, one.Client.Get(ctx, client.ObjectKey{Name: "node-of-one"}, node))
	add := []byte(`{"status":{"conditions":[{"type":"Drained","status":"True"},{"type":"Ready","status":"True"}]}}`)
	remove := []byte(`{"status":{"conditions":[{"type":"Drained","$patch":"delete"}]}}`)
	for _, patch := range [][]byte{add, remove} {
		_, err := one.Clientset.CoreV1().Nodes().Patch(ctx, node.Name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	require.NoError(t, one.Client.Get(ctx, client.ObjectKey{Name: "node-of-one"}, node))
	require.Len(t, node.Status.Conditions, 1)
	require.Equal(t, corev1.NodeReady, node.Status.Conditions[0].Type)

	var pods corev1.PodList
	require.NoError(t, one.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": "another"}))
	require.Empty(t, pods.Items)
	require.NoError(t, one.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": "node-of-one"}))
	require.Len(t, pods.Items, 1)
	evict := func(uid *metav1.Preconditions) error {
		return one.Evictions.From("node-of-one").Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p1"}, DeleteOptions: &metav1.DeleteOptions{Preconditions: uid},
		})
	}
	require.True(t, apierrors.IsConflict(evict(metav1.NewUIDPreconditions("another"))))
	require.NoError(t, evict(metav1.NewUIDPreconditions(string(pods.Items[0].UID))))
	require.True(t, apierrors.IsNotFound(one.Client.Get(ctx, client.ObjectKeyFromObject(&pods.Items[0]), &corev1.Pod{})))

	requests := simulated[0].Requests()
	require.Equal(t, 2, requests["create pods/eviction"])
	require.Equal(t, 1, requests["create nodemaintenances"])
	require.Zero(t, simulated[1].Requests()["create nodemaintenances"])
}

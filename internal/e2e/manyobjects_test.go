package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// One client creates many requests at once, several for each node, and deletes each when its node is ready.
func TestManyObjectsAtOnce(t *testing.T) {
	if !devstacktest.Soak() {
		t.Skip("takes minutes: make chaos runs it")
	}
	const requests, nodes = 500, 50
	reserve(t, "spoke-6")
	spoke := theFleet.Cluster("spoke-6")
	var added []devstack.Node
	for i := range nodes {
		// The policy of the fleet's locks, which lets one node at a time be out of service, does not select control-plane nodes.
		added = append(added, devstack.Node{Name: fmt.Sprintf("many-%d", i), ControlPlane: true})
	}
	require.NoError(t, spoke.AddNodes(t.Context(), added...))
	t.Cleanup(func() {
		for _, node := range added {
			require.NoError(t, client.IgnoreNotFound(spoke.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{})))
		}
	})
	c, err := client.NewWithWatch(spoke.Config, client.Options{})
	require.NoError(t, err)
	allow(t, spoke, nodes)

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "maintenance.nvidia.com", Version: "v1alpha1", Kind: "NodeMaintenanceList"})
	ctx, stop := context.WithTimeout(t.Context(), 2*stateLimit)
	defer stop()
	seen, err := c.Watch(ctx, list, client.InNamespace("default"))
	require.NoError(t, err)
	defer seen.Stop()
	created := make(chan error, 1)
	go func() { // a watch that is not read ends
		for i := range requests {
			spec := map[string]any{"requestorID": "gpu.example.com", "nodeName": added[i%nodes].Name, "drainSpec": map[string]any{}}
			if err := c.Create(ctx, unstructuredObject("maintenance.nvidia.com/v1alpha1", "NodeMaintenance", fmt.Sprintf("many-%d", i), spec)); err != nil {
				stop()
				created <- err
				return
			}
		}
		created <- nil
	}()
	released := releaseReady(t, c, seen, requests)
	stop()
	require.NoError(t, <-created)
	require.Equal(t, requests, released, "the watch ended")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

// releaseReady deletes objects whose nodes are ready, until all have been released. Two of them never have the same node. It returns how many were released
// before the watch ended.
func releaseReady(t *testing.T, c client.Client, seen watch.Interface, requests int) (released int) {
	t.Helper()
	holders := map[string]string{} // by node
	for event := range seen.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		require.True(t, ok, "%v", event)
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		switch {
		case event.Type == watch.Deleted:
			require.Equal(t, object.GetName(), holders[node])
			delete(holders, node)
			if released++; released == requests {
				return released
			}
		case conditionOf(object, "Ready") == "True Ready" && object.GetDeletionTimestamp() == nil && holders[node] != object.GetName():
			require.Empty(t, holders[node], "%s is ready for two requests", node)
			holders[node] = object.GetName()
			require.NoError(t, c.Delete(t.Context(), object))
		}
	}
	return released
}

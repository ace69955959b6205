package sweeper

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/views"
)

// leaveOnHub creates the view and the action of a rollout, and returns them.
func leaveOnHub(t *testing.T, cluster, owner string) []*unstructured.Unstructured {
	t.Helper()
	rollout := types.NamespacedName{Namespace: "fleet", Name: cluster}
	kind := schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"}
	plan := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ptp", "name": "install-abc"}}}
	plan.SetGroupVersionKind(kind)
	view := views.View(rollout, cluster, views.Object{Kind: kind, Namespace: "ptp", Name: "install-abc"}, views.Interval(0))
	action, err := views.Update(rollout, cluster, plan, func(*unstructured.Unstructured) error { return nil })
	require.NoError(t, err)
	left := []*unstructured.Unstructured{action, view}
	for _, object := range left {
		object.SetAnnotations(map[string]string{kube.AnnotationOwner: owner})
		activitytest.Create(t, activitytest.BareCluster(t), object)
	}
	return left
}

func TestViewsAndActionsOfATerminatedRolloutAreRemovedFromTheHub(t *testing.T) {
	server := activitytest.NewWorkflows()
	closed, open := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	owner, other := "cgu/fleet/"+closed+"/first-run", "cgu/fleet/"+open+"/first-run"
	server.Set(owner, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)
	server.Set(other, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	left := leaveOnHub(t, closed, owner)
	leaveOnHub(t, open, other)
	forged := leaveOnHub(t, devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), "node/c1/ops/n1/first-run")

	sweeper := &Activities{Clusters: activitytest.Clusters, Temporal: server}
	_, err := sweeper.AwaitOrphans(t.Context(), AwaitOrphansInput{}) // it may have seen only one of them yet
	require.NoError(t, err)
	hub, err := activitytest.Clusters.Hub(t.Context())
	require.NoError(t, err)
	search := newSearch(t, server, AwaitOrphansInput{})
	search.cluster = hub
	found := search.now(t)
	require.Len(t, found.Orphans, 2, "an open rollout keeps its own")
	require.Equal(t, []Mark{
		{Kind: MarkAction, Namespace: closed, Name: left[0].GetName(), Owner: owner}, {Kind: MarkView, Namespace: closed, Name: left[1].GetName(), Owner: owner},
	}, []Mark{found.Orphans[0].Mark, found.Orphans[1].Mark})
	require.Equal(t, len(forged), found.Ignored, "no maintenance writes such objects")

	again := OrphanedObject{Kind: MarkAction, Namespace: closed, Name: left[0].GetName(), Owner: "cgu/fleet/" + closed + "/second-run"}
	require.NoError(t, sweeper.RemoveOrphanedObject(t.Context(), again))
	require.NoError(t, activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(left[0]), left[0]), "a run that started again has adopted it")
	for _, orphan := range found.Orphans {
		in := OrphanedObject{Kind: orphan.Kind, Namespace: orphan.Namespace, Name: orphan.Name, Owner: orphan.Owner}
		require.NoError(t, sweeper.RemoveOrphanedObject(t.Context(), in))
		require.NoError(t, sweeper.RemoveOrphanedObject(t.Context(), in), "twice")
	}
	for _, object := range left {
		require.NoError(t, client.IgnoreNotFound(activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)))
	}
	anyMarks, err := sweeper.AnyMarks(t.Context(), "")
	require.NoError(t, err)
	require.True(t, anyMarks, "those of the open rollout")
	require.Empty(t, server.Woken, "the hub has no scheduler")
}

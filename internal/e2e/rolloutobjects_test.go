package e2e

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
)

// newRolloutObject knows only the API of Kubernetes, like newKubeRequestor.
func newRolloutObject(t *testing.T, name string, spec map[string]any) *kubeRequestor {
	t.Helper()
	c, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	spec["remediationStrategy"] = map[string]any{"maxConcurrency": int64(1), "timeout": int64(60)}
	return &kubeRequestor{t: t, client: c, object: unstructuredObject("ran.openshift.io/v1alpha1", "ClusterGroupUpgrade", name, spec)}
}

// applyRollout creates a ClusterGroupUpgrade in namespace default of the hub, which is deleted after the test.
func applyRollout(t *testing.T, manifest string) *kubeRequestor {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	r := newRolloutObject(t, object.GetName(), map[string]any{})
	r.object.Object["spec"] = object.Object["spec"]
	r.create()
	return r
}

// shownClusters returns the states of the clusters that an object shows, by name.
func shownClusters(object *unstructured.Unstructured) map[string]any {
	clusters, _, _ := unstructured.NestedSlice(object.Object, "status", "clusters")
	states := map[string]any{}
	for _, entry := range clusters {
		cluster := entry.(map[string]any)
		states[cluster["name"].(string)] = cluster["state"]
	}
	return states
}

// eventsOf returns the reasons of the Events on an object of the hub, sorted.
func eventsOf(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	events, err := theFleet.Hub.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(object.GetUID())})
	require.NoError(t, err)
	var reasons []string
	for _, event := range events.Items {
		reasons = append(reasons, event.Reason)
	}
	slices.Sort(reasons)
	return reasons
}

func TestAnAppliedClusterGroupUpgradeIsPlannedEnabledAndDeleted(t *testing.T) {
	reserve(t, "spoke-5")
	spoke := theFleet.Cluster("spoke-5")
	r := newRolloutObject(t, "applied", map[string]any{"clusters": []any{"spoke-5"}, "enable": false, "nodeMaintenance": map[string]any{"drainSpec": map[string]any{}}})
	r.create()
	object := r.awaitCondition("Progressing", "False NotEnabled")
	plan, _, _ := unstructured.NestedSlice(object.Object, "status", "remediationPlan")
	require.Equal(t, []any{[]any{"spoke-5"}}, plan)
	require.Contains(t, object.GetFinalizers(), "drydock.dev/cleanup")
	refused := drydock(t, "upgrade", "start", "-f", rolloutFile(t, rollout("applied", "", 60, "spoke-5")))
	require.NotZero(t, refused.code)

	r.patch(`{"spec":{"enable":true}}`)
	object = r.awaitCondition("Succeeded", "True Completed")
	require.Equal(t, map[string]any{"spoke-5": "complete"}, shownClusters(object))
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	require.Equal(t, "Succeeded", conditions[len(conditions)-1].(map[string]any)["type"], "printer columns show the last condition")
	require.Eventually(t, func() bool { // Events follow the status
		return slices.Equal(eventsOf(t, object), []string{"CguCreated", "CguStarted", "CguStarted", "CguSuccess", "CguSuccess"})
	}, stateLimit, 200*time.Millisecond)
	r.delete()
	r.awaitGone()

	// Of a rollout whose object is deleted in progress, the nodes return to service.
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	r.object = unstructuredObject("ran.openshift.io/v1alpha1", "ClusterGroupUpgrade", "applied", r.object.Object["spec"].(map[string]any))
	require.NoError(t, unstructured.SetNestedField(r.object.Object, true, "spec", "enable"))
	r.create()
	awaitEviction(t, spoke, slowPod)
	r.delete()
	r.awaitGone()
	r.spoke = spoke
	require.False(t, r.cordoned("worker-1"))
	endSlowTermination(t, spoke, slowPod)
}

func TestAClusterGroupUpgradeWaitsForAClusterAndForItsBlocker(t *testing.T) {
	shared(t)
	labels := map[string]any{"afterCompletion": map[string]any{"addClusterLabels": map[string]any{"labelled": "yes"}}}
	blocked := newRolloutObject(t, "blocked-object", map[string]any{
		"clusters": []any{"late"}, "actions": labels, "blockingCRs": []any{map[string]any{"namespace": "default", "name": "early-object"}},
	})
	blocked.create()
	early := newRolloutObject(t, "early-object", map[string]any{"clusters": []any{"late"}, "actions": labels})
	early.create()
	early.awaitCondition("ClustersSelected", "False ClusterNotFound")
	blocked.awaitCondition("ClustersSelected", "False ClusterNotFound")

	late := &unstructured.Unstructured{}
	late.SetAPIVersion("cluster.open-cluster-management.io/v1")
	late.SetKind("ManagedCluster")
	late.SetName("late")
	require.NoError(t, early.client.Create(t.Context(), late))
	t.Cleanup(func() { _ = early.client.Delete(context.Background(), late) })
	early.awaitCondition("Succeeded", "True Completed")
	blocked.awaitCondition("Succeeded", "True Completed")
	require.Equal(t, "yes", labelsOf(t, "late")["labelled"])
}

func TestAClusterGroupUpgradeHasTheNameOfARolloutOfTheCLI(t *testing.T) {
	shared(t)
	const name = "rollout-twice"
	succeeds(t, "upgrade", "start", "-f", rolloutFile(t, rollout(name, "enable: false", 60, "spoke-1")))
	t.Cleanup(func() { // a running rollout would block the next tests
		_ = theFleet.Run(context.Background(), io.Discard, "upgrade", "cancel", name)
	})
	r := newRolloutObject(t, name, map[string]any{"clusters": []any{"spoke-1"}, "enable": false, "nodeMaintenance": map[string]any{}})
	r.create()
	object := r.awaitCondition("Validated", "False NameInUse")
	require.NotContains(t, object.Object["status"], "remediationPlan", "the plan is that of another request")
	succeeds(t, "upgrade", "cancel", name)
	r.awaitCondition("Progressing", "False NotEnabled")
	require.Contains(t, succeeds(t, "upgrade", "status", name), "from ClusterGroupUpgrade default/"+name)
	r.delete()
	r.awaitGone()
}

// Rollouts lose their finalizers by force while no worker runs, and one of them is applied again with another spec.
func TestAClusterGroupUpgradeIsReplacedWhileNoWorkerRuns(t *testing.T) {
	alone(t)
	planned := func(name string, clusters ...any) *kubeRequestor {
		r := newRolloutObject(t, name, map[string]any{"clusters": clusters, "enable": false, "nodeMaintenance": map[string]any{}})
		r.create()
		return r
	}
	first, vanished := planned("replaced-rollout", "spoke-1"), planned("vanished-rollout", "spoke-1")
	for _, r := range []*kubeRequestor{first, vanished} {
		r.awaitCondition("Progressing", "False NotEnabled")
	}
	require.NoError(t, theFleet.Worker.Kill())
	for _, r := range []*kubeRequestor{first, vanished} {
		r.delete()
		r.patch(`{"metadata":{"finalizers":null}}`)
		r.awaitGone()
	}
	second := planned("replaced-rollout", "spoke-2")
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	object := second.awaitCondition("Progressing", "False NotEnabled")
	plan, _, _ := unstructured.NestedSlice(object.Object, "status", "remediationPlan")
	require.Equal(t, []any{[]any{"spoke-2"}}, plan)
	require.Eventually(t, func() bool {
		described, err := temporalClient(t).DescribeWorkflowExecution(t.Context(), "cgu/default/vanished-rollout", "")
		return err == nil && described.GetWorkflowExecutionInfo().GetCloseTime() != nil
	}, stateLimit, 200*time.Millisecond, "the rollout of the object that is gone does not end")
	second.delete()
	second.awaitGone()
}

package drain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	drainactivities "drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// completed is the result of a wait for pods to complete.
type completed struct {
	remaining []string
	err       error
}

func startCompletion(t *testing.T, in drainactivities.AwaitPodCompletionInput, workflow activitykit.Signaller) chan completed {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	drains := &drainactivities.Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Temporal: workflow}}
	environment.RegisterActivity(drains)
	ended := make(chan completed, 1)
	go func() {
		var result drainactivities.AwaitPodCompletionResult
		value, err := environment.ExecuteActivity(drains.AwaitPodCompletion, in)
		if err == nil {
			err = value.Get(&result)
		}
		ended <- completed{result.Remaining, err}
	}()
	return ended
}

func TestAWaitForPodsEvictsNone(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Job(t, ref.Node, "training", 5*time.Second)
	gone := shop.Pod(t, ref.Node, "web")
	kept := shop.Pod(t, ref.Node, "kept", func(pod *corev1.Pod) {
		pod.Finalizers, pod.Spec.TerminationGracePeriodSeconds = []string{"test.drydock.dev/kept"}, new(int64(1))
	})
	workflow := &activitytest.Signals{}
	ended := startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref}, workflow)
	waiting := workflow.WaitsFor(t, "PodsRunning")
	require.Contains(t, waiting.Pods, shop.Namespace+"/web")
	require.Equal(t, "Pod "+waiting.Pods[0], waiting.Wait.Blockers[0].String())

	cluster := activitytest.TestCluster(t).Client
	require.NoError(t, cluster.Delete(t.Context(), gone))
	require.NoError(t, cluster.Delete(t.Context(), kept))
	waiting = workflow.WaitsFor(t, "Terminating")
	require.Equal(t, "Pod "+shop.Namespace+"/kept", waiting.Wait.Blockers[0].String())
	require.Contains(t, waiting.Wait.Blockers[0].Message, "test.drydock.dev/kept", "the message names the finalizer")
	skipping := &maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(1))}
	result := <-startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref, Drain: skipping}, nil)
	require.NoError(t, result.err)
	require.Empty(t, result.remaining, "the drain also ignores it")

	require.NoError(t, cluster.Patch(t.Context(), kept, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	result = <-ended
	require.NoError(t, result.err)
	require.Empty(t, result.remaining)
	require.Empty(t, shop.Evictions(t))
}

func TestAWaitForPodsConsidersOnlySelectedPods(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	spec := maintenancev1.WaitForPodCompletionSpec{PodSelector: "app=training"}
	require.NoError(t, (<-startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref, Spec: spec}, nil)).err)
}

func TestATimedOutWaitForPodsNamesTheRemainingPods(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web-2")
	shop.Pod(t, ref.Node, "web-1")
	deadline := time.Now().Add(time.Second)
	result := <-startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref, Deadline: &deadline}, nil)
	require.NoError(t, result.err)
	require.Equal(t, []string{shop.Namespace + "/web-1", shop.Namespace + "/web-2"}, result.remaining)
	require.Len(t, shop.Left(t), 2)
}

func TestAWaitForPodsIncludesPodsThatTheCacheLacks(t *testing.T) {
	empty, err := snapshot.Parse("cache", nil)
	require.NoError(t, err)
	real, err := snapshot.Parse("server", []byte(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: late}, spec: {nodeName: worker-7}}`))
	require.NoError(t, err)
	completion, err := drain.NewCompletion(maintenancev1.WaitForPodCompletionSpec{}, nil)
	require.NoError(t, err)
	awaited, err := drainactivities.AwaitedPods(t.Context(), empty, real, "worker-7", func(pods []corev1.Pod) drain.Awaited {
		return completion.Inspect(&corev1.Node{}, false, pods, time.Now())
	})
	require.NoError(t, err)
	require.Equal(t, []string{"shop/late"}, awaited.Pods)
}

func TestAWaitForPodsReportsAManualUncordonAndEndsWithTheNode(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	workflow := &activitytest.Signals{}
	ended := startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref, Cordoned: true}, workflow)
	workflow.WaitsFor(t, "PodsRunning")
	activitytest.Changed(t, ref.Node, activitytest.Uncordoned)
	waiting := workflow.WaitsFor(t, "Uncordoned")
	require.Equal(t, "Node "+ref.Node, waiting.Wait.Blockers[0].String())
	require.Equal(t, []string{shop.Namespace + "/web"}, waiting.Pods)
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, ref.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType((<-ended).err))
}

func TestAWaitForPodsWithAnInvalidSelectorIsRefused(t *testing.T) {
	ref := activitytest.TestNode(t)
	spec := maintenancev1.WaitForPodCompletionSpec{PodSelector: "app in"}
	result := <-startCompletion(t, drainactivities.AwaitPodCompletionInput{NodeRef: ref, Spec: spec}, nil)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(result.err))
	require.Contains(t, temporal.ErrorMessage(result.err), "waitForPodCompletion.podSelector")
}

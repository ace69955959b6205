package drain

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestWhichPodsShouldEndByThemselves(t *testing.T) {
	skipping := &maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(60))}
	cases := []struct {
		name     string
		selector string
		drain    *maintenancev1.DrainSpec
		pod      corev1.Pod
		awaited  bool
	}{
		{name: "a running pod, without a selector", pod: webPod("a"), awaited: true},
		{name: "a pod without a controller", pod: webPod("a", bare), awaited: true},
		{name: "a pod that has not started yet", pod: webPod("a", pending), awaited: true},
		{name: "a terminating pod", pod: webPod("a", terminatingSince(0)), awaited: true},
		{name: "a pod that has been terminating for long, if the drain waits for it", drain: &maintenancev1.DrainSpec{}, pod: webPod("a", terminatingSince(time.Hour)), awaited: true},
		{name: "a terminating pod that the drain still waits for", drain: skipping, pod: webPod("a", terminatingSince(59*time.Second)), awaited: true},
		{name: "not a terminating pod that the drain skips", drain: skipping, pod: webPod("a", terminatingSince(time.Minute))},
		{name: "a running pod even if the drain would skip a terminating one", drain: skipping, pod: webPod("a"), awaited: true},
		{name: "not a pod that succeeded", pod: webPod("a", finished)},
		{name: "not a pod that failed", pod: webPod("a", failed)},
		{name: "not a pod of a DaemonSet, which never ends", pod: webPod("a", ownedBy("DaemonSet", "agent"))},
		{name: "not a static pod, which never ends", pod: webPod("a", mirror)},
		{name: "a pod that the selector matches", selector: "app=web", pod: webPod("a"), awaited: true},
		{name: "a pod of a DaemonSet that the selector matches", selector: "app=web", pod: webPod("a", ownedBy("DaemonSet", "agent")), awaited: true},
		{name: "not a pod that the selector does not match", selector: "app=db", pod: webPod("a")},
		{name: "not a finished pod that the selector matches", selector: "app=web", pod: webPod("a", finished)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			completion, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{PodSelector: c.selector}, c.drain)
			require.NoError(t, err)
			require.Equal(t, c.awaited, completion.Awaits(&c.pod, now))
		})
	}
}

func TestAWaitForPodsReportsWhyTheyHaveNotEnded(t *testing.T) {
	const graceOver = "its grace period ends at 2026-11-20T11:59:00Z"
	held := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} }
	cases := []struct {
		name       string
		notReady   bool
		uncordoned bool
		pods       []corev1.Pod
		reason     string
		message    string
		blockers   []string
	}{
		{name: "all pods have ended", pods: []corev1.Pod{webPod("a", finished)}},
		{
			name: "a running pod", pods: []corev1.Pod{webPod("a")},
			reason: "PodsRunning", message: "1 pod has not ended by itself: shop/a", blockers: []string{"PodsRunning shop/a: "},
		},
		{
			name: "running pods, and one that a finalizer keeps", pods: []corev1.Pod{webPod("c"), webPod("b", terminatingSince(time.Minute), held), webPod("a")},
			reason: "PodsRunning", message: "2 pods have not ended by themselves: shop/a, shop/c; 1 pod still terminating: shop/b",
			blockers: []string{"PodsRunning shop/a: ", "PodsRunning shop/c: ", "Terminating shop/b: " + graceOver + "; it is kept by finalizers example.com/keep"},
		},
		{
			name: "only a terminating pod", pods: []corev1.Pod{webPod("a", terminatingSince(time.Minute))},
			reason: "Terminating", message: "1 pod still terminating: shop/a", blockers: []string{"Terminating shop/a: " + graceOver},
		},
		{
			name: "a node that is not Ready", notReady: true, pods: []corev1.Pod{webPod("b", terminatingSince(time.Minute)), webPod("a")},
			reason: "NodeNotReady", message: "2 pods in an unknown state, because the node is not Ready: shop/a, shop/b",
			blockers: []string{"NodeNotReady shop/a: " + nodeNotReady, "NodeNotReady shop/b: " + graceOver + "; " + nodeNotReady},
		},
		{
			name: "an uncordoned node", uncordoned: true, pods: []corev1.Pod{webPod("a")},
			reason: "Uncordoned", message: uncordonedNode(node, "pods may come to it").Message + "; 1 pod has not ended by itself: shop/a",
			blockers: []string{"Uncordoned " + node + ": " + uncordonedNode(node, "pods may come to it").Message, "PodsRunning shop/a: "},
		},
		{
			name: "an uncordoned node with no pod left", uncordoned: true,
			reason: "Uncordoned", message: uncordonedNode(node, "pods may come to it").Message,
			blockers: []string{"Uncordoned " + node + ": " + uncordonedNode(node, "pods may come to it").Message},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			completion, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{}, nil)
			require.NoError(t, err)
			on := snapshotOf(nil).Node
			if !c.notReady {
				on.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}
			found := completion.Inspect(on, c.uncordoned, c.pods, now)
			if c.reason == "" {
				require.Equal(t, Awaited{}, found)
				return
			}
			require.Equal(t, c.reason, found.Wait.Reason)
			require.Equal(t, c.message, found.Wait.Message)
			var named []string
			for _, b := range found.Wait.Blockers {
				named = append(named, b.Reason+" "+strings.TrimPrefix(b.Namespace+"/"+b.Name, "/")+": "+b.Message)
			}
			require.Equal(t, c.blockers, named)
			require.True(t, found.RecheckAt.IsZero())
		})
	}
}

func TestAPodIsWaitedForUntilTheDrainWouldSkipIt(t *testing.T) {
	completion, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{}, &maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(60))})
	require.NoError(t, err)
	pods := []corev1.Pod{webPod("a", terminatingSince(10*time.Second)), webPod("b", terminatingSince(30*time.Second)), webPod("c", terminatingSince(time.Hour))}
	found := completion.Inspect(snapshotOf(nil).Node, false, pods, now)
	require.Equal(t, []string{"shop/a", "shop/b"}, found.Pods)
	require.Equal(t, now.Add(30*time.Second), found.RecheckAt)
	found = completion.Inspect(snapshotOf(nil).Node, false, pods, found.RecheckAt)
	require.Equal(t, []string{"shop/a"}, found.Pods)
}

func TestAWaitForPodsNamesOnlyTheFirstPods(t *testing.T) {
	completion, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{}, nil)
	require.NoError(t, err)
	found := completion.Inspect(snapshotOf(nil).Node, false, manyPods(50), now)
	require.Len(t, found.Pods, 50)
	require.Len(t, found.Wait.Blockers, listed)
}

func TestAnInvalidWaitForPodsIsRefusedWithEveryField(t *testing.T) {
	_, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{PodSelector: "app in", TimeoutSeconds: -1}, nil)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "waitForPodCompletion.podSelector")
	require.ErrorContains(t, err, "waitForPodCompletion.timeoutSeconds")
}

package drain

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestWhichPodsAreLeftToEndByThemselves(t *testing.T) {
	cases := []struct {
		name     string
		selector string
		pod      corev1.Pod
		awaited  bool
	}{
		{name: "every running pod without a selector", pod: webPod("a"), awaited: true},
		{name: "a pod without a controller too", pod: webPod("a", bare), awaited: true},
		{name: "a pod that has not started yet too", pod: webPod("a", pending), awaited: true},
		{name: "a terminating pod until it is gone", pod: webPod("a", terminatingSince(0)), awaited: true},
		{name: "no pod that succeeded", pod: webPod("a", finished)},
		{name: "no pod that failed", pod: webPod("a", failed)},
		{name: "no pod of a DaemonSet, which never ends", pod: webPod("a", ownedBy("DaemonSet", "agent"))},
		{name: "no static pod, which never ends", pod: webPod("a", mirror)},
		{name: "pods that the selector picks", selector: "app=web", pod: webPod("a"), awaited: true},
		{name: "pods of a DaemonSet if the selector picks them", selector: "app=web", pod: webPod("a", ownedBy("DaemonSet", "agent")), awaited: true},
		{name: "no pod that the selector does not pick", selector: "app=db", pod: webPod("a")},
		{name: "no finished pod that the selector picks", selector: "app=web", pod: webPod("a", finished)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			completion, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{PodSelector: c.selector})
			require.NoError(t, err)
			require.Equal(t, c.awaited, completion.Awaits(&c.pod))
		})
	}
}

func TestAWaitThatCannotBeUnderstoodIsRefusedNamingEveryField(t *testing.T) {
	_, err := NewCompletion(maintenancev1.WaitForPodCompletionSpec{PodSelector: "app in", TimeoutSeconds: -1})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "waitForPodCompletion.podSelector")
	require.ErrorContains(t, err, "waitForPodCompletion.timeoutSeconds")
}

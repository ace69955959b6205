package activitytest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/jobs"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
)

func Jobs() *jobs.Activities { return &jobs.Activities{Clusters: Clusters} }

// Firmware returns a Job for a node, which it cordons. The annotations of the pod control its result.
func Firmware(t *testing.T, ref activitykit.NodeRef, podAnnotations map[string]string) jobs.RunJobInput {
	t.Helper()
	Cordon(t, ref)
	var template batchv1.JobTemplateSpec
	template.Labels = map[string]string{"app": "firmware"}
	template.Spec.BackoffLimit = new(int32(0))
	template.Spec.Template.Annotations = podAnnotations
	template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "flash", Image: "firmware"}}
	return jobs.RunJobInput{
		NodeRef:     ref,
		Maintenance: ref.Node, // as in its owner
		Job:         maintenancev1.JobAction{Namespace: JobNamespace(t), Template: template},
		Deadline:    InSeconds(600),
	}
}

func Lasting(duration string) map[string]string {
	return map[string]string{devstack.AnnotationCompleteAfter: duration}
}

// Running starts RunJob, waits until the pod runs, and returns a channel with the result.
func Running(t *testing.T, in jobs.RunJobInput) (<-chan error, context.CancelFunc) {
	t.Helper()
	return Starting(t, in, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// Starting starts RunJob, waits for a state of the pod, and returns a channel with the result.
func Starting(t *testing.T, in jobs.RunJobInput, reached func(*corev1.Pod) bool) (<-chan error, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- Jobs().RunJob(ctx, in) }()
	require.Eventually(t, func() bool {
		pods := PodsIn(t, in.Job.Namespace)
		return len(pods) == 1 && reached(&pods[0])
	}, EventTimeout, 20*time.Millisecond)
	return end, cancel
}

func PodsIn(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, TestCluster(t).Client.List(t.Context(), &pods, client.InNamespace(namespace)))
	return pods.Items
}

// JobOf returns the Job of a maintenance, or nil.
func JobOf(t *testing.T, in jobs.RunJobInput) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	err := TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: in.Job.Namespace, Name: jobs.NameOfJob(in)}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return job
}

func RemoveJob(t *testing.T, in jobs.RunJobInput) {
	t.Helper()
	require.NoError(t, Jobs().RemoveJob(t.Context(), in))
}

func RequireJobGone(t *testing.T, in jobs.RunJobInput) {
	t.Helper()
	require.Eventually(t, func() bool { return JobOf(t, in) == nil && len(PodsIn(t, in.Job.Namespace)) == 0 }, EventTimeout, 20*time.Millisecond)
}

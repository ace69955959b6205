package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

func jobs() *Jobs { return &Jobs{Clusters: clusters} }

// firmware is a Job to run on the node, which is cordoned for it. The annotations of its pod steer how it ends.
func firmware(t *testing.T, ref NodeRef, podAnnotations map[string]string) RunJobInput {
	t.Helper()
	cordon(t, ref)
	var template batchv1.JobTemplateSpec
	template.Labels = map[string]string{"app": "firmware"}
	template.Spec.BackoffLimit = new(int32(0))
	template.Spec.Template.Annotations = podAnnotations
	template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "flash", Image: "firmware"}}
	return RunJobInput{
		NodeRef:     ref,
		Maintenance: "fw-" + ref.Node,
		Job:         maintenancev1.JobAction{Namespace: devstacktest.Namespace(t, stack.Cluster(spokeName)), Template: template},
		Deadline:    inSeconds(60),
	}
}

func lasting(duration string) map[string]string {
	return map[string]string{devstack.AnnotationCompleteAfter: duration}
}

// running starts RunJob, and returns where it ends once its pod runs.
func running(t *testing.T, in RunJobInput) (<-chan error, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- jobs().RunJob(ctx, in) }()
	require.Eventually(t, func() bool {
		pods := podsIn(t, in.Job.Namespace)
		return len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning
	}, newsLimit, 20*time.Millisecond)
	return end, cancel
}

func podsIn(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, testCluster(t).Client.List(t.Context(), &pods, client.InNamespace(namespace)))
	return pods.Items
}

// jobOf returns the Job of a maintenance, or nil.
func jobOf(t *testing.T, in RunJobInput) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	err := testCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: in.Job.Namespace, Name: nameOfJob(in)}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return job
}

func removeJob(t *testing.T, in RunJobInput) {
	t.Helper()
	require.NoError(t, jobs().RemoveJob(t.Context(), in))
}

func requireJobGone(t *testing.T, in RunJobInput) {
	t.Helper()
	require.Eventually(t, func() bool { return jobOf(t, in) == nil && len(podsIn(t, in.Job.Namespace)) == 0 }, newsLimit, 20*time.Millisecond)
}

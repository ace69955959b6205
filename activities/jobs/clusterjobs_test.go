package jobs_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

// preparation returns a preparation Job of a rollout on the shared spoke.
func preparation(rollout string, kind precache.Kind) jobs.ClusterJob {
	in := jobs.ClusterJob{
		Cluster: activitytest.SpokeName, Owner: "cgu/ops/" + rollout + "/first-run", Preparation: "prepare/ops/" + rollout, Deadline: time.Now().Add(10 * time.Minute),
		Work: precache.Work{Kind: kind, Image: "registry.example.com/work:1", Timeout: time.Hour},
	}
	if kind == precache.Precaching {
		in.Work.Spec = &ranv1.PrecachingSpec{PlatformImage: "registry.example.com/release:4.18", AdditionalImages: []string{"a", "b"}, SpaceRequired: "35"}
	}
	return in
}

// clusterJob returns the Job, or nil.
func clusterJob(t *testing.T, in jobs.ClusterJob) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	err := activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: in.Work.Kind.Namespace(), Name: in.Name()}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return job
}

// podOf waits for the pod of the Job.
func podOf(t *testing.T, in jobs.ClusterJob) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	require.Eventually(t, func() bool {
		for _, pod := range activitytest.PodsIn(t, in.Work.Kind.Namespace()) {
			if strings.HasPrefix(pod.Name, in.Name()) {
				found = &pod
			}
		}
		return found != nil
	}, activitytest.EventTimeout, 50*time.Millisecond)
	return found
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable })
}

// startPreparation starts RunClusterJob, and returns a channel with its result. The pod is scheduled only while a test has a node.
func startPreparation(t *testing.T, in jobs.ClusterJob) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- activitytest.Jobs().RunClusterJob(t.Context(), in) }()
	return end
}

func TestAPrecachingJobGetsTheImagesToPull(t *testing.T) {
	in := preparation("june", precache.Precaching)
	end := startPreparation(t, in)
	pod := podOf(t, in)
	require.Equal(t, "pre-cache-agent", pod.Spec.ServiceAccountName)

	var config corev1.ConfigMap
	require.Eventually(t, func() bool {
		return activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: precache.NamespacePrecaching, Name: in.Name()}, &config) == nil
	}, activitytest.EventTimeout, 50*time.Millisecond)
	require.Equal(t, "a\nb", config.Data["additionalImages"])
	require.Equal(t, clusterJob(t, in).UID, config.OwnerReferences[0].UID, "it is deleted with the Job")

	activitytest.TestNode(t)
	require.NoError(t, <-end)
	require.NoError(t, activitytest.Jobs().RunClusterJob(t.Context(), in), "an attempt whose reply was lost sees that the work is done")
	require.NoError(t, activitytest.Jobs().RemoveClusterJob(t.Context(), in))
	require.NoError(t, activitytest.Jobs().RemoveClusterJob(t.Context(), in))
	require.Eventually(t, func() bool { return clusterJob(t, in) == nil }, activitytest.EventTimeout, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(&config), &config))
	}, activitytest.EventTimeout, 50*time.Millisecond)
}

func TestAFailedBackupReportsWhyAndItsJobIsKept(t *testing.T) {
	in := preparation("july", precache.Backup)
	end := startPreparation(t, in)
	pod := podOf(t, in)
	require.NoError(t, activitytest.TestCluster(t).Client.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"container-image","image":"x","imageID":"","ready":false,"restartCount":0,
		"state":{"terminated":{"exitCode":7,"reason":"Error","message":"no space left in /var/recovery"}}}]}}`))))
	err := <-end
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "failed on cluster "+activitytest.SpokeName)
	require.ErrorContains(t, err, "no space left in /var/recovery")
	require.NoError(t, activitytest.Jobs().RemoveClusterJob(t.Context(), in))
	require.NotNil(t, clusterJob(t, in), "ttlSecondsAfterFinished keeps it for a day")

	again := in
	again.Preparation += "-2"
	require.Nil(t, clusterJob(t, again), "the next preparation has a Job of its own")
}

func TestATimedOutClusterJobIsStopped(t *testing.T) {
	in := preparation("august", precache.Precaching)
	attempt, lose := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() { lost <- activitytest.Jobs().RunClusterJob(attempt, in) }()
	require.Eventually(t, func() bool { return unschedulable(podOf(t, in)) }, activitytest.EventTimeout, 50*time.Millisecond)
	lose()
	require.ErrorIs(t, <-lost, context.Canceled)
	in.Deadline = time.Now().Add(time.Second)
	err := activitytest.Jobs().RunClusterJob(t.Context(), in)
	require.Equal(t, temporal.ErrJobTimedOut, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "cannot be scheduled", "the error contains the last wait")

	overtime := preparation("september", precache.Precaching)
	overtime.Work.Timeout = time.Second
	err = <-startPreparation(t, overtime)
	require.Equal(t, temporal.ErrJobTimedOut, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "DeadlineExceeded", "the cluster itself ends the Job")
}

func TestACancelledJobIsStopped(t *testing.T) {
	in := preparation("october", precache.Precaching)
	startPreparation(t, in)
	podOf(t, in)
	require.NoError(t, activitytest.Jobs().RemoveClusterJob(t.Context(), in))
	require.Eventually(t, func() bool { return clusterJob(t, in) == nil }, activitytest.EventTimeout, 50*time.Millisecond)
}

func TestAnImageThatIsNotAllowedDoesNotPrepareACluster(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		in := preparation("forged", kind)
		in.Work.Image = "elsewhere.example.com/work:1"
		err := activitytest.Jobs().RunClusterJob(t.Context(), in)
		require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "image elsewhere.example.com/work:1: the Job is privileged")
		require.Nil(t, clusterJob(t, in))
	}
}

func TestAClusterWithoutTheJobNamespaceSaysWhatToApply(t *testing.T) {
	in := preparation("november", precache.Backup)
	in.Cluster = activitytest.HubName
	hub := activitytest.BareCluster(t)
	namespace := &corev1.Namespace{}
	namespace.Name = precache.NamespaceBackup
	require.NoError(t, hub.Client.Delete(t.Context(), namespace))
	err := activitytest.Jobs().RunClusterJob(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "apply deploy/rbac/preparation.yaml on it")
}

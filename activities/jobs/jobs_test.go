package jobs_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestAJobRunsOnTheCordonedNodeAndIsRemoved(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	in := activitytest.Firmware(t, ref, activitytest.Lasting("200ms"))
	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), in))

	job := activitytest.JobOf(t, in)
	require.NotNil(t, jobs.Finished(job, batchv1.JobComplete))
	require.True(t, kube.OwnedBy(job, ref.Owner))
	require.Equal(t, "firmware", job.Labels["app"])
	pods := activitytest.PodsIn(t, in.Job.Namespace)
	require.Len(t, pods, 1)
	require.Equal(t, ref.Node, pods[0].Spec.NodeName)
	require.Equal(t, corev1.RestartPolicyNever, pods[0].Spec.RestartPolicy)

	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), in), "an attempt whose reply was lost sees that the work is done")
	require.Len(t, activitytest.PodsIn(t, in.Job.Namespace), 1, "the work is not repeated")
	activitytest.RemoveJob(t, in)
	activitytest.RemoveJob(t, in)
	activitytest.RequireJobGone(t, in)
}

func TestAJobRunsOnANodeWithoutTheHostnameLabel(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, nil)
	activitytest.Changed(t, ref.Node, func(node *corev1.Node) { delete(node.Labels, kube.LabelMaintenance) })
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), in))
	require.Equal(t, kube.MaintenanceLabel(ref.Owner), activitytest.GetNode(t, ref.Node).Labels[kube.LabelMaintenance])
	activitytest.RemoveJob(t, in)
	activitytest.ReturnNode(t, ref)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestAFailedJobReportsItsPodAndIsKeptForADay(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, map[string]string{devstack.AnnotationExitCode: "3"})
	const stdout = "2026-11-20T12:00:00.000000000Z stdout F "
	lines := strings.Repeat(stdout+"flashing\n", 30) + stdout + "no such image\n"
	require.NoError(t, os.WriteFile(activitytest.Stack.Cluster(activitytest.SpokeName).ContainerLogFile, []byte(lines), 0o600))
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.ErrorContains(t, err, "; the end of its log:\n"+strings.Repeat("flashing\n", jobs.LogLines-1)+"no such image")
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
	pod := activitytest.PodsIn(t, in.Job.Namespace)[0]
	require.ErrorContains(t, err, "failed on node "+ref.Node+": BackoffLimitExceeded: ")
	require.ErrorContains(t, err, "in pod "+pod.Name+" container flash exited with code 3")
	require.Equal(t, "Pod "+pod.Namespace+"/"+pod.Name, temporal.Blockers(err)[0].String())

	activitytest.RemoveJob(t, in)
	activitytest.RemoveJob(t, in)
	job := activitytest.JobOf(t, in)
	require.NotNil(t, job)
	require.Nil(t, job.DeletionTimestamp)
	require.NotContains(t, job.Finalizers, jobs.Finalizer, "it can be deleted without Drydock")
	require.EqualValues(t, 24*60*60, *job.Spec.TTLSecondsAfterFinished)

	again := in
	activitytest.ReturnNode(t, in.NodeRef)
	again.Owner += "-2"
	activitytest.Cordon(t, again.NodeRef)
	again.Job.Template.Spec.Template.Annotations = nil
	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), again), "the failed Job does not block the next run")
	activitytest.RemoveJob(t, again)
}

func TestALostAttemptIsResumed(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
	end, kill := activitytest.Running(t, in)
	kill()
	require.ErrorIs(t, <-end, context.Canceled)
	uid := activitytest.JobOf(t, in).UID
	pod := activitytest.PodsIn(t, in.Job.Namespace)[0]
	require.NoError(t, activitytest.TestCluster(t).Client.Patch(t.Context(), &pod, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+devstack.AnnotationCompleteAfter+`":"0s"}}}`))))
	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), in))
	require.Equal(t, uid, activitytest.JobOf(t, in).UID)
	require.Len(t, activitytest.PodsIn(t, in.Job.Namespace), 1)
	activitytest.RemoveJob(t, in)
}

func TestADeletedJobHasFailedAndIsNotRunAgain(t *testing.T) {
	for _, test := range []struct {
		name        string
		propagation metav1.DeletionPropagation
	}{
		{"deleted as kubectl does", metav1.DeletePropagationBackground},
		{"deleted in the foreground", metav1.DeletePropagationForeground},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
			end, _ := activitytest.Running(t, in)
			require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.JobOf(t, in), client.PropagationPolicy(test.propagation)))
			err := <-end
			require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
			require.ErrorContains(t, err, "was deleted before it was complete: another client deleted it at ")

			err = activitytest.Jobs().RunJob(t.Context(), in)
			require.ErrorContains(t, err, "was deleted before it was complete", "another attempt finds the same")
			activitytest.RemoveJob(t, in)
			activitytest.RequireJobGone(t, in)
		})
	}
}

func TestAJobIsStoppedAtItsDeadline(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
	end, kill := activitytest.Running(t, in)
	kill()
	require.ErrorIs(t, <-end, context.Canceled)
	in.Deadline = activitytest.InSeconds(1)
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
	require.ErrorContains(t, err, "timed out on node "+in.Node)
	require.ErrorContains(t, err, "runs on node "+in.Node+" in pod ")
	require.Eventually(t, func() bool { return len(activitytest.PodsIn(t, in.Job.Namespace)) == 0 }, activitytest.EventTimeout, 20*time.Millisecond)

	err = activitytest.Jobs().RunJob(t.Context(), in)
	require.ErrorContains(t, err, "timed out on node", "another attempt has the same result, and starts no Job")
	activitytest.RemoveJob(t, in)
	activitytest.RequireJobGone(t, in)
}

func TestAJobIsNotStartedAfterItsDeadline(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), nil)
	in.Deadline = activitytest.InSeconds(-1)
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
	require.ErrorContains(t, err, "it could not be created in time")
	require.Nil(t, activitytest.JobOf(t, in))
}

func TestARunningJobIsRemovedWithItsPodsBeforeTheNodeReturns(t *testing.T) {
	podAnnotations := activitytest.Lasting("1h")
	podAnnotations[devstack.AnnotationLeaveAfter] = "1h"
	in := activitytest.Firmware(t, activitytest.TestNode(t), podAnnotations)
	_, cancel := activitytest.Running(t, in)
	cancel()

	pod := activitytest.PodsIn(t, in.Job.Namespace)[0]
	var err error
	require.Eventually(t, func() bool {
		short, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		err = activitytest.Jobs().RemoveJob(short, in)
		return temporal.ErrorType(err) == jobs.ReasonJobStopping
	}, activitytest.EventTimeout, 10*time.Millisecond, "an attempt that times out returns its wait: %v", &err)
	require.ErrorContains(t, err, pod.Name)

	removed := make(chan error, 1)
	go func() { removed <- activitytest.Jobs().RemoveJob(t.Context(), in) }()
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)))
	require.NoError(t, <-removed)
	require.Empty(t, activitytest.PodsIn(t, in.Job.Namespace))
	activitytest.RequireJobGone(t, in)
}

func TestAJobWaitsWhileItsNodeCannotRunIt(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), nil)
	in.Job.Template.Spec.Template.Spec.NodeSelector = map[string]string{"gpu": "yes"}
	end, kill := activitytest.Starting(t, in, unschedulable)
	kill()
	require.ErrorIs(t, <-end, context.Canceled)
	in.Deadline = activitytest.InSeconds(1)
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cannot be scheduled: ")
	require.Equal(t, jobs.ReasonJobPodPending, temporal.Blockers(err)[0].Reason)
	activitytest.RemoveJob(t, in)
	activitytest.RequireJobGone(t, in)
}

func TestANodeThatIsDeletedEndsItsJob(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
	end, _ := activitytest.Running(t, in)
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, in.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-end))
	activitytest.RemoveJob(t, in)
	job := activitytest.JobOf(t, in) // garbage collection of its pod may take a minute after the node was deleted
	require.True(t, job == nil || job.DeletionTimestamp != nil && !slices.Contains(job.Finalizers, jobs.Finalizer))
}

func TestAnInvalidJobTemplateIsAnInvalidSpecWithItsField(t *testing.T) {
	ref := activitytest.TestNode(t)
	for _, test := range []struct {
		name    string
		change  func(*jobs.RunJobInput)
		message string
	}{
		{"a field that the API server refuses", func(in *jobs.RunJobInput) { in.Job.Template.Spec.Template.Spec.Containers[0].Image = "" }, "action.job.template.spec.template.spec.containers[0].image: Required value"},
		{"a restart policy that Jobs do not support", func(in *jobs.RunJobInput) { in.Job.Template.Spec.Template.Spec.RestartPolicy = "Always" }, "action.job.template.spec.template.spec.restartPolicy: "},
		{"a node of its own choice", func(in *jobs.RunJobInput) { in.Job.Template.Spec.Template.Spec.NodeName = "elsewhere" }, "action.job.template.spec.template.spec.nodeName: must not be set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := activitytest.Firmware(t, ref, nil)
			test.change(&in)
			err := activitytest.Jobs().RunJob(t.Context(), in)
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, test.message)
			require.NoError(t, activitytest.Jobs().RemoveJob(t.Context(), in))
		})
	}
}

// With the shipped bindings, the API server says no more than that the role is not bound there. It may be bound later.
func TestAJobInANamespaceThatDoesNotExistIsForbidden(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), nil)
	in.Job.Namespace = "nowhere"
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, `in the namespace "nowhere"`)

	// An administrator may have bound the role in all namespaces.
	config := activitytest.Stack.Cluster(activitytest.SpokeName).Config
	everywhere := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: config}).Allowing(activitytest.Clusters.Allowed()), kube.Options{})
	t.Cleanup(everywhere.Close)
	err = (&jobs.Activities{Clusters: everywhere}).RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, `action.job.namespace: cluster spoke: namespaces "nowhere" not found`)
}

func TestAJobThatTheClustersFileDoesNotAllowIsNotCreated(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
	in.Job.Template.Spec.Template.Spec.HostPID = true
	err := activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "action.job.template.spec.template.spec.hostPID: Forbidden: the PID namespace of the node: not allowed by allow.jobs[0]")
	require.Nil(t, activitytest.JobOf(t, in))

	in.Job.Template.Spec.Template.Spec.HostPID = false
	end, kill := activitytest.Running(t, in)
	kill()
	require.ErrorIs(t, <-end, context.Canceled)
	require.False(t, *activitytest.PodsIn(t, in.Job.Namespace)[0].Spec.AutomountServiceAccountToken, "unless asked for")
	in.Job.Template.Spec.Template.Spec.HostPID = true
	in.Deadline = activitytest.InSeconds(1)
	err = activitytest.Jobs().RunJob(t.Context(), in)
	require.ErrorContains(t, err, "timed out on node", "a Job that runs is watched, although the file no longer allows it")
	activitytest.RemoveJob(t, in)
	activitytest.RequireJobGone(t, in)
}

func TestAJobOfAnotherOwnerIsNotTouched(t *testing.T) {
	in := activitytest.Firmware(t, activitytest.TestNode(t), activitytest.Lasting("1h"))
	theirs, err := jobs.JobFor(in)
	require.NoError(t, err)
	theirs.Annotations, theirs.Finalizers = nil, nil
	require.NoError(t, activitytest.TestCluster(t).Client.Create(t.Context(), theirs))

	err = activitytest.Jobs().RunJob(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "exists and is not ours: delete it, or give the maintenance another name")
	activitytest.RemoveJob(t, in)
	require.Nil(t, activitytest.JobOf(t, in).DeletionTimestamp)
}

func TestAJobIsPinnedToItsNodeAndKeepsItsNodeSelector(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	var in jobs.RunJobInput
	in.Node, in.Owner, in.Maintenance = "worker-1", "node/spoke/default/fw/first-run", "fw"
	in.Job.Template.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {}},
		},
	}}
	job, err := jobs.JobFor(in)
	require.NoError(t, err)
	terms := job.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for _, term := range terms {
		require.Equal(t, []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"worker-1"}}}, term.MatchFields)
	}
	maintained := corev1.NodeSelectorRequirement{Key: kube.LabelMaintenance, Operator: corev1.NodeSelectorOpIn, Values: []string{kube.MaintenanceLabel(in.Owner)}}
	require.Equal(t, []corev1.NodeSelectorRequirement{zone, maintained}, terms[0].MatchExpressions)
	require.Equal(t, []corev1.NodeSelectorRequirement{maintained}, terms[1].MatchExpressions)
	require.Empty(t, in.Job.Template.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields,
		"the maintenance's own template stays as it is")
}

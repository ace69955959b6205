package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Reasons of the wait for a Job.
const (
	ReasonJobSuspended  = "JobSuspended"
	ReasonJobPodMissing = "JobPodMissing"
	ReasonJobPodPending = "JobPodPending"
	ReasonJobRunning    = "JobRunning"
	// ReasonJobEnding: its pod has succeeded, and the Job controller has not updated the Job yet.
	ReasonJobEnding   = "JobEnding"
	ReasonJobStopping = "JobStopping"
)

// jobSeen is a Job with its pods, as read at one time.
type jobSeen struct {
	run     jobRun
	cluster *kube.Cluster
	// created is the Job at its creation. found is its current state; nil: it is gone.
	created, found *batchv1.Job
	pods           []corev1.Pod
	nodeGone       bool
	// byAgent: an agent has read the Job. There is no cluster, and the pods are not known.
	byAgent bool
}

// lookAtJob reads a Job, its pods and its node. The reader may be a cache that does not have the newest Job yet.
func lookAtJob(ctx context.Context, cluster *kube.Cluster, reader client.Reader, created *batchv1.Job, run jobRun) (jobSeen, error) {
	seen := jobSeen{run: run, cluster: cluster, created: created}
	found := &batchv1.Job{}
	err := reader.Get(ctx, client.ObjectKeyFromObject(created), found)
	if apierrors.IsNotFound(err) {
		err = cluster.Client.Get(ctx, client.ObjectKeyFromObject(created), found)
	}
	switch {
	case err == nil && found.UID == created.UID:
		seen.found = found
	case client.IgnoreNotFound(err) != nil:
		return seen, err
	}
	if seen.pods, err = podsOfJob(ctx, reader, created); err != nil {
		return seen, err
	}
	if run.node == "" {
		return seen, nil
	}
	_, err = cluster.SameNode(ctx, run.node, run.nodeUID)
	seen.nodeGone = apierrors.IsNotFound(err)
	return seen, client.IgnoreNotFound(err)
}

// podsOfJob returns the Job's pods, the newest first.
func podsOfJob(ctx context.Context, reader client.Reader, job *batchv1.Job) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := reader.List(ctx, &list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, err
}

// judge returns whether the Job is complete, its wait, or its failure. The end of a Job counts even if it was deleted later, or its
// node is gone.
func (s jobSeen) judge() (*drydockv1.Wait, bool, error) {
	if s.found == nil {
		return nil, false, s.deleted("another client removed it")
	}
	if finished(s.found, batchv1.JobComplete) != nil {
		return nil, true, nil
	}
	if failed := finished(s.found, batchv1.JobFailed); failed != nil {
		return nil, false, s.failed(*failed)
	}
	if at := s.found.DeletionTimestamp; at != nil {
		// Instants in objects have no fractions of a second.
		if s.run.deadline != nil && !at.Time.Before(s.run.deadline.Truncate(time.Second)) {
			return nil, false, s.timedOut("it was stopped then")
		}
		return nil, false, s.deleted("another client deleted it at " + at.UTC().Format(time.RFC3339))
	}
	if s.nodeGone {
		return nil, false, activitykit.NodeGone(s.cluster.Name, s.run.node)
	}
	return s.wait(), false, nil
}

func finished(job *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	for _, c := range job.Status.Conditions {
		if c.Type == conditionType && c.Status == corev1.ConditionTrue {
			return &c
		}
	}
	return nil
}

// wait returns the wait for the Job.
func (s jobSeen) wait() *drydockv1.Wait {
	active := slices.IndexFunc(s.pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning
	})
	succeeded := slices.IndexFunc(s.pods, func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	switch {
	case s.found.Spec.Suspend != nil && *s.found.Spec.Suspend:
		return &drydockv1.Wait{Reason: ReasonJobSuspended, Message: jobPath(s.found) + " is suspended until spec.suspend is set to false"}
	case s.byAgent:
		return s.waitOfStatus()
	case active < 0 && succeeded >= 0:
		return &drydockv1.Wait{Reason: ReasonJobEnding, Message: fmt.Sprintf("%s: pod %s has succeeded; the Job controller has not updated the Job yet", jobPath(s.found), s.pods[succeeded].Name)}
	case active < 0:
		return &drydockv1.Wait{Reason: ReasonJobPodMissing, Message: jobPath(s.found) + " has no running pod" + s.failures()}
	}
	pod := s.pods[active]
	if pod.Status.Phase == corev1.PodRunning {
		return &drydockv1.Wait{Reason: ReasonJobRunning, Message: fmt.Sprintf("%s runs on node %s in pod %s%s", jobPath(s.found), pod.Spec.NodeName, pod.Name, s.failures())}
	}
	why := pending(pod)
	return &drydockv1.Wait{
		Reason:   ReasonJobPodPending,
		Message:  fmt.Sprintf("%s: pod %s %s%s", jobPath(s.found), pod.Name, why, s.failures()),
		Blockers: []drydockv1.Blocker{{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Reason: ReasonJobPodPending, Message: why}},
	}
}

// waitOfStatus returns the wait for a Job whose pods are not known.
func (s jobSeen) waitOfStatus() *drydockv1.Wait {
	status := &s.found.Status
	switch {
	case status.Active == 0 && status.Succeeded > 0:
		return &drydockv1.Wait{Reason: ReasonJobEnding, Message: jobPath(s.found) + ": its pod has succeeded; the Job controller has not updated the Job yet"}
	case status.Active == 0:
		return &drydockv1.Wait{Reason: ReasonJobPodMissing, Message: jobPath(s.found) + " has no running pod" + s.failures()}
	case status.Ready != nil && *status.Ready == 0:
		return &drydockv1.Wait{Reason: ReasonJobPodPending, Message: jobPath(s.found) + ": its pod is not ready" + s.failures()}
	}
	return &drydockv1.Wait{Reason: ReasonJobRunning, Message: jobPath(s.found) + " runs" + s.failures()}
}

func (s jobSeen) failures() string {
	if s.found.Status.Failed == 0 {
		return ""
	}
	return fmt.Sprintf("; %d pods of it have failed", s.found.Status.Failed)
}

// pending describes the wait of a pod that does not run yet.
func pending(pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "cannot be scheduled: " + c.Message
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := container.State.Waiting; w != nil {
			return strings.TrimSuffix(fmt.Sprintf("waits for container %s: %s: %s", container.Name, w.Reason, w.Message), ": ")
		}
	}
	return "has not started yet"
}

// failed returns JobFailed with the message of the container that failed last.
func (s jobSeen) failed(condition batchv1.JobCondition) error {
	errType := temporal.ErrJobFailed
	if condition.Reason == batchv1.JobReasonDeadlineExceeded {
		errType = s.run.timedOut
	}
	message := fmt.Sprintf("%s failed on %s: %s: %s", jobPath(s.created), s.run.where(), condition.Reason, condition.Message)
	pod, container := lastFailure(s.pods)
	if pod == nil && s.byAgent {
		message += fmt.Sprintf("; its log is on the cluster: kubectl logs -n %s job/%s", s.created.Namespace, s.created.Name)
	}
	if pod == nil {
		return temporal.Error(errType, message, nil)
	}
	exit := exited(*container)
	return temporal.Error(errType, fmt.Sprintf("%s; in pod %s %s", message, pod.Name, exit), nil,
		drydockv1.Blocker{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Reason: condition.Reason, Message: exit, Since: &container.State.Terminated.FinishedAt})
}

// lastFailure returns the container that failed last, and its pod.
func lastFailure(pods []corev1.Pod) (*corev1.Pod, *corev1.ContainerStatus) {
	var pod *corev1.Pod
	var last *corev1.ContainerStatus
	for i := range pods {
		for _, container := range slices.Concat(pods[i].Status.InitContainerStatuses, pods[i].Status.ContainerStatuses) {
			end := container.State.Terminated
			if end == nil || end.ExitCode == 0 || last != nil && !end.FinishedAt.After(last.State.Terminated.FinishedAt.Time) {
				continue
			}
			pod, last = &pods[i], &container
		}
	}
	return pod, last
}

// exited describes how a container ended, with the end of its message, which can be a whole log.
func exited(container corev1.ContainerStatus) string {
	const limit = 500
	end := container.State.Terminated
	said := lastBytes(strings.TrimSpace(end.Message), limit)
	how := fmt.Sprintf("container %s exited with code %d (%s)", container.Name, end.ExitCode, end.Reason)
	if said != "" {
		how += ": " + said
	}
	return how
}

func (s jobSeen) deleted(how string) error {
	message := fmt.Sprintf("%s was deleted before it was complete: %s; whether its work on %s was done is not known", jobPath(s.created), how, s.run.where())
	return temporal.Error(temporal.ErrJobFailed, message, nil)
}

func (s jobSeen) timedOut(seen string, blockers ...drydockv1.Blocker) error {
	message := fmt.Sprintf("%s timed out on %s: not complete at %s: %s", jobPath(s.created), s.run.where(), s.run.deadline.UTC().Format(time.RFC3339), seen)
	return temporal.Error(s.run.timedOut, message, nil, blockers...)
}

func stopping(job *batchv1.Job, pods []string) *drydockv1.Wait {
	return &drydockv1.Wait{
		Reason:  ReasonJobStopping,
		Message: fmt.Sprintf("%s was stopped; waiting until its pods are gone: %s", jobPath(job), strings.Join(pods, ", ")),
	}
}

func jobPath(job *batchv1.Job) string { return "job " + job.Namespace + "/" + job.Name }

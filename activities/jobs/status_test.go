package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAWaitForAJobReportsItsPods(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "patch"}}
	pod := func(name string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: phase}}
	}
	for _, c := range []struct {
		pods            []corev1.Pod
		reason, message string
	}{
		{nil, ReasonJobPodMissing, "job ops/patch has no running pod"},
		{[]corev1.Pod{pod("a", corev1.PodFailed)}, ReasonJobPodMissing, "job ops/patch has no running pod"},
		{[]corev1.Pod{pod("a", corev1.PodPending)}, ReasonJobPodPending, "job ops/patch: pod a has not started yet"},
		{[]corev1.Pod{pod("a", corev1.PodRunning)}, ReasonJobRunning, "job ops/patch runs on node n1 in pod a"},
		{[]corev1.Pod{pod("b", corev1.PodFailed), pod("a", corev1.PodSucceeded)}, ReasonJobEnding, "job ops/patch: pod a has succeeded; the Job controller has not updated the Job yet"},
		{[]corev1.Pod{pod("b", corev1.PodRunning), pod("a", corev1.PodSucceeded)}, ReasonJobRunning, "job ops/patch runs on node n1 in pod b"},
	} {
		wait := jobSeen{found: job, pods: c.pods}.wait()
		require.Equal(t, c.reason, wait.Reason)
		require.Equal(t, c.message, wait.Message)
	}
}

func TestAWaitForAJobOfAnAgentIsReadFromItsStatus(t *testing.T) {
	for _, c := range []struct {
		status          batchv1.JobStatus
		reason, message string
	}{
		{batchv1.JobStatus{}, ReasonJobPodMissing, "job ops/patch has no running pod"},
		{batchv1.JobStatus{Active: 1, Ready: new(int32(0))}, ReasonJobPodPending, "job ops/patch: its pod is not ready"},
		{batchv1.JobStatus{Active: 1, Ready: new(int32(1)), Failed: 2}, ReasonJobRunning, "job ops/patch runs; 2 pods of it have failed"},
		{batchv1.JobStatus{Active: 1}, ReasonJobRunning, "job ops/patch runs"},
		{batchv1.JobStatus{Succeeded: 1}, ReasonJobEnding, "job ops/patch: its pod has succeeded; the Job controller has not updated the Job yet"},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "patch"}, Status: c.status}
		wait := jobSeen{found: job, byAgent: true}.wait()
		require.Equal(t, c.reason, wait.Reason)
		require.Equal(t, c.message, wait.Message)
	}
}

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
)

func TestRunsOfOneChainAreListedOnce(t *testing.T) {
	const (
		continued = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
		failed    = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
		running   = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	)
	statuses := []enumspb.WorkflowExecutionStatus{failed, continued, continued, failed, continued, running}
	var executions []*workflowpb.WorkflowExecutionInfo
	for i, status := range statuses {
		executions = append([]*workflowpb.WorkflowExecutionInfo{{ // in the order of Temporal, the newest first
			Execution: &commonpb.WorkflowExecution{RunId: fmt.Sprint(i)}, Status: status, StartTime: timestamppb.New(time.Unix(int64(i), 0)),
		}}, executions...)
	}
	var got [][]string
	for _, chain := range chained(executions) {
		var ids []string
		for _, execution := range chain {
			ids = append(ids, execution.GetExecution().GetRunId())
		}
		got = append(got, ids)
	}
	require.Equal(t, [][]string{{"0"}, {"1", "2", "3"}, {"4", "5"}}, got)
	require.Empty(t, chained(nil))
}

func TestARunWithAHubObjectIsListedOnce(t *testing.T) {
	known, kept := []rolloutRun{{RunID: "b"}, {RunID: "c"}}, rolloutRun{RunID: "a"}
	require.Equal(t, []rolloutRun{{RunID: "a"}, {RunID: "b"}, {RunID: "c"}}, withKept(known, &kept, 3))
	require.Equal(t, known, withKept(known, &kept, 2), "the saved run is the oldest")
	require.Equal(t, known, withKept(known, &rolloutRun{RunID: "c"}, 0))
	require.Equal(t, known, withKept(known, nil, 0))
}

// listsRuns uses rollout changed of an earlier step, which failed and was retried.
func (s *stage) listsRuns(t *testing.T) {
	runs := awaitOutput(t, func(h rolloutHistory) bool {
		return len(h.Runs) == 2 && h.Runs[0].EndedAt != nil && h.Runs[1].EndedAt != nil
	}, "upgrade", "history", "prod/changed").Runs
	first, retry := runs[0], runs[1]
	require.Equal(t, ranv1.ReasonFailed, first.Outcome)
	require.Equal(t, "Failed on 1 of 2 clusters; failed: spoke-2", first.Message)
	require.Equal(t, &ranv1.ClusterCounts{Total: 2, Complete: 1, Failed: 1}, first.Clusters)
	require.Equal(t, actor(), first.StartedBy)
	require.Nil(t, first.Retry)
	require.Equal(t, ranv1.ReasonCompleted, retry.Outcome)
	require.Equal(t, &ranv1.ClusterCounts{Total: 2, Complete: 2}, retry.Clusters)
	require.Equal(t, &rollout.RetryRequest{Actor: actor(), Reason: "budget fixed"}, retry.Retry)
	require.False(t, retry.StartedAt.Before(*first.EndedAt))
	require.False(t, retry.EndedAt.Before(*retry.StartedAt))

	require.Equal(t, []rolloutRun{retry}, parsed[rolloutHistory](t, "upgrade", "history", "changed", "-n", "prod", "--limit", "1").Runs)
	require.Equal(t, first.RunID+"\n"+retry.RunID+"\n", succeeds(t, "upgrade", "history", "prod/changed", "--limit", "0", "-o", "name"))
	table := succeeds(t, "upgrade", "history", "prod/changed")
	require.Regexp(t, `^RUN +STARTED +ENDED +OUTCOME +COMPLETE +FAILED +BY +MESSAGE\n`, table)
	require.Regexp(t, `(?m)^`+first.RunID+` .* Failed +1/2 +1 +`+actor()+` +Failed on 1 of 2 clusters; failed: spoke-2$`, table)
	require.Regexp(t, `(?m)^`+retry.RunID+` .* Completed +2/2 +0 +`+actor()+`, retry +`, table)

	startRollout(t, "ended")
	reaches(t, "ended", clustersRunning)
	atWork := awaitOutput(t, func(h rolloutHistory) bool { return len(h.Runs) == 1 && h.Runs[0].Outcome == ranv1.ReasonInProgress }, "upgrade", "history", "prod/ended").Runs
	require.Nil(t, atWork[0].EndedAt)
	require.NoError(t, s.client.TerminateWorkflow(t.Context(), "cgu/prod/ended", "", "wrong fleet"))
	terminated := awaitOutput(t, func(h rolloutHistory) bool {
		return len(h.Runs) == 1 && h.Runs[0].Outcome == "Terminated" && h.Runs[0].Clusters != nil
	}, "upgrade", "history", "prod/ended").Runs
	require.Regexp(t, `^terminated by .+: wrong fleet$`, terminated[0].Message)
	require.Equal(t, int32(1), terminated[0].Clusters.Running, "a worker answers the query")
	for _, watch := range []string{"--watch=false", "--watch"} {
		got := drydock(t, "upgrade", "status", "prod/ended", watch)
		require.Equal(t, exitFailed, got.status, got.stdout)
		require.Regexp(t, `^error: rollout prod/ended has stopped: its workflow was terminated by .+: wrong fleet\n$`, got.stderr)
	}

	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: temporal has no run of rollout prod/unknown: `drydock upgrade list` lists the rollouts it retains, and --hub-context shows the run saved on the hub\n",
	}, drydock(t, "upgrade", "history", "prod/unknown"))
}

// listsTheSavedRun: Temporal has deleted the run.
func listsTheSavedRun(t *testing.T, hub *rest.Config) {
	kept := `
metadata: {name: july, namespace: default}
status:
  conditions:
  - {type: Succeeded, status: "False", reason: TimedOut, message: "Policy remediation took too long; timed out: c2"}
  counts: {total: 2, complete: 1, timedout: 1}
  status: {startedAt: "2026-07-01T20:00:00Z", completedAt: "2026-07-02T00:00:00Z"}`
	objects, err := kubernetes.NewForConfig(hub)
	require.NoError(t, err)
	_, err = objects.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.SystemNamespace}}, metav1.CreateOptions{})
	require.NoError(t, ctrlclient.IgnoreAlreadyExists(err))
	_, err = objects.CoreV1().ConfigMaps(kube.SystemNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: rollout.SavedName("default", "july"), Annotations: map[string]string{"drydock.dev/owner": "cgu/default/july/0a1b"}},
		Data:       map[string]string{rollout.SavedKey: kept},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	runs := parsed[rolloutHistory](t, "upgrade", "history", "july", "--hub-context", "hub").Runs
	require.Len(t, runs, 1)
	began, ended := time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC), time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC)
	require.WithinDuration(t, began, *runs[0].StartedAt, 0)
	require.WithinDuration(t, ended, *runs[0].EndedAt, 0)
	runs[0].StartedAt, runs[0].EndedAt = nil, nil
	require.Equal(t, rolloutRun{
		RunID: "0a1b", KeptBy: "hub", Outcome: ranv1.ReasonTimedOut, Message: "Policy remediation took too long; timed out: c2",
		Clusters: &ranv1.ClusterCounts{Total: 2, Complete: 1, TimedOut: 1},
	}, runs[0])
	require.Contains(t, drydock(t, "upgrade", "history", "june", "--hub-context", "hub").stderr, "error: temporal has no run of rollout default/june")
}

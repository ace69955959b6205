package jobs

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// FuzzJobStatus judges Jobs and pods whose statuses others wrote. Only a condition Complete ends the wait for a Job as done.
func FuzzJobStatus(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{}`), false, true)
	f.Add([]byte(`{"conditions":[{"type":"Complete","status":"True"}]}`), []byte(`{"phase":"Running"}`), false, false)
	f.Add([]byte(`{"conditions":[{"type":"Failed","status":"True","reason":"DeadlineExceeded","message":"x"}],"failed":-1}`), []byte(`{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":1,"message":"\u0000"}}}]}`), false, false)
	f.Add([]byte(`{"conditions":[{"type":"Complete","status":"Unknown"},{"type":"Failed","status":"False"}]}`), []byte(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","message":"full"}]}`), true, true)
	f.Add([]byte(`{"conditions":null}`), []byte(`{"phase":"Pending","initContainerStatuses":[{"state":{"waiting":{}}},{"state":null}]}`), false, false)
	f.Fuzz(func(t *testing.T, jobStatus, podStatus []byte, deleted, byAgent bool) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "patch"}}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "patch-1"}}
		if json.Unmarshal(jobStatus, &job.Status) != nil || json.Unmarshal(podStatus, &pod.Status) != nil {
			return
		}
		now := metav1.Now()
		if deleted {
			job.DeletionTimestamp = &now
		}
		seen := jobSeen{
			run:     jobRun{node: "n1", deadline: new(now.Add(time.Hour)), timedOut: temporal.ErrJobTimedOut},
			cluster: &kube.Cluster{Name: "c"}, created: job, found: job, pods: []corev1.Pod{pod},
		}
		seen.byAgent = byAgent
		wait, done, err := seen.judge()
		complete := slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		})
		require.Equal(t, complete, done)
		require.False(t, done && err != nil, "a Job is done or has failed")
		if wait != nil {
			cut := temporal.CutWait(*wait)
			_, unreadable := json.Marshal(cut)
			require.NoError(t, unreadable)
			require.LessOrEqual(t, len(cut.Message), 2000)
		}
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 9000)
			require.True(t, utf8.ValidString(err.Error()))
		}
	})
}

package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

// A deadline is the workflow's, by the clock of the Temporal server. The worker's may be hours off.
func TestADeadlineIsByTheClockOfTheServer(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	shop.pod(t, ref.Node, "web")
	budget := shop.budget(t, "web", 1, 1)
	mark(t, ref)
	drains, in := &Drains{Clusters: clusters}, DrainInput{NodeRef: ref, Attempt: 1}

	behind := time.Now().Add(10 * time.Hour) // by the server's clock, so that the worker's is behind
	passed := behind.Add(-time.Hour)
	in.Deadline = &passed
	require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(attempt{number: 1, at: behind}.run(drains.Drain, in, nil)))
	completion := AwaitPodCompletionInput{NodeRef: ref, Deadline: &passed}
	require.NoError(t, attempt{number: 1, at: behind}.run(drains.AwaitPodCompletion, completion, nil), "it goes on without the pod")
	healthy := AwaitNodeHealthyInput{NodeRef: ref, Since: behind, Deadline: new(behind.Add(time.Hour))}
	require.NoError(t, attempt{number: 1, at: behind}.run((&Health{Clusters: clusters}).AwaitNodeHealthy, healthy, nil), "what is seen now is evidence")

	lower(t, budget, 0)
	ahead := time.Now().Add(-10 * time.Hour)
	in.Deadline = new(ahead.Add(time.Hour))
	require.NoError(t, attempt{number: 1, at: ahead}.run(drains.Drain, in, nil), "there is an hour left")
	job := firmware(t, ref, nil)
	job.Deadline = in.Deadline
	require.NoError(t, attempt{number: 1, at: ahead}.run(jobs().RunJob, job, nil))
	removeJob(t, job)
}

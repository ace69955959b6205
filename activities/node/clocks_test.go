package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/internal/temporal"
)

// Deadlines use the clock of the Temporal server. The clock of the worker may differ by hours.
func TestDeadlinesUseTheClockOfTheServer(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	budget := shop.Budget(t, "web", 1, 1)
	activitytest.Mark(t, ref)
	drains, in := &drain.Activities{Clusters: activitytest.Clusters}, drain.Input{NodeRef: ref, Attempt: 1}

	behind := time.Now().Add(10 * time.Hour) // by the server's clock, so that the worker's is behind
	passed := behind.Add(-time.Hour)
	in.Deadline = &passed
	require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(activitytest.Attempt{Number: 1, At: behind}.Run(drains.Drain, in, nil)))
	completion := drain.AwaitPodCompletionInput{NodeRef: ref, Deadline: &passed}
	require.NoError(t, activitytest.Attempt{Number: 1, At: behind}.Run(drains.AwaitPodCompletion, completion, nil), "it continues without the pod")
	healthy := health.AwaitNodeHealthyInput{NodeRef: ref, Since: behind, Deadline: new(behind.Add(time.Hour))}
	require.NoError(t, activitytest.Attempt{Number: 1, At: behind}.Run((&health.Activities{Clusters: activitytest.Clusters}).AwaitNodeHealthy, healthy, nil), "the current state counts")

	activitytest.Lower(t, budget, 0)
	ahead := time.Now().Add(-10 * time.Hour)
	in.Deadline = new(ahead.Add(time.Hour))
	require.NoError(t, activitytest.Attempt{Number: 1, At: ahead}.Run(drains.Drain, in, nil), "there is an hour left")
	job := activitytest.Firmware(t, ref, nil)
	job.Deadline = in.Deadline
	require.NoError(t, activitytest.Attempt{Number: 1, At: ahead}.Run(activitytest.Jobs().RunJob, job, nil))
	activitytest.RemoveJob(t, job)
}

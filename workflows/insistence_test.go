package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// An attempt that gets through waits, and the workflow hears nothing of that: it has to end for the reason why others have failed to be taken back.
func TestAWatchThatCanWaitAgainIsNotSaidToFailUntilThereIsNews(t *testing.T) {
	for name, others := range map[string]*drydockv1.Wait{
		"nothing else is waited for": nil,
		"but what others wait for":   {Reason: "Draining", Message: "3 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			answers := w.Now().Add(time.Hour)
			var waiting []activity.Info
			w.RegisterActivityWithOptions(func(ctx context.Context) error {
				if w.Now().Before(answers) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				waiting = append(waiting, activity.GetInfo(ctx))
				return activity.ErrResultPending
			}, activity.RegisterOptions{Name: "AwaitNews"})
			var wait *drydockv1.Wait
			w.RegisterDelayedCallback(func() {
				require.Equal(t, temporal.ErrClusterUnreachable, wait.Reason)
				if others != nil {
					wait = others
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				require.Equal(t, heardWait, waiting[0].StartToCloseTimeout)
				// As the server says when that is over; the test environment does not.
				require.NoError(t, w.CompleteActivity(waiting[0].TaskToken, nil, sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)))
			}, 2*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, others, wait)
				w.mu.Lock()
				defer w.mu.Unlock()
				require.Equal(t, unlimitedWait, waiting[len(waiting)-1].StartToCloseTimeout)
				w.CancelWorkflow()
			}, 3*time.Hour)
			w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
				reason := reasonKeeper{attributes: &attributeKeeper{ctx: ctx}, wait: &wait, show: func() {}}
				insist := insistence{taskQueue: temporal.TaskQueue, waiting: reason.set}
				return insist.watch(ctx, "watch for news", "AwaitNews", nil, nil)
			}, "")
			require.True(t, w.IsWorkflowCompleted())
		})
	}
}

func TestAClusterThatDoesNotAnswerForLongLeavesRoomInTheHistoryAndIsHeardAtOnce(t *testing.T) {
	w := newWorld(t)
	answers := w.Now().Add(24 * time.Hour)
	w.fail["PlanMaintenance"] = func(int) error {
		if w.Now().Before(answers) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	rounds := 0
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) { rounds++ }}
		var nodes *activities.Nodes
		return insist.effect(ctx, "mark a node as planned", nodes.PlanMaintenance, activities.PlanMaintenanceInput{}, nil)
	}, "")
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.Less(t, rounds, 200, "a day has 8640 times 10 s")
	require.WithinDuration(t, answers, w.Now(), 2*laterRetry)
}

// Of a Job at work, three activities can fail at once: that which waits for it, and those that follow its locks and how long it takes.
func TestAnOutageOfTwoMonthsLeavesRoomInTheHistory(t *testing.T) {
	const (
		outage       = 60 * 24 * time.Hour
		atOnce       = 3
		eventsARound = 6 // the activity is scheduled, starts and fails; so a workflow task is scheduled, starts and completes
	)
	rounds, longest := 0, time.Duration(0)
	for passed := time.Duration(0); passed < outage; rounds++ {
		var options workflow.ActivityOptions
		insistence{}.plan(nil, &options, rounds+1)
		length := time.Duration(options.RetryPolicy.MaximumAttempts) * laterRetry
		require.GreaterOrEqual(t, length, longest, "none is shorter than the one before")
		longest = length
		passed += length
	}
	require.LessOrEqual(t, longest, outageRound)
	require.Less(t, atOnce*eventsARound*rounds, mostEvents*2/3)
}

// It may have moved, or its worker may only be slow to take what is asked of it.
func TestThatNobodyServesAClusterIsFoundSoonAtFirstAndThenWithPatience(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		patience := func(i insistence, failed int) time.Duration {
			i.taskQueue = temporal.ClusterTaskQueue("c1")
			var options workflow.ActivityOptions
			i.plan(ctx, &options, failed)
			return options.ScheduleToStartTimeout
		}
		require.Equal(t, laterRetry, patience(insistence{}, 0))
		require.Equal(t, laterRetry, patience(insistence{}.until(workflow.Now(ctx).Add(time.Second)), 0))
		require.Equal(t, usualRound, patience(insistence{}, 1))
		require.Equal(t, usualRound, patience(insistence{}.until(workflow.Now(ctx)), 0), "there is no other round")
		return nil
	}, "")
	require.NoError(t, w.GetWorkflowError())
}

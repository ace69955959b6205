package kit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A working attempt waits silently, so the reason of the failed attempts is cleared only when it ends.
func TestTheReasonOfAFailedWatchEndsWhenTheWatchWorksAgain(t *testing.T) {
	for name, others := range map[string]*drydockv1.Wait{
		"no other wait":              nil,
		"a wait of another activity": {Reason: "Draining", Message: "3 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			answers := w.Now().Add(time.Hour)
			var waiting []activity.Info
			w.RegisterActivityWithOptions(func(ctx context.Context) error {
				if w.Now().Before(answers) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				w.Mu.Lock()
				defer w.Mu.Unlock()
				waiting = append(waiting, activity.GetInfo(ctx))
				return activity.ErrResultPending
			}, activity.RegisterOptions{Name: "AwaitNews"})
			var wait *drydockv1.Wait
			w.RegisterDelayedCallback(func() {
				require.Equal(t, temporal.ErrClusterUnreachable, wait.Reason)
				if others != nil {
					wait = others
				}
				w.Mu.Lock()
				defer w.Mu.Unlock()
				require.Equal(t, kit.WatchProbe, waiting[0].StartToCloseTimeout)
				// The server sets this timeout type; the test environment does not.
				require.NoError(t, w.CompleteActivity(waiting[0].TaskToken, nil, sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)))
			}, 2*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, others, wait)
				w.Mu.Lock()
				defer w.Mu.Unlock()
				require.Equal(t, kit.UnlimitedWait, waiting[len(waiting)-1].StartToCloseTimeout)
				w.CancelWorkflow()
			}, 3*time.Hour)
			w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
				reason := kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &wait, Show: func() {}}
				retrier := kit.Retrier{TaskQueue: temporal.TaskQueue, Report: reason.Set}
				return retrier.Watch(ctx, "watch for news", "AwaitNews", nil, nil)
			}, "")
			require.True(t, w.IsWorkflowCompleted())
		})
	}
}

func TestALongOutageAddsLittleHistoryAndRecoveryIsNoticedSoon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	answers := w.Now().Add(24 * time.Hour)
	w.Fail["PlanMaintenance"] = func(int) error {
		if w.Now().Before(answers) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	rounds := 0
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		retrier := kit.Retrier{TaskQueue: temporal.TaskQueue, Report: func(workflow.Context, string, string) { rounds++ }}
		var nodes *node.Activities
		return retrier.Run(ctx, "mark a node as planned", nodes.PlanMaintenance, node.PlanMaintenanceInput{}, nil)
	}, "")
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.Less(t, rounds, 200, "a retry each 10 s would be 8640 rounds")
	require.WithinDuration(t, answers, w.Now(), 2*kit.LaterRetry)
}

// While a Job runs, three activities can fail in parallel: the wait for the Job, and those that follow the locks and the staleness.
func TestAnOutageOfTwoMonthsFitsIntoTheHistory(t *testing.T) {
	const (
		outage       = 60 * 24 * time.Hour
		parallel     = 3
		eventsARound = 6 // the activity is scheduled, starts and fails; so a workflow task is scheduled, starts and completes
	)
	rounds, longest := 0, time.Duration(0)
	for passed := time.Duration(0); passed < outage; rounds++ {
		var options workflow.ActivityOptions
		kit.Retrier{}.Plan(nil, &options, rounds+1)
		length := time.Duration(options.RetryPolicy.MaximumAttempts) * kit.LaterRetry
		require.GreaterOrEqual(t, length, longest, "no round is shorter than the one before")
		longest = length
		passed += length
	}
	require.LessOrEqual(t, longest, kit.OutageRound)
	require.Less(t, parallel*eventsARound*rounds, kit.MaxEvents*2/3)
}

// The cluster may have moved, or its worker may be slow.
func TestAClusterWithoutWorkersIsReportedSoonAndThenRetriedWithLongerPauses(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		startTimeout := func(i kit.Retrier, failed int) time.Duration {
			i.TaskQueue = temporal.ClusterTaskQueue("c1")
			var options workflow.ActivityOptions
			i.Plan(ctx, &options, failed)
			return options.ScheduleToStartTimeout
		}
		require.Equal(t, kit.LaterRetry, startTimeout(kit.Retrier{}, 0))
		require.Equal(t, kit.LaterRetry, startTimeout(kit.Retrier{}.Until(workflow.Now(ctx).Add(time.Second)), 0))
		require.Equal(t, kit.UsualRound, startTimeout(kit.Retrier{}, 1))
		require.Equal(t, kit.UsualRound, startTimeout(kit.Retrier{}.Until(workflow.Now(ctx)), 0), "no round follows")
		return nil
	}, "")
	require.NoError(t, w.GetWorkflowError())
}

func TestATimeoutIsAFailureOfAnEffectButNotOfAWatch(t *testing.T) {
	wait, effect := workflow.ActivityOptions{HeartbeatTimeout: kit.HeartbeatTimeout}, workflow.ActivityOptions{}
	tooLong := sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
	require.False(t, kit.Uneventful(errors.New("boom"), wait))
	require.False(t, kit.Uneventful(sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil), wait))
	require.True(t, kit.Uneventful(tooLong, wait))
	require.False(t, kit.Uneventful(tooLong, effect))
}

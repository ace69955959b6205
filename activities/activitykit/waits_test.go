package activitykit_test

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// The annotations that control what a wait for a node observes.
const (
	annotationReason = "test.drydock.dev/reason"
	annotationDone   = "test.drydock.dev/done"
)

// awaitDone waits until a node is annotated as done. It observes the reason in another annotation.
func awaitDone(ctx context.Context, waits activitykit.Waits, cluster *kube.Cluster, node string) error {
	watched := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}}
	return waits.Await(ctx, cluster, watched, func(ctx context.Context) (temporal.Observation, bool, error) {
		found, err := cluster.Node(ctx, node)
		_, done := found.Annotations[annotationDone]
		return temporal.Observation{Wait: &drydockv1.Wait{Reason: found.Annotations[annotationReason]}}, done, err
	})
}

// inActivity runs awaitDone as an activity in the background.
func inActivity(t *testing.T, waits activitykit.Waits, node string, prepare func(*testsuite.TestActivityEnvironment)) (ended chan error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	AwaitDone := func(ctx context.Context) error { return awaitDone(ctx, waits, cluster, node) }
	environment.RegisterActivity(AwaitDone)
	if prepare != nil {
		prepare(environment)
	}
	ended = make(chan error, 1)
	go func() {
		_, err := environment.ExecuteActivity(AwaitDone)
		ended <- err
	}()
	return ended
}

func TestAWaitReportsChangesAtALimitedRateAndNeverLosesTheLast(t *testing.T) {
	ref := activitytest.TestNode(t)
	reported := &activitytest.Signals{}
	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationReason, "First"))
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	began := time.Now()
	ended := inActivity(t, activitykit.Waits{Temporal: reported}, ref.Node, nil)
	require.Eventually(t, func() bool { return len(reported.Reasons()) == 1 }, time.Minute, 10*time.Millisecond)

	for _, reason := range []string{"Second", "Third", "Last"} {
		activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationReason, reason))
	}
	require.Eventually(t, func() bool {
		reasons := reported.Reasons()
		return reasons[len(reasons)-1] == "Last"
	}, time.Minute, 10*time.Millisecond)
	reports := len(reported.Reasons())
	require.LessOrEqual(t, reports, 1+int(time.Since(began)/activitykit.ReportInterval), "2 unless the machine is slow")
	require.Equal(t, "First", reported.Reasons()[0])
	activitytest.Changed(t, ref.Node, activitytest.Annotated("test.drydock.dev/other", "not observed"))

	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationDone, ""))
	require.NoError(t, <-ended)
	require.Len(t, reported.Reasons(), reports)
	require.False(t, reported.Observed[0].Wait.Since.IsZero())
}

func TestAWaitThatAlwaysChangesKeepsItsHistorySmall(t *testing.T) {
	require.Equal(t, activitykit.ReportInterval, activitykit.PauseAfter(1))
	reports, prompt, firstDay := 0, time.Duration(0), 0
	for elapsed := time.Duration(0); elapsed < 60*24*time.Hour; elapsed += activitykit.PauseAfter(reports) {
		reports++
		if longest := activitykit.PauseAfter(reports) * 5 / 4; longest <= 4500*time.Millisecond { // the report itself takes time, too
			prompt = elapsed
		}
		if elapsed < 24*time.Hour {
			firstDay = reports
		}
	}
	require.Greater(t, prompt, time.Hour, "changes are reported within 5 s")
	require.Less(t, firstDay, 1500)
	require.Less(t, reports, 4000, "in two months")
	require.Equal(t, activitykit.LongestReportInterval, activitykit.PauseAfter(1_000_000))
}

func TestARetriedWaitKeepsItsReportRate(t *testing.T) {
	const sent = 2 * activitykit.UsualReports
	for name, before := range map[string]struct {
		input   int
		details any
	}{
		"another round":    {input: sent},
		"the next attempt": {details: activitykit.HeartbeatDetails{Sent: sent}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := &activitytest.Signals{}
				suite := &testsuite.WorkflowTestSuite{}
				environment := suite.NewTestActivityEnvironment()
				if before.details != nil {
					environment.SetHeartbeatDetails(before.details)
				}
				var left activitykit.HeartbeatDetails
				environment.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
					_ = details.Get(&left)
				})
				observe := func(ctx context.Context) error {
					r := activitykit.NewReport(ctx, nil)
					r.Sent = max(r.Sent, before.input)
					defer r.Start(ctx, reported)()
					changes := time.NewTicker(activitykit.ReportInterval)
					defer changes.Stop()
					for i := range 10 {
						r.Observe(temporal.Observation{Drain: &maintenancev1.DrainStatus{Evicted: int32(i)}})
						<-changes.C
					}
					return nil
				}
				environment.RegisterActivity(observe)
				_, err := environment.ExecuteActivity(observe)
				require.NoError(t, err)
				require.Len(t, reported.Observed, 1)
				require.Equal(t, sent+1, left.Sent, "the next attempt gets the count")
			})
		})
	}
}

func TestUrgentChangesAreReportedImmediatelyButRateLimited(t *testing.T) {
	const atOnce, later = time.Millisecond, 2 * activitykit.ReportInterval
	held := temporal.Observation{Wait: &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksHeld}}
	failed := temporal.Observation{Urgent: true, Wait: &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksFailed}}
	still := temporal.Observation{Urgent: true, Wait: &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksFailed, Message: "still"}}
	type seen struct {
		temporal.Observation
		after time.Duration
		// reports are expected afterwards.
		reports int
	}
	for sent, steps := range map[int][]seen{
		0:                        {{held, atOnce, 0}, {failed, atOnce, 1}, {still, atOnce, 1}, {held, later, 2}, {failed, atOnce, 3}},
		activitykit.UsualReports: {{held, atOnce, 0}, {failed, atOnce, 0}, {failed, later, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			reported := &activitytest.Signals{}
			environment := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			var want, got []int
			observe := func(ctx context.Context) error {
				r := activitykit.NewReport(ctx, nil)
				r.Sent = sent
				defer r.Start(ctx, reported)()
				for _, s := range steps {
					r.Observe(s.Observation)
					time.Sleep(s.after)
					want, got = append(want, s.reports), append(got, len(reported.Reasons()))
				}
				return nil
			}
			environment.RegisterActivity(observe)
			_, err := environment.ExecuteActivity(observe)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestProgressOfADrainIsReportedInPartsAndAProblemAtOnce(t *testing.T) {
	evicting := func(evicted int32) temporal.Observation {
		return temporal.Observation{Wait: &drydockv1.Wait{Reason: "Evicting"}, Drain: &maintenancev1.DrainStatus{Evicted: evicted}, Progresses: true}
	}
	terminating := evicting(4)
	terminating.Wait.Reason = "Terminating"
	blocked := temporal.Observation{Wait: &drydockv1.Wait{Reason: "BlockedByBudget"}, Drain: &maintenancev1.DrainStatus{Evicted: 4}}
	synctest.Test(t, func(t *testing.T) {
		reported := &activitytest.Signals{}
		environment := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		observe := func(ctx context.Context) error {
			r := activitykit.NewReport(ctx, nil)
			defer r.Start(ctx, reported)()
			r.Observe(evicting(0))
			time.Sleep(time.Minute)
			for evicted := range int32(3) {
				r.Observe(evicting(evicted + 1))
				time.Sleep(time.Second)
			}
			assert.Len(t, reported.Reasons(), 1, "more progress may follow")
			time.Sleep(2 * time.Second)
			assert.Len(t, reported.Reasons(), 2, "5 s after the change")
			time.Sleep(time.Minute)
			r.Observe(terminating)
			time.Sleep(3 * time.Second)
			assert.Len(t, reported.Reasons(), 2, "another reason is progress, too")
			time.Sleep(time.Minute)
			for i, observation := range []temporal.Observation{blocked, terminating, evicting(5), blocked} {
				r.Observe(observation)
				time.Sleep(time.Millisecond)
				assert.Len(t, reported.Reasons(), []int{4, 5, 5, 6}[i], "also if progress has not been reported yet")
				if i < 2 {
					time.Sleep(time.Minute)
				}
			}
			return nil
		}
		environment.RegisterActivity(observe)
		_, err := environment.ExecuteActivity(observe)
		require.NoError(t, err)
		require.EqualValues(t, 3, reported.Observed[1].Drain.Evicted)
		require.Equal(t, []string{"Evicting", "Evicting", "Terminating", "BlockedByBudget", "Terminating", "BlockedByBudget"}, reported.Reasons())
	})
}

func TestAChangeAfterTheLastReportIsReportedByTheNextAttempt(t *testing.T) {
	const name = "Observe"
	observation := temporal.Observation{
		Activity: name, Wait: &drydockv1.Wait{Reason: "Evicting", Since: metav1.Unix(1, 0)}, Drain: &maintenancev1.DrainStatus{Evicted: 7},
	}
	for unreported, ends := range map[bool]string{true: temporal.ErrMessage, false: ""} {
		synctest.Test(t, func(t *testing.T) {
			environment := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			environment.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporal.AnswersOnly{}}})
			environment.SetHeartbeatDetails(activitykit.HeartbeatDetails{Observation: observation, Sent: 1, Unreported: unreported})
			observe := func(ctx context.Context) error {
				r := activitykit.NewReport(ctx, nil)
				defer r.Start(ctx, nil)()
				before := r.Observed()
				r.Observe(before)
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Minute):
					return nil
				}
			}
			environment.RegisterActivityWithOptions(observe, activity.RegisterOptions{Name: name})
			_, err := environment.ExecuteActivity(name)
			require.Equal(t, ends, temporal.ErrorType(err), "unreported: %v", unreported)
		})
	}
}

func TestAWaitThatEndsImmediatelyIsNotReported(t *testing.T) {
	ref := activitytest.TestNode(t)
	reported := &activitytest.Signals{}
	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationDone, ""))
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	require.NoError(t, <-inActivity(t, activitykit.Waits{Temporal: reported}, ref.Node, nil))
	require.Empty(t, reported.Reasons())
}

func TestARetriedWaitKeepsItsStartTime(t *testing.T) {
	ref := activitytest.TestNode(t)
	reported := &activitytest.Signals{}
	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationReason, "Same"))
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	ended := inActivity(t, activitykit.Waits{Temporal: reported}, ref.Node, func(environment *testsuite.TestActivityEnvironment) {
		environment.SetHeartbeatDetails(temporal.Observation{Wait: &drydockv1.Wait{Reason: "Same", Since: since}})
	})
	require.Eventually(t, func() bool { return len(reported.Reasons()) == 1 }, time.Minute, 10*time.Millisecond)
	require.True(t, since.Equal(&reported.Observed[0].Wait.Since))

	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationReason, "Another"))
	require.Eventually(t, func() bool { return len(reported.Reasons()) == 2 }, time.Minute, 10*time.Millisecond)
	require.WithinDuration(t, time.Now(), reported.Observed[1].Wait.Since.Time, 10*time.Minute)
	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationDone, ""))
	require.NoError(t, <-ended)
}

func TestAWaitOnAnotherWorkerReportsItsProgress(t *testing.T) {
	ref := activitytest.TestNode(t)
	reported, stopping := &activitytest.Signals{}, make(chan struct{})
	var heartbeat atomic.Pointer[temporal.Observation]
	activitytest.Changed(t, ref.Node, activitytest.Annotated(annotationReason, "Waiting"))
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	ended := inActivity(t, activitykit.Waits{Temporal: reported}, ref.Node, func(environment *testsuite.TestActivityEnvironment) {
		environment.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporal.WorkerShutdown{}}})
		environment.SetWorkerStopChannel(stopping)
		environment.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			var observation temporal.Observation
			if details.Get(&observation) == nil {
				heartbeat.Store(&observation)
			}
		})
	})
	require.Eventually(t, func() bool { return len(reported.Reasons()) == 1 }, time.Minute, 10*time.Millisecond)
	heartbeat.Store(nil)
	close(stopping)
	require.Equal(t, temporal.ErrWorkerShutdown, temporal.ErrorType(<-ended))
	require.Eventually(t, func() bool { return heartbeat.Load() != nil }, time.Minute, 10*time.Millisecond, "the next worker gets no heartbeat details")
	require.Equal(t, "Waiting", heartbeat.Load().Wait.Reason)
}

func TestAWaitReadsTheAPIServerOnceMoreAtItsDeadline(t *testing.T) {
	cluster := activitytest.TestCluster(t)
	tests := []struct {
		name     string
		deadline time.Duration
		atLast   bool
	}{
		{"it times out if the condition does not hold", 100 * time.Millisecond, false},
		{"it is done if only the cache is behind", 100 * time.Millisecond, true},
		{"it is done even if the deadline has passed before", -time.Minute, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deadline := time.Now().Add(tt.deadline)
			reads := 0
			done, err := activitykit.Waits{}.AwaitUntil(t.Context(), &deadline, cluster, []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "none"}}},
				func(_ context.Context, reader client.Reader) (temporal.Observation, bool, error) {
					if reader != client.Reader(cluster.Client) {
						return temporal.Observation{}, false, nil
					}
					reads++
					return temporal.Observation{}, tt.atLast, nil
				})
			require.NoError(t, err)
			require.Equal(t, tt.atLast, done)
			require.Equal(t, 1, reads)
		})
	}
}

func TestACancelledWaitEndsWithTheCancellationAndNotWithItsDeadline(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	done, err := activitykit.Waits{}.AwaitUntil(ctx, &deadline, activitytest.TestCluster(t), []client.Object{&corev1.Node{}},
		func(context.Context, client.Reader) (temporal.Observation, bool, error) {
			cancel()
			return temporal.Observation{}, false, nil
		})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, done)
}

func TestAPIServerErrorsBecomeTypedErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	refused := &url.Error{Op: "Get", URL: "https://api", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name     string
		err      error
		wantType string
		final    bool
	}{
		{name: "a conflict is retried", err: apierrors.NewConflict(pods, "p", errors.New("changed"))},
		{name: "a server error is retried", err: apierrors.NewInternalError(errors.New("etcd"))},
		{name: "an unavailable server is retried", err: apierrors.NewServiceUnavailable("restarting")},
		{name: "a time-out is retried", err: apierrors.NewServerTimeout(pods, "get", 1)},
		{name: "pressure is retried", err: apierrors.NewTooManyRequests("slow down", 1)},
		{name: "a refused connection is an unreachable cluster and retried", err: refused, wantType: temporal.ErrClusterUnreachable},
		{name: "refused credentials are an unreachable cluster", err: apierrors.NewUnauthorized("token"), wantType: temporal.ErrClusterUnreachable},
		{name: "missing permissions are not an unreachable cluster, and retried", err: apierrors.NewForbidden(pods, "p", errors.New("rbac")), wantType: temporal.ErrForbidden},
		{
			name: "an invalid object is final", err: apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "j", nil),
			wantType: temporal.ErrInvalidSpec, final: true,
		},
		{name: "a typed error stays as it is", err: temporal.Error(temporal.ErrNodeGone, "gone", nil), wantType: temporal.ErrNodeGone, final: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := activitykit.Explain(activitytest.TestCluster(t), "look", tt.err)
			require.Equal(t, tt.wantType, temporal.ErrorType(err))
			application, _ := errors.AsType[*sdktemporal.ApplicationError](err)
			require.Equal(t, tt.final, application != nil && application.NonRetryable())
			require.ErrorIs(t, err, tt.err)
		})
	}
	cancelled := activitykit.Explain(activitytest.TestCluster(t), "look", context.Canceled)
	require.Equal(t, context.Canceled, cancelled)
}

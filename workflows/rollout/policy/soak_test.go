package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAPolicySoaksAndARelapseRestartsTheClock(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Soaks[0] = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.NonCompliant) }, 6*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 8*time.Minute)
	var soaking ranv1.ClusterStatus
	w.RegisterDelayedCallback(func() { soaking = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] }, 3*time.Minute)
	w.Run()

	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, ranv1.ClusterSoaking, soaking.State)
	require.Equal(t, "Soaking", soaking.Reason)
	require.Equal(t, &ranv1.PolicyStatus{Name: "kernel", Status: "Compliant"}, soaking.CurrentPolicy)
	require.Equal(t, 19*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute), "8 until it complied again, 10 of soak, 1 for the other policy")
	w.RequireNothingEnforced()
}

// lateCancel delivers no cancellation to the watches on clusters. On a server it arrives late; the test environment delivers it immediately.
type lateCancel struct {
	interceptor.WorkerInterceptorBase
}

func (*lateCancel) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &lateCancelInbound{}
	in.Next = next
	return in
}

type lateCancelInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *lateCancelInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &lateCancelOutbound{}
	out.Next = next
	return i.Next.Init(out)
}

type lateCancelOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (o *lateCancelOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if name == "AwaitCompliance" {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}

// The soak of c2 ends after 11 minutes. The watch restarts for c1 while the former watch still gathers changes.
func TestARelapseSeenByAnEndingWatchRestartsTheSoak(t *testing.T) {
	for name, test := range map[string]struct {
		relapsed time.Duration
		takes    time.Duration
	}{
		"during the soak":      {13 * time.Minute, 24 * time.Minute},
		"of an earlier policy": {16*time.Minute + 30*time.Second, 17 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
			w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &lateCancel{}}})
			w.Soaks[0] = 10 * time.Minute
			w.ComplyAfter = func(cluster string, policy int) time.Duration {
				if cluster == "c1" && policy == 0 {
					return 6 * time.Minute
				}
				return time.Minute
			}
			var before workflowtest.ComplianceWait
			w.RegisterDelayedCallback(func() {
				w.Mu.Lock()
				defer w.Mu.Unlock()
				before = w.Waits[len(w.Waits)-1]
			}, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Greater(t, w.LastWaitID(), before.ID, "another watch has started")
				require.NoError(t, w.CompleteActivity(before.Token, []policies.ClusterCompliance{{Cluster: "c1", Status: "CN", Relapsed: true}}, nil))
			}, test.relapsed)
			w.Run()
			c1 := workflowtest.StatusOfCluster(workflowtest.RequireResult[workflowtest.GroupStatus](w.World), "c1")
			require.Equal(t, test.takes, c1.CompletedAt.Sub(c1.StartedAt.Time).Round(time.Minute))
		})
	}
}

func TestAClusterThatSoaksWithAPolicyCanTimeOut(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.Soaks[0] = 10 * time.Hour
	var soaking workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { soaking = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 3*time.Minute)
	w.Run()
	require.Equal(t, ranv1.ReasonBatchInProgress, soaking.Wait.Reason)
	require.Contains(t, soaking.Wait.Message, "clusters running: 1")
	late := workflowtest.StatusOfCluster(workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut), "c1")
	require.Equal(t, "BatchTimedOut", late.Reason)
	require.Contains(t, late.Message, "at that moment: policy kernel: Soaking: must stay so until")
}

// The watch may lag behind.
func TestComplianceIsCheckedAgainAtTheEndOfASoak(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.Soaks[0] = 10 * time.Minute
	w.RegisterDelayedCallback(func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Compliance["c1"][0] = byte(policies.NonCompliant) // without a report by the watch
	}, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 20*time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, 31*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
}

package policy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestACancelledPolicyRolloutStopsEnforcing(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 90*time.Second)
	w.Run()
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "cancelled", "c2": "cancelled", "c3": "pending"}, workflowtest.ClusterStates(status))
	w.RequireNothingEnforced()
	last := w.Called()
	require.Equal(t, []string{"PlacePolicies", "CleanUpPolicies", "SaveRollout"}, last[len(last)-3:])
}

func TestACancelledPolicyRolloutShowsItsCleanup(t *testing.T) {
	for _, tt := range []struct {
		slow string
		call int
		says string
	}{
		{"PlacePolicies", 2, "batch 1 of 1: clusters that are taken off the placements of their policies: 2"},
		{"CleanUpPolicies", 1, "batch 1 of 1: cleaning up"},
	} {
		t.Run(tt.slow, func(t *testing.T) {
			w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
			w.Fail[tt.slow] = func(call int) error {
				if call == tt.call {
					return errors.New("the hub is briefly unreachable")
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 30*time.Second)
			var cancelling *drydockv1.Wait
			w.RegisterDelayedCallback(func() { cancelling = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Wait }, 30*time.Second+100*time.Millisecond)
			w.Run()
			workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
			require.Equal(t, "Cancelling", cancelling.Reason)
			require.Equal(t, tt.says, cancelling.Message)
		})
	}
}

func TestAPausedClusterStartsNoFurtherPolicy(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{}) }, 30*time.Second)
	var paused ranv1.ClusterStatus
	w.RegisterDelayedCallback(func() { paused = workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters[0] }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, temporal.SignalRequest{}) }, 10*time.Minute)
	w.Run()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, "policy kernel", paused.Step)
	require.Equal(t, "Paused", paused.Reason)
	require.Equal(t, 11*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
}

// The batch started before the stop, but the preparation of its policies failed.
func TestAPausedOrHeldRolloutStartsNoPolicy(t *testing.T) {
	signal := func(name string, what any) func(*workflowtest.PolicyWorld) {
		return func(w *workflowtest.PolicyWorld) { w.SignalWorkflow(name, what) }
	}
	all := emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll}}}
	tests := []struct {
		name         string
		stop, resume func(*workflowtest.PolicyWorld)
		reason       string
	}{
		{"paused", signal(temporal.SignalPause, temporal.SignalRequest{}), signal(temporal.SignalResume, temporal.SignalRequest{}), "Paused"},
		{"held", signal(temporal.SignalHeld, all), signal(temporal.SignalHeld, emergency.State{Number: 3}), "Held"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"})
			w.Compliance["c2"] = []byte("CN")
			back := w.Now().Add(5 * time.Minute)
			w.Fail["PreparePolicies"] = func(int) error {
				if w.Now().Before(back) {
					return errors.New("the hub is unreachable")
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { test.stop(w) }, 2*time.Minute)
			var stopped workflowtest.GroupStatus
			var placed int
			w.RegisterDelayedCallback(func() {
				stopped, placed = workflowtest.StatusOf[workflowtest.GroupStatus](w.World), len(w.InputsOf("PlacePolicies"))
			}, 9*time.Minute)
			w.RegisterDelayedCallback(func() { test.resume(w) }, 10*time.Minute)
			w.Run()
			require.Zero(t, placed, "nothing is enforced")
			first, second := workflowtest.StatusOfCluster(stopped, "c1"), workflowtest.StatusOfCluster(stopped, "c2")
			require.Equal(t, test.reason, first.Reason)
			require.Contains(t, first.Message, "the first may not begin")
			require.Equal(t, []string{"policy kernel", "policy network"}, []string{first.Step, second.Step})
			status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			require.Equal(t, 12*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
		})
	}
}

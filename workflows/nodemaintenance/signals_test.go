package nodemaintenance_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestSimultaneousFailAndRecoverApplyInOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		signals := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalFail, temporal.SignalRecover}), 1, 6).Draw(r, "signals")
		want := map[string]maintenancev1.NodeState{temporal.SignalFail: maintenancev1.NodeRequestorFailed, temporal.SignalRecover: maintenancev1.NodeReady}
		w := workflowtest.NewWorld(t)
		var state maintenancev1.NodeState
		w.RegisterDelayedCallback(func() { w.SignalInOneTask(signals...) }, time.Hour)
		w.RegisterDelayedCallback(func() {
			state = workflowtest.StatusOf[workflowtest.NodeStatus](w).State
			w.SignalWorkflow(temporal.SignalDone, nil)
		}, 2*time.Hour)
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
		require.NoError(r, w.GetWorkflowError())
		require.Equal(r, want[signals[len(signals)-1]], state)
	})
}

// Signals of a requestor after done or cancel have no effect.
func TestSimultaneousSignalsDecideTheResult(t *testing.T) {
	done, fail, again, cancel := temporal.SignalDone, temporal.SignalFail, temporal.SignalRecover, temporal.SignalCancel
	for _, tt := range []struct {
		signals []string
		want    maintenancev1.NodeState
	}{
		{[]string{fail, done}, maintenancev1.NodeCompleted},
		{[]string{done, fail}, maintenancev1.NodeCompleted},
		{[]string{fail, again, done}, maintenancev1.NodeCompleted},
		{[]string{fail, cancel}, maintenancev1.NodeFailed},
		{[]string{cancel, fail}, maintenancev1.NodeCancelled},
		{[]string{again, fail, cancel}, maintenancev1.NodeFailed},
		{[]string{fail, again, cancel}, maintenancev1.NodeCancelled},
		{[]string{cancel, done}, maintenancev1.NodeCancelled},
		{[]string{done, cancel}, maintenancev1.NodeCompleted},
	} {
		t.Run(fmt.Sprint(tt.signals), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.RegisterDelayedCallback(func() { w.SignalInOneTask(tt.signals...) }, time.Hour)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
			require.True(t, w.IsWorkflowCompleted())
			states := workflowtest.States(workflowtest.StatusOf[workflowtest.NodeStatus](w))
			require.Equal(t, tt.want, states[len(states)-1])
			require.Equal(t, slices.Contains(tt.signals, done) && tt.signals[0] != cancel, slices.Contains(w.Called(), "AwaitNodeHealthy"),
				"a node with finished work is checked, even if it is cancelled afterwards")
		})
	}
}

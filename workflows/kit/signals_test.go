package kit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// listener handles signals a, b and c after a delay, and returns them in the order of their handling.
func listener(ctx workflow.Context, delay time.Duration) ([]string, error) {
	if err := workflow.Sleep(ctx, delay); err != nil {
		return nil, err
	}
	var handled []string
	stopped := false
	for _, name := range []string{"c", "a", "b"} {
		kit.OnSignal(ctx, name, "", func(number int) { handled = append(handled, fmt.Sprintf("%s%d", name, number)) })
	}
	kit.OnSignal(ctx, "stopped", "", func(struct{}) { stopped = true })
	err := workflow.Await(ctx, func() bool { return stopped })
	kit.HandlePendingSignals(ctx)
	return handled, err
}

func TestSignalsAreHandledInTheOrderInWhichTheyWereSent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "unhandled"}), 1, 12).Draw(r, "names")
		delay := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "delay")
		unreadable := rapid.IntRange(0, len(names)).Draw(r, "unreadable")
		w := workflowtest.NewWorld(t)
		var sent []workflowtest.SignalWithPayload
		var want []string
		for i, name := range names {
			switch {
			case i == unreadable:
				sent = append(sent, workflowtest.SignalWithPayload{Name: name, Payload: "no number"})
				continue
			case name != "unhandled":
				want = append(want, fmt.Sprintf("%s%d", name, i))
			}
			sent = append(sent, workflowtest.SignalWithPayload{Name: name, Payload: i})
		}
		w.RegisterDelayedCallback(func() { w.SendInOneTask(append(sent, workflowtest.SignalWithPayload{Name: "stopped"})...) }, time.Minute)
		w.ExecuteWorkflow(listener, delay)
		var handled []string
		require.NoError(r, w.GetWorkflowError())
		require.NoError(r, w.GetWorkflowResult(&handled))
		require.Equal(r, want, handled)
	})
}

func TestTheLastOfSeveralPausesAndResumesCounts(t *testing.T) {
	rollouts := func(w *workflowtest.World) {
		w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	}
	for name, scene := range map[string]struct {
		begin  func() (*workflowtest.World, *workflowtest.Children)
		run    func(*workflowtest.World)
		paused func(*workflowtest.World) bool
	}{
		"a rollout": {
			func() (*workflowtest.World, *workflowtest.Children) {
				return workflowtest.NewGroupWorld(t, []string{"c1"})
			}, rollouts,
			func(w *workflowtest.World) bool { return workflowtest.StatusOf[workflowtest.GroupStatus](w).Paused },
		},
		"a cluster": {
			func() (*workflowtest.World, *workflowtest.Children) { return workflowtest.NewClusterWorld(t, 0, 1, 1) },
			func(w *workflowtest.World) {
				w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
			},
			func(w *workflowtest.World) bool { return workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Paused },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				sent := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalPause, temporal.SignalResume}), 1, 6).Draw(r, "sent")
				w, work := scene.begin()
				work.Outcomes["c1"], work.Outcomes["w0"] = workflowtest.UntilCancelled, workflowtest.UntilCancelled
				var paused bool
				w.RegisterDelayedCallback(func() { w.SignalInOneTask(sent...) }, time.Minute)
				w.RegisterDelayedCallback(func() {
					paused = scene.paused(w)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				}, 2*time.Minute)
				scene.run(w)
				require.True(r, w.IsWorkflowCompleted())
				require.Equal(r, sent[len(sent)-1] == temporal.SignalPause, paused)
			})
		})
	}
}

func TestAWorkerWithoutSignalOrderRunsNothing(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	w.ExecuteWorkflow(listener, time.Duration(0))
	require.ErrorContains(t, w.GetWorkflowError(), "SignalOrder is missing among the interceptors of this worker")
}

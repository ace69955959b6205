package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestCancelTogetherWithEnableCancels(t *testing.T) {
	for _, signals := range [][]string{{temporal.SignalEnable, temporal.SignalCancel}, {temporal.SignalCancel, temporal.SignalEnable}} {
		w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
		object := workflowtest.ARollout()
		object.Spec.Enable = new(bool)
		w.RegisterDelayedCallback(func() { w.SignalInOneTask(signals...) }, time.Minute)
		w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
		workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
		require.Empty(t, clusters.Events)
	}
}

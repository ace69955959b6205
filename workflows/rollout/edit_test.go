package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// withoutDefaults is a rollout that another client of Temporal started, without default values.
func withoutDefaults() ranv1.ClusterGroupUpgrade {
	object := workflowtest.ARollout()
	object.Spec.BatchTimeoutAction, object.Spec.RemediationStrategy.Timeout = "", 0
	return object
}

func TestAnOmittedDefaultIsNoChange(t *testing.T) {
	for name, moment := range map[string]struct {
		enabled bool
		edited  time.Duration
	}{
		"not enabled":                    {false, time.Minute},
		"enabled":                        {true, time.Minute},
		"enabled, without a plan so far": {true, time.Second},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
				clusters.Outcomes["c1"] = workflowtest.Takes(2 * time.Hour)
				object := withoutDefaults()
				object.Spec.Enable = &moment.enabled
				w.SimulateDefaults()
				planned := w.Now().Add(2 * time.Second)
				w.Fail["PlanRollout"] = func(int) error {
					if w.Now().Before(planned) {
						return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
					}
					return nil
				}
				longer := *object.DeepCopy()
				if whole {
					longer = workflowtest.WithDefaults(t, longer)
				}
				longer.Spec.RemediationStrategy.Timeout = 300
				var edited *workflowtest.UpdateResult
				w.RegisterDelayedCallback(func() {
					edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Reason: "large clusters", Spec: longer.Spec})
				}, moment.edited)
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, nil) }, time.Hour)
				w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
				ended := workflowtest.RequireResult[workflowtest.GroupStatus](w)
				require.Contains(t, ended.Notes, "edited by bob: large clusters")
				require.NoError(t, edited.Rejected)
				require.NoError(t, edited.Err)
				require.Equal(t, edits.Answer{Changed: []string{"spec.remediationStrategy.timeout"}}, edited.Result)
				kept := w.InputsOf("SaveRollout")
				last := kept[len(kept)-1].(rollouts.SaveRolloutInput).Object.Spec
				require.Equal(t, int32(300), last.RemediationStrategy.Timeout)
				require.Equal(t, ranv1.BatchTimeoutContinue, last.BatchTimeoutAction)
				require.True(t, *last.NodeMaintenance.ControlPlaneFirst, "the node maintenance has its defaults")
			})
		}
	}
}

// The plan in progress is for the spec before the edit.
func TestAPlanDoesNotOverwriteAnEditDuringPlanning(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := withoutDefaults()
	object.Spec.Enable = new(bool)
	w.SimulateDefaults()
	edit := withoutDefaults().Spec
	edit.Enable, edit.Clusters = new(bool), []string{"c1", "c2"}
	var edited *workflowtest.UpdateResult
	w.Fail["PlanRollout"] = func(call int) error {
		if call == 1 {
			edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: edit})
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.NoError(t, edited.Err)
		plans := w.InputsOf("PlanRollout")
		require.Len(t, plans, 3)
		require.Equal(t, []string{"c1", "c2"}, plans[2].(rollouts.PlanInput).Object.Spec.Clusters)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

// The edit is refused with the reason. It is not applied hours later.
func TestAnEditWhileTheHubDoesNotAnswerCountsForThePlan(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.SimulateDefaults()
	edit := withoutDefaults().Spec
	edit.RemediationStrategy.Timeout = 99
	start := w.Now()
	w.Fail["PlanRollout"] = func(int) error {
		if w.Now().Sub(start) < time.Hour {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	var edited *workflowtest.UpdateResult
	w.RegisterDelayedCallback(func() { edited = w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: edit}) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() { require.NoError(t, edited.Err) }, 31*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withoutDefaults()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	planned := w.InputsOf("PlanRollout")
	require.EqualValues(t, 99, planned[len(planned)-1].(rollouts.PlanInput).Object.Spec.RemediationStrategy.Timeout)
}

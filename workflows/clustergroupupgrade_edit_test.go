package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// complete is a rollout with its defaults.
func complete(t *testing.T, object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object, err := (&activities.Rollouts{}).CheckRollout(context.Background(), object)
	require.NoError(t, err)
	return object
}

// completes gives rollouts their defaults when they are planned or edited.
func (w *world) completes() {
	play(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return complete(w.t, object) })
	play(w, "PlanRollout", func(object ranv1.ClusterGroupUpgrade) any {
		plan, spec := w.plan, complete(w.t, object).Spec
		if len(rollout.ChangedFields(object.Spec, spec)) > 0 {
			plan.Spec = &spec
		}
		return plan
	})
}

// bare is a rollout as another client of Temporal may start it: what has a default is left out.
func bare() ranv1.ClusterGroupUpgrade {
	object := aRollout()
	object.Spec.BatchTimeoutAction, object.Spec.RemediationStrategy.Timeout = "", 0
	return object
}

func TestADefaultThatWasLeftOutIsNoChange(t *testing.T) {
	for name, moment := range map[string]struct {
		enabled bool
		edited  time.Duration
	}{
		"not enabled":                       {false, time.Minute},
		"at work":                           {true, time.Minute},
		"at work, before the plan was made": {true, time.Second},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				w, clusters := newGroupWorld(t, []string{"c1"})
				clusters.ends["c1"] = takes(2 * time.Hour)
				object := bare()
				object.Spec.Enable = &moment.enabled
				w.completes()
				planned := w.Now().Add(2 * time.Second)
				w.fail["PlanRollout"] = func(int) error {
					if w.Now().Before(planned) {
						return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
					}
					return nil
				}
				longer := *object.DeepCopy()
				if whole {
					longer = complete(t, longer)
				}
				longer.Spec.RemediationStrategy.Timeout = 300
				var edited *asked
				w.RegisterDelayedCallback(func() { edited = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: longer.Spec}) }, moment.edited)
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, nil) }, time.Hour)
				w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
				requireResult[groupStatus](w)
				require.NoError(t, edited.refused)
				require.NoError(t, edited.err)
				require.Equal(t, EditAnswer{Changed: []string{"spec.remediationStrategy.timeout"}}, edited.result)
				kept := w.inputsOf("SaveRollout")
				last := kept[len(kept)-1].(activities.SaveRolloutInput).Object.Spec
				require.Equal(t, int32(300), last.RemediationStrategy.Timeout)
				require.Equal(t, ranv1.BatchTimeoutContinue, last.BatchTimeoutAction)
				require.True(t, *last.NodeMaintenance.ControlPlaneFirst, "the work on nodes has its defaults")
			})
		}
	}
}

// The plan that is being made is that of the spec before.
func TestAnEditWhileARolloutIsPlannedIsNotOverwrittenByWhatWasPlanned(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	object := bare()
	object.Spec.Enable = new(bool)
	w.completes()
	edit := bare().Spec
	edit.Enable, edit.Clusters = new(bool), []string{"c1", "c2"}
	var edited *asked
	w.fail["PlanRollout"] = func(call int) error {
		if call == 1 {
			edited = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: edit})
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.NoError(t, edited.err)
		plans := w.inputsOf("PlanRollout")
		require.Len(t, plans, 3)
		require.Equal(t, []string{"c1", "c2"}, plans[2].(ranv1.ClusterGroupUpgrade).Spec.Clusters)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireCancelled[groupStatus](w)
}

// Whoever has asked hears why it cannot be, and not hours later that it was.
func TestAnEditOfARolloutThatCannotBePlannedIsRefusedWithTheReason(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	w.completes()
	edit := bare().Spec
	edit.RemediationStrategy.Timeout = 99
	start := w.Now()
	w.fail["PlanRollout"] = func(int) error {
		if w.Now().Sub(start) < time.Hour {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	var edited *asked
	w.RegisterDelayedCallback(func() { edited = w.ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: edit}) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.ErrorContains(t, edited.err, "the rollout is being planned, and until it has been its spec cannot be changed: try again (ClusterUnreachable: ")
	}, 31*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: bare()})
	requireResult[groupStatus](w)
	for _, planned := range w.inputsOf("PlanRollout") {
		require.Zero(t, planned.(ranv1.ClusterGroupUpgrade).Spec.RemediationStrategy.Timeout)
	}
}

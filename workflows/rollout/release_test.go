package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// requestsRelease lets the policies of a rollout request the release that *wanted is at the moment.
func requestsRelease(w *workflowtest.World, wanted *precache.Release) {
	workflowtest.Simulate(w, "PlanRollout", func(in rollouts.PlanInput) any {
		plan := w.Plan
		plan.Release = &precache.LookedUp{Release: *wanted}
		if in.Release != nil && in.Release.Release == *wanted {
			plan.Release = in.Release
		}
		plan.Precaching = &ranv1.PrecachingSpec{PlatformImage: plan.Release.Image, SpaceRequired: "35"}
		if plan.Release.Problem != "" {
			plan.Conditions, plan.RemediationPlan = nil, [][]string{}
			plan.SetCondition(ranv1.ConditionValidated, metav1.ConditionFalse, ranv1.ReasonInvalidPlatformImage, plan.Release.Problem, w.Now())
		}
		return plan
	})
}

func TestAReleaseIsLookedUpOnceAndKept(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Version: "4.18.3"}
	requestsRelease(w, &wanted)
	w.RegisterDelayedCallback(func() { w.ChangePlan(w.Plan) }, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.InputsOf("LookUpRelease"), 1, "another plan needs the same release")
		wanted.Version = "4.18.4"
		w.ChangePlan(w.Plan)
	}, 2*time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, nil) }, 3*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, "release:4.18.4", status.Precaching.Spec.PlatformImage)
	require.Len(t, w.InputsOf("LookUpRelease"), 2)
	jobs := w.PrecachingJobs()
	require.Len(t, jobs, 2, "the images have changed")
	require.Equal(t, "release:4.18.3", jobs[0].Work.Spec.PlatformImage)
	require.Equal(t, "release:4.18.4", jobs[1].Work.Spec.PlatformImage)
}

// The server is down at the start, and then for hours: the enabled rollout waits, and starts by itself when it is back.
func TestARolloutWaitsForItsUpdateGraph(t *testing.T) {
	w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Version: "4.18.3"}
	requestsRelease(w, &wanted)
	down, start := "refused", w.Now()
	w.Fail["LookUpRelease"] = func(call int) error {
		if call > 1 && w.Now().Sub(start) < 5*time.Hour {
			return temporal.Error(temporal.ErrReleaseUnknown, down, errors.New(down))
		}
		return nil
	}
	workflowtest.Simulate(w, "LookUpRelease", func(last precache.LookedUp) any {
		if last.Problem == "" {
			last.Problem = down
			return last
		}
		return precache.LookedUp{Release: last.Release, Image: "release:3"}
	})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		condition := meta.FindStatusCondition(status.Conditions, ranv1.ConditionValidated)
		require.Equal(t, []string{ranv1.ReasonInvalidPlatformImage, down}, []string{condition.Reason, condition.Message})
		require.Contains(t, messageOf(status, ranv1.ConditionProgressing), down)
		require.Empty(t, w.PrecachingJobs())
	}, 4*time.Hour)
	object := workflowtest.PlannedOnly()
	object.Spec.Enable = nil
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, "release:3", status.Precaching.Spec.PlatformImage)
	require.Len(t, clusters.EventsInOrder(), 2)
	require.Greater(t, len(w.InputsOf("LookUpRelease")), 60, "it is looked up at least every five minutes")
}

// A load balancer before a server that is down answers in several ways, and the hub changes the plan now and then.
func TestAnUnsteadyUpdateGraphIsAskedLessAndLessOften(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Version: "4.18.3"}
	requestsRelease(w, &wanted)
	problems := []string{"502", "503", "no answer within 20s"}
	workflowtest.Simulate(w, "LookUpRelease", func(last precache.LookedUp) any {
		last.Problem = problems[len(w.InputsOf("LookUpRelease"))%len(problems)]
		return last
	})
	for minute := range 60 {
		w.RegisterDelayedCallback(func() { w.ChangePlan(w.Plan) }, time.Duration(minute)*time.Minute+30*time.Second)
	}
	w.RegisterDelayedCallback(func() {
		lookUps, plans := len(w.InputsOf("LookUpRelease")), len(w.InputsOf("PlanRollout"))
		require.Less(t, lookUps, 25)
		require.Greater(t, lookUps, 12, "at least every five minutes")
		require.Less(t, plans, 60+25)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

func TestAnEditEndsTheWaitForAnUpdateGraph(t *testing.T) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
	good := w.Plan
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Version: "4.18.3"}
	requestsRelease(w, &wanted)
	w.Fail["LookUpRelease"] = func(call int) error {
		if call > 1 {
			return temporal.Error(temporal.ErrReleaseUnknown, "refused", nil)
		}
		return nil
	}
	workflowtest.Simulate(w, "LookUpRelease", func(last precache.LookedUp) any {
		last.Problem = "refused"
		return last
	})
	var before int
	w.RegisterDelayedCallback(func() {
		before = len(w.InputsOf("LookUpRelease"))
		workflowtest.Simulate(w, "PlanRollout", func(rollouts.PlanInput) any { return good })
		w.EditPlanned(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching, spec.Enable = false, nil })
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.PlannedOnly()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Len(t, w.InputsOf("LookUpRelease"), before, "it is not looked up any longer")
}

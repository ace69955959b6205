package workflowtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

// NextRunInput returns the input of the next run; nil if the workflow did not continue as new.
func NextRunInput[In any](w *World) *In {
	w.T.Helper()
	var next *workflow.ContinueAsNewError
	if !errors.As(w.GetWorkflowError(), &next) {
		return nil
	}
	in := new(In)
	require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(next.Input, in))
	return in
}

// remediationCase is a rollout with one kind of remediation, and its hub.
type remediationCase struct {
	Name   string
	Object func() ranv1.ClusterGroupUpgrade
	// World simulates the hub as the previous run left it; before is nil for the first run.
	World func(t *testing.T, before *PolicyWorld, batches ...[]string) *PolicyWorld
	// SameCalls are activities whose number of calls does not depend on the number of runs.
	SameCalls []string
}

// AllRemediations returns a case for nodes, for policies and for manifest works.
func AllRemediations() []remediationCase {
	inherit := func(w, before *PolicyWorld) *PolicyWorld {
		if before != nil {
			w.Compliance, w.Enforced = before.Compliance, before.Enforced
		}
		return w
	}
	always := []string{"PlanRollout", "ChangeClusters", "SaveRollout"}
	return []remediationCase{
		{"nodes", func() ranv1.ClusterGroupUpgrade { return ARollout() }, func(t *testing.T, _ *PolicyWorld, batches ...[]string) *PolicyWorld {
			w, _ := NewGroupWorld(t, batches...)
			return &PolicyWorld{World: w}
		}, always},
		{"policies", PolicyRollout, func(t *testing.T, before *PolicyWorld, batches ...[]string) *PolicyWorld {
			return inherit(NewPolicyWorld(t, batches...), before)
		}, append([]string{"PreparePolicies", "CleanUpPolicies"}, always...)},
		{"manifest works", func() ranv1.ClusterGroupUpgrade {
			object := ARollout()
			object.Spec.NodeMaintenance, object.Spec.ManifestWorkTemplates = nil, []string{"os", "firmware"}
			return object
		}, func(t *testing.T, before *PolicyWorld, batches ...[]string) *PolicyWorld {
			w, _ := NewManifestWorkWorld(t, nil, batches...)
			return inherit(w, before)
		}, append([]string{"PrepareManifestWorks", "CleanUpManifestWorks"}, always...)},
	}
}

// rolloutOutcome is the result of a rollout, without times.
type rolloutOutcome struct {
	clusters   map[string]ranv1.ClusterState
	conditions []string
	rest       GroupStatus
	calls      map[string]int
}

func (r remediationCase) outcome(status GroupStatus, calls map[string]int) rolloutOutcome {
	e := rolloutOutcome{clusters: ClusterStates(status), rest: status, calls: calls}
	for _, c := range status.Conditions {
		e.conditions = append(e.conditions, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	e.rest.Clusters, e.rest.Conditions, e.rest.Status = nil, nil, ranv1.RunStatus{}
	return e
}

// Run runs the rollout to its end. With pieces, each run continues as new after a second.
func (r remediationCase) Run(t *testing.T, pieces bool) (e rolloutOutcome, runs int) {
	batches := [][]string{{"c1"}, {"c2", "c3"}, {"c4"}}
	in := &rolloutworkflow.Input{Object: WithActions(r.Object()), StartedBy: "ann"}
	calls := map[string]int{}
	var w *PolicyWorld
	for in != nil {
		runs++
		require.Less(t, runs, 20, "the rollout continues as new without progress")
		before := w
		w = r.World(t, before, batches...)
		if before != nil {
			w.SetStartTime(before.Now())
		}
		w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c5", Reason: rollout.ReasonAlreadyCompliant}}
		if pieces {
			w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
		}
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
		for _, activity := range r.SameCalls {
			calls[activity] += len(w.InputsOf(activity))
		}
		in = NextRunInput[rolloutworkflow.Input](w.World)
	}
	w.RequireNothingEnforced()
	return r.outcome(RequireResult[GroupStatus](w.World), calls), runs
}

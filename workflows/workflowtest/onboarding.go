package workflowtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/rollout"
)

// OnboardingWorld simulates a hub with new clusters, and their rollouts.
type OnboardingWorld struct {
	*World
	Rollouts *Children
	// NewClusters are the policies of the clusters that are not onboarded yet.
	NewClusters map[string][]string
	// Settled are failed clusters whose situation has changed.
	Settled []string
	// Objects: rollouts get objects on the hub.
	Objects bool
	// Started are the started rollouts, and Sources their objects.
	Started []ranv1.ClusterGroupUpgrade
	Sources []*temporal.Object
	// waitToken and waitInput are the call of AwaitNewClusters that waits.
	waitToken []byte
	waitInput onboardingactivities.AwaitNewClustersInput
}

// NewOnboardingWorld returns a hub without new clusters.
func NewOnboardingWorld(t *testing.T) *OnboardingWorld {
	h := &OnboardingWorld{World: NewWorld(t), Rollouts: newChildren(), NewClusters: map[string][]string{}}
	h.RegisterAs(temporal.ClusterGroupUpgrade, func(ctx workflow.Context, in rollout.Input) error {
		h.Started = append(h.Started, in.Object)
		h.Sources = append(h.Sources, in.Source)
		err := h.Rollouts.run(ctx, in.Object.Name)
		if err == nil {
			h.Mu.Lock()
			defer h.Mu.Unlock()
			delete(h.NewClusters, in.Object.Name) // its rollout has labelled it
		}
		return err
	})
	h.RegisterActivityWithOptions(func(ctx context.Context, in onboardingactivities.AwaitNewClustersInput) (onboardingactivities.NewClusters, error) {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		found, any := h.find(in)
		if !any {
			h.waitToken, h.waitInput = activity.GetInfo(ctx).TaskToken, in
			return found, activity.ErrResultPending
		}
		return found, nil
	}, activity.RegisterOptions{Name: "AwaitNewClusters"})
	Simulate(h.World, "CreateObject", func(in onboardingactivities.NewCluster) any {
		if !h.Objects {
			return (*temporal.Object)(nil)
		}
		return &temporal.Object{Name: in.Name, UID: types.UID("uid-of-" + in.Name)}
	})
	Simulate(h.World, "AwaitRollout", func(run onboardingactivities.RolloutRun) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		delete(h.NewClusters, run.Name) // its rollout has labelled it
		return onboardingactivities.RolloutEnd{Succeeded: true}
	})
	return h
}

// find returns the new and the settled clusters that are not known to the caller.
func (h *OnboardingWorld) find(in onboardingactivities.AwaitNewClustersInput) (found onboardingactivities.NewClusters, any bool) {
	for _, name := range h.Settled {
		if slices.Contains(in.Failed, name) {
			found.Settled = append(found.Settled, name)
		}
	}
	for name, policies := range h.NewClusters {
		if !slices.Contains(in.Running, name) && !slices.Contains(in.Failed, name) && len(found.Found) < 100 {
			found.Found = append(found.Found, onboardingactivities.NewCluster{Name: name, Policies: policies})
		}
	}
	slices.SortFunc(found.Found, func(a, b onboardingactivities.NewCluster) int { return strings.Compare(a.Name, b.Name) })
	return found, len(found.Found)+len(found.Settled) > 0
}

// Change changes the hub, and completes the waiting activity if there is something new.
func (h *OnboardingWorld) Change(change func()) {
	h.Mu.Lock()
	change()
	token := h.waitToken
	found, any := h.find(h.waitInput)
	h.Mu.Unlock()
	if any && token != nil {
		require.NoError(h.T, h.CompleteActivity(token, found, nil))
	}
}

// WaitsFor is the input of the waiting AwaitNewClusters.
func (h *OnboardingWorld) WaitsFor() onboardingactivities.AwaitNewClustersInput {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.waitInput
}

// Available adds new clusters.
func (h *OnboardingWorld) Available(names ...string) {
	h.Change(func() {
		for _, name := range names {
			h.NewClusters[name] = nil
		}
	})
}

// Onboard runs the workflow, cancels it after that time, and returns its status.
func (h *OnboardingWorld) Onboard(until time.Duration) onboarding.Status {
	h.T.Helper()
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, until)
	h.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{})
	return RequireCancelled[onboarding.Status](h.World)
}

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

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/rollout"
)

// OnboardingWorld plays a hub whose clusters become Available, and their rollouts.
type OnboardingWorld struct {
	*World
	Rollouts *Children
	// NewClusters are the clusters that are to be onboarded, with their policies.
	NewClusters map[string][]string
	// Settled are those that failed and of which something new is known.
	Settled []string
	Started []ranv1.ClusterGroupUpgrade
	// waitToken is the wait for new clusters that is under way, by one that knows those.
	waitToken []byte
	waitInput onboardingactivities.AwaitNewClustersInput
}

func NewOnboardingWorld(t *testing.T) *OnboardingWorld {
	h := &OnboardingWorld{World: NewWorld(t), Rollouts: newChildren(), NewClusters: map[string][]string{}}
	h.RegisterAs(temporal.ClusterGroupUpgrade, func(ctx workflow.Context, in rollout.Input) error {
		h.Started = append(h.Started, in.Object)
		err := h.Rollouts.run(ctx, in.Object.Name)
		if err == nil {
			h.Mu.Lock()
			defer h.Mu.Unlock()
			delete(h.NewClusters, in.Object.Name) // it is labelled
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
	Simulate(h.World, "AwaitRollout", func(run onboardingactivities.RolloutRun) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		delete(h.NewClusters, run.Name) // it is labelled
		return onboardingactivities.RolloutEnd{Succeeded: true}
	})
	return h
}

// find is what the hub shows to one that knows these clusters.
func (h *OnboardingWorld) find(in onboardingactivities.AwaitNewClustersInput) (found onboardingactivities.NewClusters, any bool) {
	for _, name := range h.Settled {
		if slices.Contains(in.Failed, name) {
			found.Settled = append(found.Settled, name)
		}
	}
	for name, policies := range h.NewClusters {
		if !slices.Contains(in.AtWork, name) && !slices.Contains(in.Failed, name) && len(found.Found) < 100 {
			found.Found = append(found.Found, onboardingactivities.NewCluster{Name: name, Policies: policies})
		}
	}
	slices.SortFunc(found.Found, func(a, b onboardingactivities.NewCluster) int { return strings.Compare(a.Name, b.Name) })
	return found, len(found.Found)+len(found.Settled) > 0
}

// Change changes what the hub has. Who watches it sees that.
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

// Available makes clusters new to the hub.
func (h *OnboardingWorld) Available(names ...string) {
	h.Change(func() {
		for _, name := range names {
			h.NewClusters[name] = nil
		}
	})
}

// Onboard runs the workflow until it is cancelled after that time.
func (h *OnboardingWorld) Onboard(until time.Duration) onboarding.Status {
	h.T.Helper()
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, until)
	h.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{})
	return RequireCancelled[onboarding.Status](h.World)
}

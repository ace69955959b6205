package workflowtest

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	installplansactivities "drydock.dev/drydock/activities/installplans"
	"drydock.dev/drydock/internal/installplans"
)

// plansWait is an activity that waits for changes of Subscriptions.
type plansWait struct {
	token []byte
	in    installplansactivities.AwaitInstallPlansInput
}

func (w *PolicyWorld) subscriptionsOf(policy int) []installplans.Requested {
	if policy >= len(w.Subscriptions) {
		return nil
	}
	return w.Subscriptions[policy]
}

// simulateInstallPlans simulates the activities for InstallPlans.
func (w *PolicyWorld) simulateInstallPlans() {
	w.Plans = map[string]installplans.Cluster{}
	w.RegisterActivityWithOptions(func(ctx context.Context, in installplansactivities.AwaitInstallPlansInput) ([]installplans.Cluster, error) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["AwaitInstallPlans"] = append(w.Inputs["AwaitInstallPlans"], in)
		if fail := w.Fail["AwaitInstallPlans"]; fail != nil {
			if err := fail(len(w.Inputs["AwaitInstallPlans"])); err != nil {
				return nil, err
			}
		}
		if news := w.changedPlans(in); len(news) > 0 {
			return news, nil
		}
		w.plansWaits = append(w.plansWaits, plansWait{activity.GetInfo(ctx).TaskToken, in})
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitInstallPlans"})
	Simulate(w.World, "ApproveInstallPlans", func(installplansactivities.ApproveInstallPlansInput) any {
		return []installplansactivities.FailedApproval{}
	})
}

// changedPlans returns the clusters whose state has changed for the caller.
func (w *PolicyWorld) changedPlans(in installplansactivities.AwaitInstallPlansInput) []installplans.Cluster {
	var news []installplans.Cluster
	for _, known := range in.Clusters {
		now := w.Plans[known.Cluster]
		now.Cluster = known.Cluster
		if now = now.WithDigest(); now.Digest != known.Digest {
			news = append(news, now)
		}
	}
	return news
}

// SetPlans changes the state of the Subscriptions of a cluster.
func (w *PolicyWorld) SetPlans(now installplans.Cluster) {
	w.Mu.Lock()
	w.Plans[now.Cluster] = now
	var completions []func()
	w.plansWaits = slices.DeleteFunc(w.plansWaits, func(one plansWait) bool {
		news := w.changedPlans(one.in)
		if len(news) > 0 {
			completions = append(completions, func() { _ = w.CompleteActivity(one.token, news, nil) }) // it may have been cancelled
		}
		return len(news) > 0
	})
	w.Mu.Unlock()
	for _, complete := range completions {
		complete()
	}
}

// Package installplans holds the activities that approve InstallPlans on clusters: with credentials for a cluster on the cluster itself, and without them through
// its agent.
package installplans

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
)

// Activities watches and approves the InstallPlans of rollouts.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// Rollout is a rollout of policies with Subscriptions.
type Rollout struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the mark of the rollout's workflow.
	Owner string `json:"owner"`
}

func (r Rollout) owner() viewsapi.Owner {
	return viewsapi.Owner{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, Mark: r.Owner}
}

// KnownCluster is a cluster on which a policy with Subscriptions is enforced, and the digest of its last known state.
type KnownCluster struct {
	Cluster string `json:"cluster"`
	// Policy is the index of the policy, and Earlier are those of the policies before it that are bound to the cluster.
	Policy  int    `json:"policy"`
	Earlier []int  `json:"earlier,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// AwaitInstallPlansInput names clusters and the Subscriptions of their policies.
type AwaitInstallPlansInput struct {
	Rollout Rollout `json:"rollout"`
	// Subscriptions has for each policy of the rollout the Subscriptions that it requires.
	Subscriptions [][]installplans.Requested `json:"subscriptions"`
	Clusters      []KnownCluster             `json:"clusters"`
	// Interval is how often the agents of clusters read the objects again.
	Interval time.Duration `json:"interval"`
	// Gather is how long changes are gathered after the first one.
	Gather time.Duration `json:"gather"`
}

// AwaitInstallPlans watches the Subscriptions of clusters until the state of some differs from the known one, and returns it. It creates the ManagedClusterViews that
// it needs. It changes nothing on the clusters.
func (a *Activities) AwaitInstallPlans(ctx context.Context, in AwaitInstallPlansInput) ([]installplans.Cluster, error) {
	defer activitykit.NewReport(ctx, nil).Start(ctx, nil)()
	w := newWatch(in)
	ctx, stop := context.WithCancel(ctx)
	defer w.running.Wait()
	defer stop()
	var throughAgents []KnownCluster
	for _, known := range in.Clusters {
		reached, err := a.Clusters.Reaches(known.Cluster)
		if err != nil {
			return nil, err
		}
		if reached {
			w.running.Go(func() { w.watchCluster(ctx, a.Clusters, known) })
			continue
		}
		throughAgents = append(throughAgents, known)
	}
	if len(throughAgents) > 0 {
		hub, err := a.Clusters.Hub(ctx)
		if err != nil {
			return nil, err
		}
		w.running.Go(func() { w.fail(w.watchHub(ctx, hub, throughAgents)) })
	}
	return w.await(ctx)
}

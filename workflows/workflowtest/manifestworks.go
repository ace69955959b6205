package workflowtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/activities/manifestworks"
	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// NewManifestWorkWorld simulates a hub on which a manifest work is applied a minute after it was created, except on stuck clusters. It
// also returns the creations ("+template cluster") and deletions ("-template cluster"), in order.
func NewManifestWorkWorld(t *testing.T, stuck []string, batches ...[]string) (*PolicyWorld, *[]string) {
	w := &PolicyWorld{World: NewWorld(t), Compliance: map[string][]byte{}, Enforced: map[int][]string{}, leaving: map[string]bool{}}
	w.Plan = PlanOf(batches...)
	for _, cluster := range slices.Concat(batches...) {
		w.Compliance[cluster] = []byte("UU")
	}
	var events []string
	Simulate(w.World, "PrepareManifestWorks", func(in manifestworks.Rollout) any {
		return []manifestworks.Prepared{{Template: "os", Work: "safe-os", Pin: "1"}, {Template: "firmware", Work: "safe-firmware", Pin: "2"}}
	})
	w.CreateWork = func(cluster string, item int) {
		events = append(events, "+"+workTemplates[item]+" "+cluster)
		w.Enforced[item] = append(w.Enforced[item], cluster)
		w.SimulateAfter(time.Second, func() { w.Comply(cluster, item, policies.Pending) })
		if !slices.Contains(stuck, cluster) {
			w.SimulateAfter(time.Minute, func() { w.Comply(cluster, item, policies.Compliant) })
		}
	}
	Simulate(w.World, "PlaceManifestWorks", func(in manifestworks.PlaceWorksInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		var placed remediation.PlacementResult
		placed.Left = map[string]*ranv1.ManifestResourceStatus{}
		for _, unfinished := range in.Unfinished {
			if w.LeftStatus != nil && slices.Contains(w.Enforced[unfinished.Item], unfinished.Cluster) {
				placed.Left[unfinished.Cluster] = w.LeftStatus
			}
		}
		refuse := func(cluster string, refusal remediation.RefusedPlacement) {
			refusal.Clusters = []string{cluster}
			placed.Refused = append(placed.Refused, refusal)
		}
		for _, desired := range in.Desired {
			for _, cluster := range slices.Concat(desired.Clusters, desired.Held) {
				for item := range workTemplates {
					switch {
					case item == desired.Item, !slices.Contains(w.Enforced[item], cluster):
					case slices.Contains(w.Undeletable, cluster):
						refuse(cluster, remediation.RefusedPlacement{Reason: "NotPlaced", Message: "the hub forbids it"})
					default:
						events = append(events, "-"+workTemplates[item]+" "+cluster)
						w.Enforced[item] = slices.DeleteFunc(w.Enforced[item], func(name string) bool { return name == cluster })
						w.Compliance[cluster][item] = byte(policies.Unknown)
						if takes := w.Removes[cluster]; takes > 0 {
							w.leaving[cluster] = true
							w.SimulateAfter(takes, func() { w.removed(cluster) })
						}
					}
				}
				refusal, refused := w.Refusals[cluster]
				switch {
				case desired.Item == policies.NoItem, slices.Contains(w.Enforced[desired.Item], cluster):
				case slices.Contains(desired.Held, cluster):
					placed.Waiting = append(placed.Waiting, cluster)
				case w.leaving[cluster]:
					placed.Removing = append(placed.Removing, cluster)
				case refused:
					refuse(cluster, refusal)
				default:
					w.CreateWork(cluster, desired.Item)
				}
			}
		}
		return placed
	})
	w.RegisterActivityWithOptions(func(ctx context.Context, in manifestworks.AwaitRemovedInput) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		for _, next := range in.Clusters {
			if !w.leaving[next.Cluster] {
				return nil
			}
		}
		w.removals = append(w.removals, activity.GetInfo(ctx).TaskToken)
		return activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitRemoved"})
	Simulate(w.World, "CleanUpManifestWorks", func(manifestworks.CleanUpWorksInput) any { return nil })
	Simulate(w.World, "ReadManifestWorks", func(in manifestworks.ReadWorksInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		var seen []policies.ClusterCompliance
		for _, cluster := range in.Clusters {
			seen = append(seen, policies.ClusterCompliance{Cluster: cluster, Status: policies.ComplianceStatus(w.Compliance[cluster])})
		}
		return seen
	})
	w.RegisterActivityWithOptions(func(ctx context.Context, in manifestworks.AwaitWorksInput) ([]policies.ClusterCompliance, error) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		await := policiesactivities.AwaitComplianceInput{Clusters: in.Clusters}
		if news := w.changedClusters(await); len(news) > 0 {
			return news, nil
		}
		w.addWait(ctx, await)
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitManifestWorks"})
	return w, &events
}

// removed ends the removal of the work of a cluster.
func (w *PolicyWorld) removed(cluster string) {
	w.Mu.Lock()
	delete(w.leaving, cluster)
	tokens := w.removals
	w.removals = nil
	w.Mu.Unlock()
	for _, token := range tokens {
		_ = w.CompleteActivity(token, nil, nil) // a cancelled watch has ended
	}
}

// workTemplates are the templates of simulated rollouts of manifest works.
var workTemplates = []string{"os", "firmware"}

// RunWorks runs a rollout of manifest works.
func (w *PolicyWorld) RunWorks(changes ...func(*ranv1.ClusterGroupUpgradeSpec)) {
	w.Run(append([]func(*ranv1.ClusterGroupUpgradeSpec){func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.ManagedPolicies, spec.ManifestWorkTemplates = nil, workTemplates
	}}, changes...)...)
}

// StatusOfCluster returns the status of a cluster in the status of its rollout.
func StatusOfCluster(status GroupStatus, name string) ranv1.ClusterStatus {
	return status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == name })]
}

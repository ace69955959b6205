package workflowtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// PolicyWorld simulates a hub that enforces policies. A cluster complies ComplyAfter after a policy is enforced on it.
type PolicyWorld struct {
	*World
	// Compliance is one letter a policy, by cluster. A negative ComplyAfter means never.
	Compliance  map[string][]byte
	ComplyAfter func(cluster string, policy int) time.Duration
	Soaks       []time.Duration
	// Enforced are the clusters of each policy, or manifest work, now. MostEnforced is the highest number of them so far.
	Enforced     map[int][]string
	MostEnforced int
	// Waits are the activities that wait for changes. MostWaits is the highest number of concurrent ones.
	Waits     []ComplianceWait
	MostWaits int
	// relapseWaits are the activities that wait for relapses of complete clusters.
	relapseWaits []relapseWait
	// Refusals are the reasons why clusters get no manifest work. Undeletable clusters keep theirs.
	Refusals    map[string]remediation.RefusedPlacement
	Undeletable []string
	// LeftStatus is the status of every manifest work that a cluster loses before it has finished it.
	LeftStatus *ranv1.ManifestResourceStatus
	// Subscriptions has for each policy those that it requires. Plans are the states of the Subscriptions of clusters.
	Subscriptions [][]installplans.Requested
	Plans         map[string]installplans.Cluster
	plansWaits    []plansWait
	// Unselectable is why placements cannot select clusters, and Displaced are clusters whose enforcement another user has ended.
	Unselectable map[string]string
	Displaced    map[string]bool
	// CreateWork creates a manifest work on a cluster.
	CreateWork func(cluster string, item int)
	// Removes is how long the agents of clusters take to remove a manifest work. leaving are clusters with such a removal in progress, and removals the waits for it.
	Removes  map[string]time.Duration
	leaving  map[string]bool
	removals [][]byte
}

// ComplianceWait is an activity that waits for a change of compliance.
type ComplianceWait struct {
	ID    int
	Token []byte
	in    policiesactivities.AwaitComplianceInput
}

type relapseWait struct {
	token []byte
	in    policiesactivities.ReadComplianceInput
}

// NewPolicyWorld plans a rollout of policies kernel and network; no cluster complies with them yet.
func NewPolicyWorld(t *testing.T, batches ...[]string) *PolicyWorld {
	w := &PolicyWorld{
		World: NewWorld(t), Compliance: map[string][]byte{}, Enforced: map[int][]string{}, Soaks: make([]time.Duration, 2),
		ComplyAfter: func(string, int) time.Duration { return time.Minute },
	}
	w.Plan = PlanOf(batches...)
	w.Plan.ManagedPoliciesForUpgrade = []string{"kernel", "network"}
	w.Plan.PolicyNamespaces = map[string]string{"kernel": "policies", "network": "policies"}
	w.Plan.PolicyEnforcement = &ranv1.EnforcementStatus{By: ranv1.EnforceOverride, Placements: ranv1.KindPlacement}
	w.Plan.PolicyContent = map[string]string{"kernel": "[]"}
	w.Plan.StartPolicyIndex = map[string]int{}
	for _, cluster := range slices.Concat(batches...) {
		w.Compliance[cluster] = []byte("NN")
		w.Plan.StartPolicyIndex[cluster] = 0
	}
	Simulate(w.World, "PreparePolicies", func(in policiesactivities.Rollout) any {
		var prepared []policiesactivities.Prepared
		for i, ref := range in.Policies {
			prepared = append(prepared, policiesactivities.Prepared{
				Ref: ref, Soak: w.Soaks[i], SafeNames: map[string]string{"june-" + ref.Name: "safe-" + ref.Name}, Pin: "uid-of-" + ref.Name + "/3",
				Subscriptions: w.subscriptionsOf(i),
			})
		}
		return prepared
	})
	Simulate(w.World, "PlacePolicies", w.Place)
	Simulate(w.World, "CleanUpPolicies", func(policiesactivities.Rollout) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Enforced = map[int][]string{}
		return nil
	})
	Simulate(w.World, "ChangedPolicies", func(policiesactivities.Rollout) any { return nil })
	Simulate(w.World, "ReadCompliance", func(in policiesactivities.ReadComplianceInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		var seen []policies.ClusterCompliance
		for _, cluster := range in.Clusters {
			seen = append(seen, policies.ClusterCompliance{Cluster: cluster, Status: policies.ComplianceStatus(w.Compliance[cluster])})
		}
		return seen
	})
	Simulate(w.World, "FindRelapses", func(in policiesactivities.ReadComplianceInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		relapsed := []string{}
		for _, cluster := range w.relapsed(in) {
			relapsed = append(relapsed, cluster.Cluster)
		}
		return relapsed
	})
	w.RegisterActivityWithOptions(func(ctx context.Context, in policiesactivities.ReadComplianceInput) ([]policies.ClusterCompliance, error) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["AwaitRelapses"] = append(w.Inputs["AwaitRelapses"], in)
		if relapsed := w.relapsed(in); len(relapsed) > 0 {
			return relapsed, nil
		}
		w.relapseWaits = append(w.relapseWaits, relapseWait{activity.GetInfo(ctx).TaskToken, in})
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitRelapses"})
	w.RegisterActivityWithOptions(func(ctx context.Context, in policiesactivities.AwaitComplianceInput) ([]policies.ClusterCompliance, error) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["AwaitCompliance"] = append(w.Inputs["AwaitCompliance"], in)
		if fail := w.Fail["AwaitCompliance"]; fail != nil {
			if err := fail(len(w.Inputs["AwaitCompliance"])); err != nil {
				return nil, err
			}
		}
		if news := w.changedClusters(in); len(news) > 0 {
			return news, nil
		}
		w.addWait(ctx, in)
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitCompliance"})
	w.simulateInstallPlans()
	return w
}

// relapsed returns the clusters that have relapsed.
func (w *PolicyWorld) relapsed(in policiesactivities.ReadComplianceInput) []policies.ClusterCompliance {
	var relapsed []policies.ClusterCompliance
	for _, cluster := range in.Clusters {
		if status := policies.ComplianceStatus(w.Compliance[cluster]); status.Relapsed() != policies.NoItem {
			relapsed = append(relapsed, policies.ClusterCompliance{Cluster: cluster, Status: status})
		}
	}
	return relapsed
}

// addWait adds an activity that waits.
func (w *PolicyWorld) addWait(ctx context.Context, in policiesactivities.AwaitComplianceInput) {
	info := activity.GetInfo(ctx)
	id, err := strconv.Atoi(info.ActivityID)
	require.NoError(w.T, err)
	w.Waits = append(w.Waits, ComplianceWait{ID: id, Token: info.TaskToken, in: in})
	// Only the last activity for each unfinished cluster counts: the workflow no longer waits for the others.
	last := map[string]int{}
	for _, one := range w.Waits {
		for _, known := range one.in.Clusters {
			if string(w.Compliance[known.Cluster]) != "CC" {
				last[known.Cluster] = max(last[known.Cluster], one.ID)
			}
		}
	}
	w.MostWaits = max(w.MostWaits, len(slices.Compact(slices.Sorted(maps.Values(last)))))
}

// LastWaitID is the ID of the last activity that waits.
func (w *PolicyWorld) LastWaitID() int {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Waits[len(w.Waits)-1].ID
}

// changedClusters returns the clusters whose compliance has changed for the caller.
func (w *PolicyWorld) changedClusters(in policiesactivities.AwaitComplianceInput) []policies.ClusterCompliance {
	var news []policies.ClusterCompliance
	for _, known := range in.Clusters {
		now := policies.ClusterCompliance{
			Cluster: known.Cluster, Status: policies.ComplianceStatus(w.Compliance[known.Cluster]), ClusterDeleted: slices.Contains(w.DeletedClusters, known.Cluster),
			Unselectable: w.Unselectable[known.Cluster], Displaced: w.Displaced[known.Cluster] && known.Placed,
		}
		if now.ClusterDeleted || now.Displaced || now.Unselectable != known.Unselectable || policies.Changed(known.Status, now.Status, known.Policy) {
			news = append(news, now)
		}
	}
	return news
}

// Place enforces policies on the desired clusters.
func (w *PolicyWorld) Place(in policiesactivities.PlacePoliciesInput) any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	changes, waiting := policies.Changes(in.Desired, []policies.ObservedPlacement{{Clusters: w.Enforced[0]}, {Clusters: w.Enforced[1]}})
	for _, change := range changes {
		for _, cluster := range change.Added {
			if takes := w.ComplyAfter(cluster, change.Item); takes >= 0 {
				w.SimulateAfter(takes, func() { w.Comply(cluster, change.Item, policies.Compliant) })
			}
		}
		w.Enforced[change.Item] = change.Clusters
	}
	w.MostEnforced = max(w.MostEnforced, len(slices.Concat(w.Enforced[0], w.Enforced[1])))
	return remediation.PlacementResult{Waiting: waiting}
}

// Comply changes the compliance of a cluster with a policy.
func (w *PolicyWorld) Comply(cluster string, policy int, now policies.Compliance) {
	w.Change(func() {
		w.Compliance[cluster][policy] = byte(now)
		if now == policies.Unknown { // the manifest work was deleted
			w.Enforced[policy] = slices.DeleteFunc(w.Enforced[policy], func(name string) bool { return name == cluster })
		}
	})
}

// DeleteManagedCluster deletes the ManagedCluster of a cluster.
func (w *PolicyWorld) DeleteManagedCluster(cluster string) {
	w.Change(func() { w.World.DeletedClusters = append(w.World.DeletedClusters, cluster) })
}

// Change runs a change, and completes the activities that wait for it.
func (w *PolicyWorld) Change(apply func()) {
	w.Mu.Lock()
	apply()
	waiting := w.Waits
	w.Waits = nil
	var completions []func()
	for _, one := range waiting {
		news := w.changedClusters(one.in)
		if len(news) == 0 {
			w.Waits = append(w.Waits, one)
			continue
		}
		completions = append(completions, func() { _ = w.CompleteActivity(one.Token, news, nil) }) // it may have been cancelled
	}
	w.relapseWaits = slices.DeleteFunc(w.relapseWaits, func(one relapseWait) bool {
		relapsed := w.relapsed(one.in)
		if len(relapsed) > 0 {
			completions = append(completions, func() { _ = w.CompleteActivity(one.token, relapsed, nil) })
		}
		return len(relapsed) > 0
	})
	w.Mu.Unlock()
	for _, complete := range completions {
		complete()
	}
}

func (w *PolicyWorld) Run(changes ...func(*ranv1.ClusterGroupUpgradeSpec)) {
	object := PolicyRollout()
	for _, change := range changes {
		change(&object.Spec)
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
}

// PolicyRollout is a rollout of the policies kernel and network.
func PolicyRollout() ranv1.ClusterGroupUpgrade {
	object := ARollout()
	object.Spec.NodeMaintenance, object.Spec.ManagedPolicies = nil, []string{"kernel", "network"}
	return object
}

// RequireNothingEnforced requires that no cluster is left in a placement of the rollout.
func (w *PolicyWorld) RequireNothingEnforced() {
	w.T.Helper()
	for policy, clusters := range w.Enforced {
		require.Empty(w.T, clusters, "policy %d", policy)
	}
}

// GatherDurations returns the gather times of the calls of AwaitCompliance.
func (w *PolicyWorld) GatherDurations() []time.Duration {
	var gathers []time.Duration
	for _, in := range w.InputsOf("AwaitCompliance") {
		gathers = append(gathers, in.(policiesactivities.AwaitComplianceInput).Gather)
	}
	return gathers
}

// Stops are reasons why nothing new starts on cluster c1, with their signals.
var Stops = map[string]struct {
	Reason       string
	Stop, Resume func(*World)
}{
	"held": {
		emergency.ReasonHeld,
		func(w *World) { w.SignalWorkflow(temporal.SignalHeld, HeldState(2, "cluster/c1")) },
		func(w *World) { w.SignalWorkflow(temporal.SignalHeld, HeldState(3)) },
	},
	"paused": {
		policy.ReasonPaused,
		func(w *World) { w.SignalWorkflow(temporal.SignalPause, nil) },
		func(w *World) { w.SignalWorkflow(temporal.SignalResume, nil) },
	},
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// policyItems are the policies of a rollout. A policy is enforced on the clusters that its placement on the hub lists.
type policyItems struct {
	of   Rollout
	pins func() []string
	hub  *policiesactivities.Activities
}

// rollout is what the activities need to know of the rollout.
func (p *policyItems) rollout(ctx workflow.Context) policiesactivities.Rollout {
	object := p.of.Request()
	return policiesactivities.Rollout{
		Namespace: object.Namespace, Name: object.Name, Owner: kit.Owner(ctx), Enforcement: p.enforcement(), Policies: p.refs(), Pins: p.pins(),
	}
}

func (p *policyItems) enforcement() ranv1.PolicyEnforcement {
	return cmp.Or(p.of.Request().Spec.PolicyEnforcement, ranv1.EnforceCopy)
}

func (p *policyItems) refs() []policies.Ref {
	status := p.of.Status()
	var refs []policies.Ref
	for _, name := range status.ManagedPoliciesForUpgrade {
		refs = append(refs, policies.Ref{Namespace: status.ManagedPoliciesNs[name], Name: name})
	}
	return refs
}

// KeepsLastItem: a policy is no longer enforced on a cluster that complies.
func (p *policyItems) KeepsLastItem() bool { return false }

func (p *policyItems) WaitMessage() string { return "waiting for the cluster to comply" }

func (p *policyItems) Count() int { return len(p.of.Status().ManagedPoliciesForUpgrade) }

func (p *policyItems) planned(cluster *ranv1.ClusterStatus) int {
	if cluster.CurrentPolicy == nil {
		return -1
	}
	return slices.Index(p.of.Status().ManagedPoliciesForUpgrade, cluster.CurrentPolicy.Name)
}

// PlannedBindings: what was bound to the cluster when it was planned, from the policy on for which it is in the plan.
func (p *policyItems) PlannedBindings(cluster *ranv1.ClusterStatus) []bool {
	bound := make([]bool, p.Count())
	planned := p.planned(cluster)
	if planned < 0 {
		return bound
	}
	notBound := p.of.NotBound(cluster.Name)
	for policy := planned; policy < len(bound); policy++ {
		bound[policy] = policy == planned || !slices.Contains(notBound, policy)
	}
	return bound
}

func (p *policyItems) Prepare(ctx workflow.Context) (*PreparedItems, error) {
	var prepared []policiesactivities.Prepared
	if err := p.of.Retrier().Run(ctx, "prepare the enforcement of policies", p.hub.PreparePolicies, p.rollout(ctx), &prepared); err != nil {
		return nil, err
	}
	items, names := &PreparedItems{}, map[string]string{}
	for _, policy := range prepared {
		items.Soaks = append(items.Soaks, policy.Soak)
		items.Pins = append(items.Pins, policy.Pin)
		for _, name := range workflow.DeterministicKeys(policy.SafeNames) {
			names[name] = policy.SafeNames[name]
		}
	}
	p.of.SetObjectNames(names)
	return items, nil
}

func (p *policyItems) Place(ctx workflow.Context, retrier kit.Retrier, desired []policies.DesiredPlacement, closes *time.Time) (remediation.PlacementResult, error) {
	in := policiesactivities.PlacePoliciesInput{Rollout: p.rollout(ctx), Closes: closes}
	var enforced []string
	for _, placement := range desired {
		if placement.Item == policies.NoItem {
			continue // as every cluster that is not named
		}
		in.Desired = append(in.Desired, placement)
		enforced = append(enforced, fmt.Sprintf("%s on %d", p.Name(placement.Item), len(placement.Clusters)))
	}
	summary := "enforce " + strings.Join(enforced, ", ") + " clusters"
	if len(enforced) == 0 {
		summary = "enforce no policy on any cluster"
	}
	var placed remediation.PlacementResult
	err := retrier.Run(ctx, temporal.Cut(summary, kit.SummaryLimit), p.hub.PlacePolicies, in, &placed)
	for _, name := range placed.Recreated {
		p.note(name + " had been deleted, and was made again")
	}
	p.noteChanged(placed.Changed)
	return placed, err
}

// ClustersPerPlacement: the placements of policies name all clusters.
func (p *policyItems) ClustersPerPlacement() int { return 0 }

// note notes something once.
func (p *policyItems) note(text string) {
	if !slices.Contains(p.of.Status().Notes, text) {
		p.of.Note(text)
	}
}

// noteChanged notes which policies were changed since the rollout began.
func (p *policyItems) noteChanged(changed []int) {
	for _, item := range changed {
		p.note(p.changed(item))
	}
}

// changed explains what it means for the clusters that a policy was changed since the rollout began.
func (p *policyItems) changed(item int) string {
	means := "clusters still get the copy of that one, and must comply with what it says now"
	if p.enforcement() == ranv1.EnforceOverride {
		means = "clusters that were done with it before are not brought to what it says now, the others are"
	}
	return fmt.Sprintf("policy %s has been changed, or deleted, since the rollout began with its generation %s: %s; to roll out what it says now on all of them, cancel the rollout if it still runs, and start it again",
		p.refs()[item], policies.Generation(p.pins()[item]), means)
}

func (p *policyItems) Await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	in := policiesactivities.AwaitComplianceInput{Policies: p.refs(), Clusters: known, Gather: gather}
	var news []policies.ClusterCompliance
	err := p.of.Retrier().Watch(ctx, fmt.Sprintf("watch the compliance of %d clusters", len(known)), p.hub.AwaitCompliance, in, &news)
	return news, err
}

func (p *policyItems) Read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error) {
	in := policiesactivities.ReadComplianceInput{Policies: p.refs(), Clusters: clusters}
	var seen []policies.ClusterCompliance
	err := retrier.Run(ctx, fmt.Sprintf("read the compliance of %d clusters", len(clusters)), p.hub.ReadCompliance, in, &seen)
	return seen, err
}

func (p *policyItems) CleanUp(ctx workflow.Context, retrier kit.Retrier) error {
	var changed []int
	err := retrier.Run(ctx, "delete the objects that enforce policies", p.hub.CleanUpPolicies, p.rollout(ctx), &changed)
	p.noteChanged(changed)
	return err
}

func (p *policyItems) CheckChanged(ctx workflow.Context, retrier kit.Retrier) error {
	var changed []int
	err := retrier.Run(ctx, "check whether policies were changed", p.hub.ChangedPolicies, p.rollout(ctx), &changed)
	p.noteChanged(changed)
	return err
}

// Deleted: no cluster has an object of its own. Objects that were deleted are made again when clusters are placed.
func (p *policyItems) Deleted(policies.Compliance, policies.Compliance) bool { return false }

func (p *policyItems) Describe(status *ranv1.ClusterStatus, item int, compliance policies.Compliance) {
	status.Step = "policy " + p.Name(item)
	status.CurrentPolicy = &ranv1.PolicyStatus{Name: p.Name(item), Status: compliance.String()}
}

// reasonUnbound is the reason of a cluster that a policy is no longer bound to.
const reasonUnbound = "Unbound"

func (p *policyItems) UnboundFailure(item int) (reason, message string) {
	if item < 0 {
		return reasonUnbound, "no policy of the rollout is still bound to the cluster: its compliance is unknown"
	}
	return reasonUnbound, fmt.Sprintf("policy %s is no longer bound to the cluster: its compliance is unknown", p.refs()[item])
}

func (p *policyItems) Name(item int) string { return p.of.Status().ManagedPoliciesForUpgrade[item] }

// keepsObjects reports whether the objects that a rollout made on the hub stay there when it has succeeded.
func keepsObjects(r Rollout) bool {
	after := r.Request().Spec.Actions.AfterCompletion
	return after != nil && after.DeleteObjects != nil && !*after.DeleteObjects
}

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// policyItems are the policies of a rollout. A policy is enforced on the clusters that its placement on the hub lists.
type policyItems struct {
	of Rollout
	// prepared are the policies as they were prepared.
	prepared func() PreparedItems
	hub      *policiesactivities.Activities
}

// rollout is the rollout in the inputs of activities.
func (p *policyItems) rollout(ctx workflow.Context) policiesactivities.Rollout {
	object := p.of.Request()
	return policiesactivities.Rollout{
		Namespace: object.Namespace, Name: object.Name, Owner: kit.Owner(ctx), Enforcement: p.enforcement(), Policies: p.refs(),
		Pins: p.prepared().Pins, Sources: p.prepared().Sources,
	}
}

// enforcement is that of the plan. A later run that retries clusters has the same objects on the hub.
func (p *policyItems) enforcement() ranv1.EnforcementStatus {
	return *p.of.Status().PolicyEnforcement
}

func (p *policyItems) refs() []policies.Ref {
	status := p.of.Status()
	var refs []policies.Ref
	for _, policy := range status.ManagedPoliciesForUpgrade {
		refs = append(refs, policies.Ref{Namespace: policy.Namespace, Name: policy.Name})
	}
	return refs
}

// KeepsLastItem implements items: a policy is no longer enforced on a compliant cluster.
func (p *policyItems) KeepsLastItem() bool { return false }

func (p *policyItems) WaitMessage() string { return "waiting for the cluster to comply" }

func (p *policyItems) Count() int { return len(p.of.Status().ManagedPoliciesForUpgrade) }

func (p *policyItems) planned(cluster *ranv1.ClusterStatus) int {
	if cluster.CurrentPolicy == nil {
		return -1
	}
	return rollout.PolicyIndex(p.of.Status(), cluster.CurrentPolicy.Name)
}

// PlannedBindings implements items. It returns the bindings from the cluster's first policy on, as they were when the plan was made.
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
		items.Specified = append(items.Specified, policy.Specified)
		items.Subscriptions = append(items.Subscriptions, policy.Subscriptions)
		items.Sources = append(items.Sources, policy.Sources)
		for _, name := range workflow.DeterministicKeys(policy.SafeNames) {
			names[name] = policy.SafeNames[name]
		}
	}
	if len(slices.Concat(items.Subscriptions...)) == 0 {
		items.Subscriptions = nil
	}
	if len(slices.Concat(items.Sources...)) == 0 {
		items.Sources = nil
	}
	p.of.SetObjectNames(names)
	return items, nil
}

func (p *policyItems) Place(ctx workflow.Context, retrier kit.Retrier, desired []policies.DesiredPlacement, _ Unfinished, closes *time.Time) (remediation.PlacementResult, error) {
	in := policiesactivities.PlacePoliciesInput{Rollout: p.rollout(ctx), Closes: closes}
	var enforced []string
	for _, placement := range desired {
		if placement.Item == policies.NoItem {
			continue // clusters that are not named have no policy
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
		p.note(name + " had been deleted, and was created again")
	}
	for _, name := range placed.Restored {
		p.note(name + " had been changed by another user, and was restored")
	}
	p.noteChanged(placed.Changed)
	return placed, err
}

// AwaitRemoved implements items. A policy is no longer enforced as soon as its placement is written.
func (p *policyItems) AwaitRemoved(workflow.Context, []policies.Target) error { return nil }

// ClustersPerPlacement implements items: the placement of a policy names all its clusters.
func (p *policyItems) ClustersPerPlacement() int { return 0 }

// note adds a note, unless the status has it already.
func (p *policyItems) note(text string) {
	if !slices.Contains(p.of.Status().Notes, text) {
		p.of.Note(text)
	}
}

// noteChanged adds a note for each policy that was changed since the rollout started.
func (p *policyItems) noteChanged(changed []int) {
	for _, item := range changed {
		p.note(p.changed(item))
	}
}

// changed is the note on a policy that was changed since the rollout started.
func (p *policyItems) changed(item int) string {
	means := "clusters get the copy of that generation, and must comply with the policy of today"
	if p.enforcement().By == ranv1.EnforceOverride {
		means = "clusters that completed it before keep that generation, the others get the policy of today"
	}
	return fmt.Sprintf("policy %s has been changed, or deleted, since the rollout began with its generation %s: %s; to roll out the policy of today on all clusters, cancel the rollout if it still runs, and start it again",
		p.refs()[item], policies.Generation(p.prepared().Pins[item]), means)
}

// enforced are the policies in the inputs of activities that read compliance.
func (p *policyItems) enforced(ctx workflow.Context) policiesactivities.Enforced {
	enforced := policiesactivities.Enforced{Rollout: p.rollout(ctx), Specified: p.prepared().Specified}
	enforced.Rollout.Pins = nil
	if started := p.of.Status().Status.StartedAt; started != nil {
		enforced.Started = started.Time
	}
	return enforced
}

func (p *policyItems) Await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	in := policiesactivities.AwaitComplianceInput{Enforced: p.enforced(ctx), Clusters: known, Gather: gather}
	var changes []policies.ClusterCompliance
	err := p.of.Retrier().Watch(ctx, fmt.Sprintf("watch the compliance of %d clusters", len(known)), p.hub.AwaitCompliance, in, &changes)
	return changes, err
}

func (p *policyItems) Read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error) {
	in := policiesactivities.ReadComplianceInput{Enforced: p.enforced(ctx), Clusters: clusters}
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

// ReplacedMessage implements items.
func (p *policyItems) ReplacedMessage() string {
	return "an object that enforces it was deleted or changed, and is restored"
}

// Deleted implements items: clusters have no objects of their own.
func (p *policyItems) Deleted(policies.Compliance, policies.Compliance) bool { return false }

func (p *policyItems) Describe(status *ranv1.ClusterStatus, item int, compliance policies.Compliance) {
	status.Step = "policy " + p.Name(item)
	status.CurrentPolicy = &ranv1.PolicyStatus{Name: p.Name(item), Status: compliance.String()}
}

// reasonUnbound is the reason of a cluster that lost the binding to a policy.
const reasonUnbound = "Unbound"

func (p *policyItems) UnboundFailure(item int) (reason, message string) {
	if item < 0 {
		return reasonUnbound, "no policy of the rollout is still bound to the cluster: its compliance is unknown"
	}
	return reasonUnbound, fmt.Sprintf("policy %s is no longer bound to the cluster: its compliance is unknown", p.refs()[item])
}

func (p *policyItems) Name(item int) string {
	return p.of.Status().ManagedPoliciesForUpgrade[item].Name
}

// keepsObjects reports whether the objects of a rollout stay on the hub after it has succeeded.
func keepsObjects(r Rollout) bool {
	after := r.Request().Spec.Actions.AfterCompletion
	return after != nil && after.DeleteObjects != nil && !*after.DeleteObjects
}

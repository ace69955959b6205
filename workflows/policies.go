package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// policyItems are the policies of a rollout: they are enforced on a cluster by listing it in a placement on the hub.
type policyItems struct {
	of   RemediatedRollout
	pins func() []string
	hub  *activities.Policies
}

// rollout is what the activities need to know of the rollout.
func (p *policyItems) rollout(ctx workflow.Context) activities.PolicyRollout {
	object := p.of.Request()
	return activities.PolicyRollout{
		Namespace: object.Namespace, Name: object.Name, Owner: owner(ctx), Enforcement: p.enforcement(), Policies: p.refs(), Pins: p.pins(),
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

// stay: a cluster that complies needs not be enforced any more.
func (p *policyItems) stay() bool { return false }

func (p *policyItems) awaited() string { return "waiting for the cluster to comply" }

func (p *policyItems) count() int { return len(p.of.Status().ManagedPoliciesForUpgrade) }

func (p *policyItems) planned(cluster *ranv1.ClusterStatus) int {
	if cluster.CurrentPolicy == nil {
		return -1
	}
	return slices.Index(p.of.Status().ManagedPoliciesForUpgrade, cluster.CurrentPolicy.Name)
}

// bound: what was bound to the cluster when it was planned, from the policy on for which it is in the plan.
func (p *policyItems) bound(cluster *ranv1.ClusterStatus) []bool {
	bound := make([]bool, p.count())
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

func (p *policyItems) prepare(ctx workflow.Context) (*PreparedItems, error) {
	var prepared []activities.PreparedPolicy
	if err := p.of.Retrier().effect(ctx, "prepare the enforcement of policies", p.hub.PreparePolicies, p.rollout(ctx), &prepared); err != nil {
		return nil, err
	}
	items, names := &PreparedItems{}, map[string]string{}
	for _, policy := range prepared {
		items.Soaks = append(items.Soaks, policy.Soak)
		if policy.Pin != "" { // or an earlier program has prepared it
			items.Pins = append(items.Pins, policy.Pin)
		}
		for _, name := range workflow.DeterministicKeys(policy.SafeNames) {
			names[name] = policy.SafeNames[name]
		}
	}
	p.of.SetObjectNames(names)
	return items, nil
}

func (p *policyItems) place(ctx workflow.Context, insistOn func(added []string) insistence, placements []placement) (told []placement, refused []refusal, err error) {
	added := addedBy(placements)
	in := activities.PlaceClustersInput{Rollout: p.rollout(ctx), Closes: p.of.Closes(added)}
	var words []string
	for _, placed := range placements {
		in.Placements = append(in.Placements, activities.PlacedClusters{Policy: placed.item, Clusters: placed.clusters, Added: placed.added})
		words = append(words, fmt.Sprintf("%s on %d", p.name(placed.item), len(placed.clusters)))
	}
	var found []string
	err = insistOn(added).effect(ctx, "enforce "+strings.Join(words, ", ")+" clusters", p.hub.PlaceClusters, in, &found)
	p.noteFound(found)
	if err != nil {
		return nil, nil, err
	}
	return placements, nil, nil
}

// noteFound says once of what was found on the hub that it was made again, or that it is a policy of the rollout which has changed.
func (p *policyItems) noteFound(found []string) {
	for _, name := range found {
		note := name + " had been deleted, and was made again"
		if item := slices.IndexFunc(p.refs(), func(ref policies.Ref) bool { return name == policies.Policies.Kind+" "+ref.String() }); item >= 0 {
			note = p.changed(item)
		}
		if !slices.Contains(p.of.Status().Notes, note) {
			p.of.Note(note)
		}
	}
}

// changed says of a policy that it is not what it was any more when the rollout began, and what that means for the clusters.
func (p *policyItems) changed(item int) string {
	means := "clusters are given the copy of that all the same, and must comply with what it says now"
	if p.enforcement() == ranv1.EnforceOverride {
		means = "clusters that were done with it before are not brought to what it says now, the others are"
	}
	return fmt.Sprintf("policy %s has been changed, or deleted, since the rollout began with its generation %s: %s; to roll out what it says now on all of them, cancel the rollout if it still runs, and start it anew",
		p.refs()[item], policies.Generation(p.pins()[item]), means)
}

func (p *policyItems) await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterStanding, error) {
	in := activities.AwaitComplianceInput{Policies: p.refs(), Clusters: known, Gather: gather}
	var news []policies.ClusterStanding
	err := p.of.Retrier().watch(ctx, fmt.Sprintf("watch how %d clusters comply", len(known)), p.hub.AwaitCompliance, in, &news)
	return news, err
}

func (p *policyItems) read(ctx workflow.Context, insist insistence, clusters []string) ([]policies.ClusterStanding, error) {
	in := activities.ReadComplianceInput{Policies: p.refs(), Clusters: clusters}
	var seen []policies.ClusterStanding
	err := insist.effect(ctx, fmt.Sprintf("look how %d clusters comply", len(clusters)), p.hub.ReadCompliance, in, &seen)
	return seen, err
}

func (p *policyItems) withdraw(ctx workflow.Context, insist insistence) error {
	var changed []string
	err := insist.effect(ctx, "remove what enforced policies", p.hub.WithdrawPolicies, p.rollout(ctx), &changed)
	p.noteFound(changed)
	return err
}

// lookBack says whether the policies are what they were when the rollout began.
func (p *policyItems) lookBack(ctx workflow.Context, insist insistence) error {
	in := p.rollout(ctx)
	if len(in.Pins) == 0 {
		return nil
	}
	var changed []string
	err := insist.effect(ctx, "look whether policies were changed", p.hub.ChangedPolicies, in, &changed)
	p.noteFound(changed)
	return err
}

// lost: what enforces a policy is not a cluster's own. It is looked for when clusters are placed.
func (p *policyItems) lost(policies.Compliance, policies.Compliance) bool { return false }

func (p *policyItems) describe(status *ranv1.ClusterStatus, item int, standing policies.Compliance) {
	status.Step = "policy " + p.name(item)
	status.CurrentPolicy = &ranv1.PolicyStatus{Name: p.name(item), Status: standing.String()}
}

// reasonUnbound is the reason of a cluster that a policy is not bound to any more.
const reasonUnbound = "Unbound"

func (p *policyItems) unbound(item int) (reason, message string) {
	if item < 0 {
		return reasonUnbound, "no policy of the rollout is bound to the cluster any more: nobody can say how it stands"
	}
	return reasonUnbound, fmt.Sprintf("policy %s is not bound to the cluster any more: nobody can say how it stands", p.refs()[item])
}

func (p *policyItems) name(item int) string { return p.of.Status().ManagedPoliciesForUpgrade[item] }

// keepsObjects reports whether the objects that a rollout made on the hub stay there when it has succeeded.
func keepsObjects(r RemediatedRollout) bool {
	after := r.Request().Spec.Actions.AfterCompletion
	return after != nil && after.DeleteObjects != nil && !*after.DeleteObjects
}

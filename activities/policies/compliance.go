package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/policies"
)

// Enforced are the policies of a rollout as it enforces them.
type Enforced struct {
	Rollout Rollout `json:"rollout"`
	// Specified has for each policy when it was last changed.
	Specified []time.Time `json:"specified,omitempty"`
	// Started is when the rollout started.
	Started time.Time `json:"started,omitzero"`
}

// AwaitComplianceInput is the known compliance of clusters with policies.
type AwaitComplianceInput struct {
	Enforced Enforced                `json:"enforced"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Gather is how long changes are gathered after the first one.
	Gather time.Duration `json:"gather"`
}

// AwaitCompliance waits until the compliance of clusters with their current policy differs from the known one, or what enforces it on them has changed, and
// returns it.
func (p *Activities) AwaitCompliance(ctx context.Context, in AwaitComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Enforced)
	if err != nil {
		return nil, err
	}
	return reader.Await(ctx, in.Clusters, in.Gather)
}

// ReadComplianceInput names clusters and policies.
type ReadComplianceInput struct {
	Enforced Enforced `json:"enforced"`
	Clusters []string `json:"clusters"`
}

// ReadCompliance reads the compliance of clusters with policies from the API server of the hub.
func (p *Activities) ReadCompliance(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Enforced)
	if err != nil {
		return nil, err
	}
	return reader.Read(ctx, in.Clusters)
}

// FindRelapses returns the clusters that no longer comply with a policy that is bound to them, according to a cache that may lag.
func (p *Activities) FindRelapses(ctx context.Context, in ReadComplianceInput) ([]string, error) {
	reader, err := p.reader(ctx, in.Enforced)
	if err != nil {
		return nil, err
	}
	return reader.FindRelapses(ctx, in.Clusters)
}

// AwaitRelapses waits until some clusters no longer comply with a policy that is bound to them, and returns them.
func (p *Activities) AwaitRelapses(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Enforced)
	if err != nil {
		return nil, err
	}
	return reader.AwaitRelapses(ctx, in.Clusters)
}

// reader reads the replicas of policies. Each replica has the compliance of one cluster. The status of the root policy would grow with the fleet.
func (p *Activities) reader(ctx context.Context, in Enforced) (remediation.ComplianceReader, error) {
	hub, err := p.Clusters.Hub(ctx)
	s := remediation.ComplianceReader{Hub: hub, Kind: policies.Policies, Judge: func(item int, replica *unstructured.Unstructured) (policies.Compliance, time.Time) {
		var changed time.Time
		if item < len(in.Specified) {
			changed = in.Specified[item]
		}
		return policies.ReadReport(replica).Judge(changed)
	}}
	for _, policy := range in.Rollout.Policies {
		s.Names = append(s.Names, policy.Replica())
	}
	enforcing := &enforcing{hub: hub, Enforced: in, enforced: map[string]bool{}}
	s.Complete, s.Related = enforcing.complete, enforcing.related()
	return s, err
}

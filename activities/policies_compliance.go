package activities

import (
	"context"
	"time"

	"drydock.dev/drydock/internal/policies"
)

// AwaitComplianceInput is what is known of the compliance of clusters with policies.
type AwaitComplianceInput struct {
	Policies []policies.Ref          `json:"policies"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Gather is how long changes are gathered from the first on.
	Gather time.Duration `json:"gather"`
}

// AwaitCompliance waits until the compliance of some clusters with their current policy is not the known one, and returns it.
func (p *Policies) AwaitCompliance(ctx context.Context, in AwaitComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Policies)
	if err != nil {
		return nil, err
	}
	return reader.await(ctx, in.Clusters, in.Gather)
}

// ReadComplianceInput names clusters and policies.
type ReadComplianceInput struct {
	Policies []policies.Ref `json:"policies"`
	Clusters []string       `json:"clusters"`
}

// ReadCompliance reads the compliance of clusters with policies from the API server of the hub.
func (p *Policies) ReadCompliance(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Policies)
	if err != nil {
		return nil, err
	}
	return reader.read(ctx, in.Clusters)
}

// reader reads the replicas of policies. Each has the compliance of its cluster; the status of the policy itself grows with the fleet.
func (p *Policies) reader(ctx context.Context, refs []policies.Ref) (complianceReader, error) {
	hub, err := p.Clusters.Hub(ctx)
	s := complianceReader{hub: hub, kind: policies.Policies, judge: policies.ComplianceOf}
	for _, policy := range refs {
		s.names = append(s.names, policy.Replica())
	}
	return s, err
}

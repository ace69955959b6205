package activities

import (
	"context"
	"time"

	"drydock.dev/drydock/internal/policies"
)

// AwaitComplianceInput says how clusters stood to policies when that was last looked at.
type AwaitComplianceInput struct {
	Policies []policies.Ref          `json:"policies"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Gather is how long changes are gathered from the first on.
	Gather time.Duration `json:"gather"`
}

// AwaitCompliance waits until some of the clusters stand in another way than is known to the policies whose turn it is, and says how.
func (p *Policies) AwaitCompliance(ctx context.Context, in AwaitComplianceInput) ([]policies.ClusterStanding, error) {
	standings, err := p.standings(ctx, in.Policies)
	if err != nil {
		return nil, err
	}
	return standings.await(ctx, in.Clusters, in.Gather)
}

// ReadComplianceInput names clusters and policies.
type ReadComplianceInput struct {
	Policies []policies.Ref `json:"policies"`
	Clusters []string       `json:"clusters"`
}

// ReadCompliance asks the API server of the hub how clusters stand to policies.
func (p *Policies) ReadCompliance(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterStanding, error) {
	standings, err := p.standings(ctx, in.Policies)
	if err != nil {
		return nil, err
	}
	return standings.read(ctx, in.Clusters)
}

// standings reads the replicas of policies. Those say how their cluster stands; the status of the policy itself grows with the fleet.
func (p *Policies) standings(ctx context.Context, refs []policies.Ref) (standings, error) {
	hub, err := p.Clusters.Hub(ctx)
	s := standings{hub: hub, kind: policies.Policies, judge: policies.ComplianceOf}
	for _, policy := range refs {
		s.names = append(s.names, policy.Replica())
	}
	return s, err
}

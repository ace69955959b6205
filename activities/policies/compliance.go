package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/policies"
)

// AwaitComplianceInput is the known compliance of clusters with policies.
type AwaitComplianceInput struct {
	Policies []policies.Ref          `json:"policies"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Specified has for each policy when it was last changed.
	Specified []time.Time `json:"specified,omitempty"`
	// Gather is how long changes are gathered after the first one.
	Gather time.Duration `json:"gather"`
}

// AwaitCompliance waits until the compliance of clusters with their current policy differs from the known one, and returns it.
func (p *Activities) AwaitCompliance(ctx context.Context, in AwaitComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Policies, in.Specified)
	if err != nil {
		return nil, err
	}
	return reader.Await(ctx, in.Clusters, in.Gather)
}

// ReadComplianceInput names clusters and policies.
type ReadComplianceInput struct {
	Policies []policies.Ref `json:"policies"`
	Clusters []string       `json:"clusters"`
	// Specified has for each policy when it was last changed.
	Specified []time.Time `json:"specified,omitempty"`
}

// ReadCompliance reads the compliance of clusters with policies from the API server of the hub.
func (p *Activities) ReadCompliance(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Policies, in.Specified)
	if err != nil {
		return nil, err
	}
	return reader.Read(ctx, in.Clusters)
}

// FindRelapses returns the clusters that no longer comply with a policy that is bound to them, according to a cache that may lag.
func (p *Activities) FindRelapses(ctx context.Context, in ReadComplianceInput) ([]string, error) {
	reader, err := p.reader(ctx, in.Policies, in.Specified)
	if err != nil {
		return nil, err
	}
	return reader.FindRelapses(ctx, in.Clusters)
}

// AwaitRelapses waits until some clusters no longer comply with a policy that is bound to them, and returns them.
func (p *Activities) AwaitRelapses(ctx context.Context, in ReadComplianceInput) ([]policies.ClusterCompliance, error) {
	reader, err := p.reader(ctx, in.Policies, in.Specified)
	if err != nil {
		return nil, err
	}
	return reader.AwaitRelapses(ctx, in.Clusters)
}

// reader reads the replicas of policies. Each replica has the compliance of one cluster. The status of the root policy would grow with the fleet.
func (p *Activities) reader(ctx context.Context, refs []policies.Ref, specified []time.Time) (remediation.ComplianceReader, error) {
	hub, err := p.Clusters.Hub(ctx)
	s := remediation.ComplianceReader{Hub: hub, Kind: policies.Policies, Judge: func(item int, replica *unstructured.Unstructured) (policies.Compliance, time.Time) {
		var changed time.Time
		if item < len(specified) {
			changed = specified[item]
		}
		return policies.ReadReport(replica).Judge(changed)
	}}
	for _, policy := range refs {
		s.Names = append(s.Names, policy.Replica())
	}
	return s, err
}

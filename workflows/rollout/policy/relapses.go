package policy

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	policiesactivities "drydock.dev/drydock/activities/policies"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// Relapses finds complete clusters that need work again.
type Relapses interface {
	// Await waits until some of these clusters have relapsed, and returns them.
	Await(ctx workflow.Context, clusters []string) ([]Relapse, error)
	// Find returns the clusters that have relapsed now. After an error it returns those that it found before.
	Find(ctx workflow.Context, clusters []string) ([]Relapse, error)
}

// Relapse is a complete cluster that needs work again.
type Relapse struct {
	Cluster string
	// Policy is the first policy with which the cluster no longer complies.
	Policy ranv1.PolicyStatus
}

// Relapses implements Remediator. Manifest works are taken from complete clusters, or stay on them as they are.
func (s *sequence) Relapses() Relapses {
	if policies, are := s.items.(*policyItems); are {
		return policyRelapses{s, policies}
	}
	return nil
}

type policyRelapses struct {
	*sequence
	items *policyItems
}

// Await implements Relapses.
func (r policyRelapses) Await(ctx workflow.Context, clusters []string) ([]Relapse, error) {
	var seen []policies.ClusterCompliance
	retrier := r.rollout.Retrier()
	retrier.Abandon = true
	err := retrier.Watch(ctx, fmt.Sprintf("watch %d complete clusters for relapses", len(clusters)), r.items.hub.AwaitRelapses, r.input(ctx, clusters), &seen)
	return r.relapses(seen), err
}

// clustersPerLook is the maximum number of complete clusters that one activity looks at.
const clustersPerLook = 2000

// Find implements Relapses.
func (r policyRelapses) Find(ctx workflow.Context, clusters []string) ([]Relapse, error) {
	retrier := r.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit))
	var suspects []string
	for some := range slices.Chunk(clusters, clustersPerLook) {
		var found []string
		if err := retrier.Run(ctx, fmt.Sprintf("look again at %d complete clusters", len(some)), r.items.hub.FindRelapses, r.input(ctx, some), &found); err != nil {
			return nil, err
		}
		suspects = append(suspects, found...)
	}
	seen, err := r.read(ctx, retrier, suspects)
	return r.relapses(seen), err
}

func (r policyRelapses) input(ctx workflow.Context, clusters []string) policiesactivities.ReadComplianceInput {
	return policiesactivities.ReadComplianceInput{Enforced: r.items.enforced(ctx), Clusters: clusters}
}

func (r policyRelapses) relapses(seen []policies.ClusterCompliance) []Relapse {
	var relapses []Relapse
	for _, cluster := range seen {
		if item := cluster.Status.Relapsed(); item != policies.NoItem {
			status := ranv1.PolicyStatus{Name: r.items.Name(item), Status: cluster.Status.Of(item).String()}
			relapses = append(relapses, Relapse{cluster.Cluster, status})
		}
	}
	return relapses
}

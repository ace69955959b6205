package policies

import (
	"context"

	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// CleanUpPolicies deletes the objects of PreparePolicies, except those with another owner. It returns the indexes of the policies that were changed
// since they were prepared.
func (p *Activities) CleanUpPolicies(ctx context.Context, in Rollout) ([]int, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return cleanUpPolicies(ctx, hub, in)
}

func cleanUpPolicies(ctx context.Context, hub *kube.Cluster, in Rollout) ([]int, error) {
	changed, err := changedPolicies(in, func(number int) (bool, error) {
		if err := cleanUpPolicy(ctx, hub, in, in.Policies[number]); err != nil {
			return false, err
		}
		return policyChanged(ctx, hub, in, number)
	})
	if err == nil {
		err = cleanUpSources(ctx, hub, in)
	}
	return changed, err
}

// ChangedPolicies returns the indexes of the policies that were changed since they were prepared.
func (p *Activities) ChangedPolicies(ctx context.Context, in Rollout) ([]int, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return changedPolicies(in, func(number int) (bool, error) { return policyChanged(ctx, hub, in, number) })
}

// changedPolicies checks policies in parallel. A failure does not stop the others.
func changedPolicies(in Rollout, check func(number int) (changed bool, err error)) ([]int, error) {
	isChanged := make([]bool, len(in.Policies))
	var checks errgroup.Group
	checks.SetLimit(activitykit.MaxParallelRequests)
	for number := range in.Policies {
		checks.Go(func() (err error) {
			isChanged[number], err = check(number)
			return err
		})
	}
	err := checks.Wait()
	var changed []int
	for number := range isChanged {
		if isChanged[number] {
			changed = append(changed, number)
		}
	}
	return changed, err
}

// cleanUpPolicy deletes the objects of a policy. It deletes the binding first, which ends the enforcement.
func cleanUpPolicy(ctx context.Context, hub *kube.Cluster, in Rollout, ref policies.Ref) error {
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return nil // then no object was created
	}
	for _, object := range append(enforcementObjects(in, ref, names), policies.Placement(in.name(), names, ref.Name, in.Enforcement, nil)) {
		object.SetAnnotations(map[string]string{kube.AnnotationOwner: in.Owner})
		if err := activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(object), object); err != nil {
			return err
		}
	}
	return nil
}

package policies

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// PlacePoliciesInput has the clusters on which each policy of a rollout is enforced.
type PlacePoliciesInput struct {
	Rollout Rollout `json:"rollout"`
	// Desired names every cluster on which a policy is, or stays, enforced. No policy is enforced on other clusters.
	Desired []policies.DesiredPlacement `json:"desired,omitempty"`
	// Closes is as in AcquireNodeInput: the first close of a window of the clusters on which a policy may start.
	Closes *time.Time `json:"closes,omitempty"`
}

// PlacePolicies makes the placements of a rollout list the desired clusters. It reads the placements and writes those that differ, first those that
// only lose clusters. For policies that gain clusters it first recreates deleted objects of PreparePolicies: without them no cluster would ever
// comply. Errors: Held if a cluster that gains a policy is held; NotFound and InvalidSpec if an object cannot be recreated.
func (p *Activities) PlacePolicies(ctx context.Context, in PlacePoliciesInput) (remediation.PlacementResult, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	observed, err := observePlacements(ctx, hub, in.Rollout)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	changes, waiting := policies.Changes(in.Desired, observed)
	placed := remediation.PlacementResult{Waiting: waiting}
	losing := slices.IndexFunc(changes, func(change policies.PlacementChange) bool { return len(change.Added) > 0 })
	if losing < 0 {
		losing = len(changes)
	}
	if err := applyPlacements(ctx, &placed, hub, in.Rollout, changes[:losing]); err != nil || losing == len(changes) {
		return placed, err
	}
	gaining := changes[losing:]
	var added []string
	for _, change := range gaining {
		added = append(added, change.Added...)
	}
	if err := p.Waits.MayBeginOn(ctx, added, in.Closes); err != nil {
		return remediation.PlacementResult{}, err
	}
	if err := restorePlacements(ctx, &placed, hub, in.Rollout, gaining); err != nil {
		return remediation.PlacementResult{}, err
	}
	return placed, applyPlacements(ctx, &placed, hub, in.Rollout, gaining)
}

// observePlacements reads the clusters in the placement of each policy; none if it does not exist.
func observePlacements(ctx context.Context, hub *kube.Cluster, in Rollout) ([][]string, error) {
	observed := make([][]string, len(in.Policies))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for number, ref := range in.Policies {
		placement, err := in.placement(ref, nil)
		if err != nil {
			return nil, err
		}
		reads.Go(func() error {
			err := hub.Client.Get(reading, client.ObjectKeyFromObject(placement), placement)
			if apierrors.IsNotFound(err) || placement.GetDeletionTimestamp() != nil {
				return nil
			}
			observed[number] = policies.PlacedClusters(placement)
			return activitykit.Explain(hub, "read "+activitykit.ObjectName(placement), err)
		})
	}
	return observed, reads.Wait()
}

// placement is the placement of a policy with these clusters.
func (r Rollout) placement(ref policies.Ref, clusters []string) (*unstructured.Unstructured, error) {
	names, err := policies.NamesFor(r.name(), ref, r.Enforcement.By)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	return policies.Placement(r.name(), names, ref.Name, r.Enforcement, clusters), nil
}

// applyPlacements writes placements. If the hub refuses one, it continues with the others. It returns the first other error.
func applyPlacements(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, changes []policies.PlacementChange) error {
	var failure error
	for _, change := range changes {
		placement, err := in.placement(in.Policies[change.Item], change.Clusters)
		if err == nil {
			err = remediation.ApplyOwned(ctx, hub, placement, in.Owner)
		}
		switch {
		case err == nil:
		case remediation.IsRefused(err):
			p.Refused = append(p.Refused, remediation.RefusedPlacement{
				Clusters: slices.Concat(change.Added, change.Removed), Reason: remediation.ReasonNotPlaced, Message: temporal.ErrorMessage(err),
			})
		case failure == nil:
			failure = err
		}
	}
	return failure
}

// restorePlacements recreates deleted objects of the policies that gain clusters, and finds out which of these policies were changed.
func restorePlacements(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, gaining []policies.PlacementChange) error {
	recreated, changed := make([][]string, len(gaining)), make([]bool, len(gaining))
	checks, checking := errgroup.WithContext(ctx)
	checks.SetLimit(activitykit.MaxParallelRequests)
	for i, change := range gaining {
		checks.Go(func() (err error) {
			if recreated[i], err = recreateMissing(checking, hub, in, change.Item); err == nil {
				changed[i], err = policyChanged(checking, hub, in, change.Item)
			}
			return err
		})
	}
	err := checks.Wait()
	p.Recreated = slices.Concat(recreated...)
	for i, change := range gaining {
		if changed[i] {
			p.Changed = append(p.Changed, change.Item)
		}
	}
	return err
}

// recreateMissing creates the deleted objects of a policy again, and returns their names.
func recreateMissing(ctx context.Context, hub *kube.Cluster, in Rollout, number int) ([]string, error) {
	ref := in.Policies[number]
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	var missing []string
	for _, object := range enforcementObjects(in, ref, names) {
		gone, err := isGone(ctx, hub, object)
		if err != nil {
			return nil, err
		}
		if !gone {
			continue
		}
		missing = append(missing, activitykit.ObjectName(object))
		if object.GetKind() == policies.Policies.Kind {
			if object, err = recreateCopy(ctx, hub, in, number, names.Copy); err != nil {
				return nil, err
			}
		}
		if err := remediation.CreateOrAdopt(ctx, hub, object, in.Owner); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// isGone reports whether an object does not exist, or is being deleted.
func isGone(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured) (bool, error) {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), existing)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return existing.DeletionTimestamp != nil, activitykit.Explain(hub, "read "+activitykit.ObjectName(object), err)
}

// recreateCopy returns the copy of a policy as it was prepared: a rollout must not give clusters different copies.
func recreateCopy(ctx context.Context, hub *kube.Cluster, in Rollout, number int, name string) (*unstructured.Unstructured, error) {
	ref := in.Policies[number]
	policy, err := readPolicy(ctx, hub, ref)
	if err != nil {
		return nil, err
	}
	if in.changedSincePrepared(number, policy) {
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s has been changed since the rollout began, and the copy of its former spec, %s/%s, has been deleted: start another rollout with it",
			ref, in.Namespace, name), nil)
	}
	made, err := policies.Copy(in.name(), policy, name)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s: %v", ref, err), err)
	}
	return made, nil
}

// policyChanged reports whether a policy was changed or deleted since it was prepared.
func policyChanged(ctx context.Context, hub *kube.Cluster, in Rollout, number int) (bool, error) {
	if number >= len(in.Pins) {
		return false, nil
	}
	policy := &metav1.PartialObjectMetadata{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.Namespace, policy.Name = in.Policies[number].Namespace, in.Policies[number].Name
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && in.changedSincePrepared(number, policy), activitykit.Explain(hub, "read policy "+in.Policies[number].String(), err)
}

// changedSincePrepared reports whether a policy was replaced, or has another generation.
func (r Rollout) changedSincePrepared(number int, policy metav1.Object) bool {
	return number < len(r.Pins) && policies.Pin(policy) != r.Pins[number]
}

// enforcementObjects names the binding of a policy and its copy, if it has one.
func enforcementObjects(in Rollout, ref policies.Ref, names policies.Names) []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{policies.Binding(in.name(), names, ref.Name, in.Enforcement)}
	if names.Copy != "" {
		made := &unstructured.Unstructured{}
		made.SetGroupVersionKind(policies.Policies)
		made.SetNamespace(names.Namespace)
		made.SetName(names.Copy)
		objects = append(objects, made)
	}
	return objects
}

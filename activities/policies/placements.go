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
// only lose clusters. For policies that gain clusters, or are displaced, it first restores the deleted and changed objects of PreparePolicies: without them no
// cluster would ever comply. Errors: Held if a cluster that gains a policy is held; NotFound and InvalidSpec if an object cannot be recreated.
func (p *Activities) PlacePolicies(ctx context.Context, in PlacePoliciesInput) (remediation.PlacementResult, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	observed, err := observePlacements(ctx, hub, in.Rollout)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	changes, waiting := policies.Changes(in.Desired, selectedBy(observed))
	placed := remediation.PlacementResult{Waiting: waiting}
	losing := slices.IndexFunc(changes, func(change policies.PlacementChange) bool { return len(change.Added) > 0 })
	if losing < 0 {
		losing = len(changes)
	}
	if err := applyPlacements(ctx, &placed, hub, in.Rollout, changes[:losing]); err != nil {
		return placed, err
	}
	gaining := changes[losing:]
	restore := displaced(in.Desired)
	var added []string
	for _, change := range gaining {
		added = append(added, change.Added...)
		if slices.Contains(restore, change.Item) {
			notePlacement(&placed, observed[change.Item], in.Rollout, change.Item)
		} else {
			restore = append(restore, change.Item)
		}
	}
	if err := p.Waits.MayBeginOn(ctx, added, in.Closes); err != nil {
		return remediation.PlacementResult{}, err
	}
	if err := restoreObjects(ctx, &placed, hub, in.Rollout, restore); err != nil {
		return remediation.PlacementResult{}, err
	}
	return placed, applyPlacements(ctx, &placed, hub, in.Rollout, gaining)
}

// displaced are the items with an object that was deleted or changed.
func displaced(desired []policies.DesiredPlacement) []int {
	var items []int
	for _, placement := range desired {
		if placement.Displaced && placement.Item != policies.NoItem {
			items = append(items, placement.Item)
		}
	}
	return items
}

// notePlacement notes that the placement of a policy was deleted or changed.
func notePlacement(p *remediation.PlacementResult, observed *unstructured.Unstructured, in Rollout, number int) {
	if observed != nil {
		p.Restored = append(p.Restored, activitykit.ObjectName(observed))
	} else if placement, err := in.placement(in.Policies[number], nil); err == nil {
		p.Recreated = append(p.Recreated, activitykit.ObjectName(placement))
	}
}

// observePlacements reads the placement of each policy; nil: it does not exist.
func observePlacements(ctx context.Context, hub *kube.Cluster, in Rollout) ([]*unstructured.Unstructured, error) {
	observed := make([]*unstructured.Unstructured, len(in.Policies))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for number, ref := range in.Policies {
		placement, err := in.placement(ref, nil)
		if err != nil {
			return nil, err
		}
		reads.Go(func() (err error) {
			observed[number], err = readExisting(reading, hub.Client, placement)
			return activitykit.Explain(hub, "read "+activitykit.ObjectName(placement), err)
		})
	}
	return observed, reads.Wait()
}

// selectedBy are the clusters that each placement selects.
func selectedBy(placements []*unstructured.Unstructured) [][]string {
	selected := make([][]string, len(placements))
	for item, placement := range placements {
		if placement != nil {
			selected[item] = policies.Selected(placement)
		}
	}
	return selected
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
			err = apply(ctx, hub, placement, in.Owner, remediation.ApplyOwned)
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

// apply writes an object of a rollout, and removes what another user added to keep it from its clusters.
func apply(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string,
	write func(context.Context, *kube.Cluster, *unstructured.Unstructured, string) error,
) error {
	written := object.DeepCopy()
	if err := write(ctx, hub, object, owner); err != nil {
		return err
	}
	narrowed := policies.Narrowed(object, written)
	if len(narrowed) == 0 {
		return nil
	}
	whole := object.DeepCopy()
	for _, path := range narrowed {
		unstructured.RemoveNestedField(whole.Object, path...)
	}
	return activitykit.Explain(hub, "restore "+activitykit.ObjectName(object), hub.Client.Patch(ctx, whole, client.MergeFrom(object)))
}

// restoreObjects restores deleted and changed objects of policies, and finds out which of these policies were changed.
func restoreObjects(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, items []int) error {
	restored, changed := make([]remediation.PlacementResult, len(items)), make([]bool, len(items))
	checks, checking := errgroup.WithContext(ctx)
	checks.SetLimit(activitykit.MaxParallelRequests)
	for i, item := range items {
		checks.Go(func() (err error) {
			if restored[i], err = restoreObjectsOf(checking, hub, in, item); err == nil {
				changed[i], err = policyChanged(checking, hub, in, item)
			}
			return err
		})
	}
	err := checks.Wait()
	for i, item := range items {
		p.Recreated, p.Restored = append(p.Recreated, restored[i].Recreated...), append(p.Restored, restored[i].Restored...)
		if changed[i] {
			p.Changed = append(p.Changed, item)
		}
	}
	return err
}

// restoreObjectsOf creates the deleted objects of a policy again, restores its changed binding, and copies the changed ConfigMaps that it reads.
func restoreObjectsOf(ctx context.Context, hub *kube.Cluster, in Rollout, number int) (restored remediation.PlacementResult, err error) {
	ref := in.Policies[number]
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return restored, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	for _, source := range in.sourcesOf(number) {
		if _, err := copySource(ctx, hub, in, ref.Namespace, source); err != nil {
			return restored, err
		}
	}
	for _, object := range enforcementObjects(in, ref, names) {
		existing, err := readExisting(ctx, hub.Client, object)
		if err != nil {
			return restored, activitykit.Explain(hub, "read "+activitykit.ObjectName(object), err)
		}
		isCopy := object.GetKind() == policies.Policies.Kind
		switch {
		case existing == nil:
			restored.Recreated = append(restored.Recreated, activitykit.ObjectName(object))
		case !isCopy && !policies.Binds(existing, object):
			restored.Restored = append(restored.Restored, activitykit.ObjectName(object))
		default:
			continue
		}
		if isCopy {
			if object, err = recreateCopy(ctx, hub, in, number, names.Copy); err != nil {
				return restored, err
			}
		}
		if err := apply(ctx, hub, object, in.Owner, remediation.CreateOrAdopt); err != nil {
			return restored, err
		}
	}
	return restored, nil
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

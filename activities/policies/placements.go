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
	found, err := observePlacements(ctx, hub, in.Rollout)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	observed := observedBy(found)
	needed := needed(in.Desired, observed)
	damages, err := findDamages(ctx, hub, in.Rollout, needed)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	for item, found := range damages {
		observed[item].Void = found.void()
	}
	changes, waiting := policies.Changes(in.Desired, observed)
	placed := remediation.PlacementResult{Waiting: waiting}
	losing := slices.IndexFunc(changes, func(change policies.PlacementChange) bool { return len(change.Added) > 0 })
	if losing < 0 {
		losing = len(changes)
	}
	if _, err := applyPlacements(ctx, &placed, hub, in.Rollout, changes[:losing]); err != nil {
		return placed, err
	}
	var added []string
	for _, change := range changes[losing:] {
		added = append(added, change.Added...)
	}
	if err := p.Waits.MayBeginOn(ctx, added, in.Closes); err != nil {
		return remediation.PlacementResult{}, err
	}
	// The placements come first: a held cluster must not get its policy back with the binding.
	written, err := applyPlacements(ctx, &placed, hub, in.Rollout, changes[losing:])
	if err != nil {
		return placed, err
	}
	notePlacements(&placed, in, found, written)
	return placed, restoreAll(ctx, &placed, hub, in.Rollout, needed, damages, written)
}

// needed are the policies whose other objects must enforce them: those that gain clusters, and those with an object that was deleted or changed.
func needed(desired []policies.DesiredPlacement, observed []policies.ObservedPlacement) []int {
	var items []int
	for _, placement := range desired {
		if placement.Displaced && placement.Item != policies.NoItem {
			items = append(items, placement.Item)
		}
	}
	changes, _ := policies.Changes(desired, observed)
	for _, change := range changes {
		if len(change.Added) > 0 && !slices.Contains(items, change.Item) {
			items = append(items, change.Item)
		}
	}
	return items
}

// notePlacements notes the placements that were deleted or changed, and have been written again.
func notePlacements(p *remediation.PlacementResult, in PlacePoliciesInput, found []*unstructured.Unstructured, written []policies.PlacementChange) {
	for _, change := range written {
		if placement := found[change.Item]; placement != nil && !policies.Selects(placement) {
			p.Restored = append(p.Restored, activitykit.ObjectName(placement))
		} else if placement == nil && slices.ContainsFunc(in.Desired, func(d policies.DesiredPlacement) bool { return d.Item == change.Item && d.Displaced }) {
			if made, err := in.Rollout.placement(in.Rollout.Policies[change.Item], nil); err == nil {
				p.Recreated = append(p.Recreated, activitykit.ObjectName(made))
			}
		}
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

// observedBy is what each placement selects.
func observedBy(placements []*unstructured.Unstructured) []policies.ObservedPlacement {
	observed := make([]policies.ObservedPlacement, len(placements))
	for item, placement := range placements {
		if placement != nil {
			observed[item] = policies.ObservedPlacement{Clusters: policies.PlacedClusters(placement), Altered: !policies.Selects(placement)}
		}
	}
	return observed
}

// placement is the placement of a policy with these clusters.
func (r Rollout) placement(ref policies.Ref, clusters []string) (*unstructured.Unstructured, error) {
	names, err := policies.NamesFor(r.name(), ref, r.Enforcement.By)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	return policies.Placement(r.name(), names, ref.Name, r.Enforcement, clusters), nil
}

// applyPlacements writes placements. If the hub refuses one, it continues with the others. It returns those that are written, and the first other error.
func applyPlacements(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, changes []policies.PlacementChange) ([]policies.PlacementChange, error) {
	var written []policies.PlacementChange
	var failure error
	for _, change := range changes {
		placement, err := in.placement(in.Policies[change.Item], change.Clusters)
		if err == nil {
			err = apply(ctx, hub, placement, in.Owner, remediation.ApplyOwned)
		}
		if err = refused(p, change, err); err == nil {
			written = append(written, change)
		} else if failure == nil && !remediation.IsRefused(err) {
			failure = err
		}
	}
	return written, failure
}

// refused notes that the hub refuses a change.
func refused(p *remediation.PlacementResult, change policies.PlacementChange, err error) error {
	if err != nil && remediation.IsRefused(err) {
		p.Refused = append(p.Refused, remediation.RefusedPlacement{
			Clusters: slices.Concat(change.Added, change.Removed), Reason: remediation.ReasonNotPlaced, Message: temporal.ErrorMessage(err),
		})
	}
	return err
}

// apply writes a placement or binding of a rollout, and removes what another user added.
func apply(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string,
	write func(context.Context, *kube.Cluster, *unstructured.Unstructured, string) error,
) error {
	written := object.DeepCopy()
	if err := write(ctx, hub, object, owner); err != nil {
		return err
	}
	if added := policies.AddedByOthers(object, written); len(added) > 0 {
		before := object.DeepCopy()
		for _, path := range added {
			unstructured.RemoveNestedField(object.Object, path...)
		}
		if err := hub.Client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
			return activitykit.Explain(hub, "restore "+activitykit.ObjectName(object), err)
		}
	}
	if !policies.Does(object, written) {
		return apierrors.NewBadRequest(activitykit.ObjectName(object) + " does not stay as it is written: something on the hub changes it")
	}
	return nil
}

// damage is what is missing of the objects, beside its placement, that enforce a policy.
type damage struct {
	// deleted and changed are objects to write.
	deleted, changed []*unstructured.Unstructured
	// policyChanged: the policy was changed or deleted since it was prepared.
	policyChanged bool
}

// void reports whether the policy is enforced on no cluster.
func (d damage) void() bool { return len(d.deleted)+len(d.changed) > 0 }

// findDamages finds what is missing of the objects of policies.
func findDamages(ctx context.Context, hub *kube.Cluster, in Rollout, items []int) (map[int]damage, error) {
	found := make([]damage, len(items))
	checks, checking := errgroup.WithContext(ctx)
	checks.SetLimit(activitykit.MaxParallelRequests)
	for i, item := range items {
		checks.Go(func() (err error) {
			if found[i], err = findDamage(checking, hub, in, in.Policies[item]); err == nil {
				found[i].policyChanged, err = policyChanged(checking, hub, in, item)
			}
			return err
		})
	}
	err := checks.Wait()
	damages := map[int]damage{}
	for i, item := range items {
		damages[item] = found[i]
	}
	return damages, err
}

func findDamage(ctx context.Context, hub *kube.Cluster, in Rollout, ref policies.Ref) (found damage, err error) {
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return found, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	for _, object := range enforcementObjects(in, ref, names) {
		existing, err := readExisting(ctx, hub.Client, object)
		switch {
		case err != nil:
			return found, activitykit.Explain(hub, "read "+activitykit.ObjectName(object), err)
		case existing == nil:
			found.deleted = append(found.deleted, object)
		case object.GetKind() == policies.PlacementBindings.Kind && !policies.Binds(existing, object):
			found.changed = append(found.changed, object)
		}
	}
	return found, nil
}

// restoreAll restores the objects of policies. Without a written placement, a policy that is enforced on no cluster stays so.
func restoreAll(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, items []int, damages map[int]damage, written []policies.PlacementChange) error {
	for _, item := range items {
		if damages[item].policyChanged {
			p.Changed = append(p.Changed, item)
		}
		place := slices.IndexFunc(written, func(change policies.PlacementChange) bool { return change.Item == item })
		if damages[item].void() && place < 0 {
			continue
		}
		err := restoreObjects(ctx, p, hub, in, item, damages[item])
		if place >= 0 && remediation.IsRefused(refused(p, written[place], err)) {
			continue // only its clusters wait
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreObjects creates the deleted objects of a policy again, restores its changed binding, and copies the changed ConfigMaps that it reads.
func restoreObjects(ctx context.Context, p *remediation.PlacementResult, hub *kube.Cluster, in Rollout, number int, found damage) error {
	ref := in.Policies[number]
	for _, source := range in.sourcesOf(number) {
		if _, err := copySource(ctx, hub, in, ref.Namespace, source); err != nil {
			return err
		}
	}
	for _, object := range slices.Concat(found.deleted, found.changed) {
		if object.GetKind() == policies.Policies.Kind {
			made, err := recreateCopy(ctx, hub, in, number, object.GetName())
			if err != nil {
				return err
			}
			object = made
		}
		if err := apply(ctx, hub, object, in.Owner, remediation.CreateOrAdopt); err != nil {
			return err
		}
	}
	for _, object := range found.deleted {
		p.Recreated = append(p.Recreated, activitykit.ObjectName(object))
	}
	for _, object := range found.changed {
		p.Restored = append(p.Restored, activitykit.ObjectName(object))
	}
	return nil
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

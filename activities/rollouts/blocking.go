package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// AwaitBlockers waits until the blockers of a rollout have succeeded, by their objects or their saved status on the hub. Rollouts that wait for each other wait until one
// of them is changed or deleted.
func (r *Activities) AwaitBlockers(ctx context.Context, cgu ranv1.ClusterGroupUpgrade) (rollout.Unblocked, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return rollout.Unblocked{}, err
	}
	var unblocked rollout.Unblocked
	watched := rollout.Blockers(&cgu)
	for done := false; !done && err == nil; {
		err = r.Waits.Await(ctx, hub, blockerKinds(watched), func(ctx context.Context) (temporal.Observation, bool, error) {
			known, err := readBlockers(ctx, hub, &cgu)
			if err != nil {
				return temporal.Observation{}, false, err
			}
			wait := rollout.Blocked(&cgu, known).Wait()
			if done = wait == nil; done && rollout.FiltersClusters(&cgu) {
				unblocked.Complete = rollout.CompleteInBlockers(&cgu, known)
			}
			before := watched
			watched = slices.SortedFunc(maps.Keys(known), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
			return temporal.Observation{Wait: wait}, done || !sameNames(before, watched), nil
		})
	}
	return unblocked, err
}

func sameNames(a, b []types.NamespacedName) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(name types.NamespacedName) bool { return !slices.Contains(b, name) })
}

// blockerKinds are the objects that tell whether blockers have succeeded.
func blockerKinds(blockers []types.NamespacedName) []client.Object {
	var kinds []client.Object
	for _, blocker := range blockers {
		object, saved := &ranv1.ClusterGroupUpgrade{}, &corev1.ConfigMap{}
		object.Namespace, object.Name = blocker.Namespace, blocker.Name
		key := snapshot.SavedKey(blocker)
		saved.Namespace, saved.Name = key.Namespace, key.Name
		kinds = append(kinds, kube.IfServed(object), kube.SingleObject(saved))
	}
	return kinds
}

// readBlockers reads the blockers of a rollout and, recursively, their blockers.
func readBlockers(ctx context.Context, hub *kube.Cluster, cgu *ranv1.ClusterGroupUpgrade) (map[types.NamespacedName]*ranv1.ClusterGroupUpgrade, error) {
	return rollout.GatherBlockers(cgu, func(name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error) {
		return readRollout(ctx, hub, name)
	})
}

// readRollout returns the rollout of a name: its object, or else the saved one; nil: there is neither.
func readRollout(ctx context.Context, hub *kube.Cluster, name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error) {
	object := &ranv1.ClusterGroupUpgrade{}
	switch err := hub.Client.Get(ctx, name, object); {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		saved, _, err := readSaved(ctx, hub, name)
		return saved, err
	default:
		return nil, activitykit.Explain(hub, "read ClusterGroupUpgrade "+name.String(), err)
	}
}

// readSaved returns the saved rollout of a name, and the run in Temporal that saved it; nil: none is saved.
func readSaved(ctx context.Context, hub *kube.Cluster, name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, string, error) {
	var saved corev1.ConfigMap
	key := snapshot.SavedKey(name)
	switch err := hub.Client.Get(ctx, key, &saved); {
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", activitykit.Explain(hub, "read ConfigMap "+key.String(), err)
	}
	object, content, err := snapshot.SavedRolloutContent(&saved, name)
	if err == nil && object != nil {
		err = checkSaved(&saved, object, content)
	}
	if err != nil {
		return nil, "", temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	return object, saved.Annotations[annotationRun], nil
}

// checkSaved refuses a ConfigMap that SaveRollout has not written for the rollout, and a spec that no rollout could start with.
func checkSaved(saved *corev1.ConfigMap, object *ranv1.ClusterGroupUpgrade, content []byte) error {
	where := "ConfigMap " + client.ObjectKeyFromObject(saved).String()
	workflow := temporal.ClusterGroupUpgradeID(object.Namespace, object.Name)
	if owner, _ := kube.OwnerWorkflow(kube.Owner(saved)); owner != workflow || saved.Labels[activitykit.LabelManagedBy] != activitykit.ManagedBy {
		return fmt.Errorf("%s is not Drydock's: annotation %s does not name workflow %s, or label %s is not %s: delete it",
			where, kube.AnnotationOwner, workflow, activitykit.LabelManagedBy, activitykit.ManagedBy)
	}
	if err := activitykit.CheckDigest(saved, content); err != nil {
		return fmt.Errorf("%s: %w: delete it", where, err)
	}
	request := object.DeepCopy()
	request.Status = ranv1.ClusterGroupUpgradeStatus{}
	if err := manifest.Complete(request); err != nil {
		return fmt.Errorf("%s: %w: delete it", where, err)
	}
	return nil
}

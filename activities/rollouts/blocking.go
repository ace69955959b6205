package rollouts

import (
	"context"
	"fmt"

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

// AwaitBlockers waits until the blockers of a rollout have succeeded, by their objects or their saved status on the hub. Errors: InvalidSpec if rollouts wait for each
// other.
func (r *Activities) AwaitBlockers(ctx context.Context, cgu ranv1.ClusterGroupUpgrade) (rollout.Unblocked, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return rollout.Unblocked{}, err
	}
	var unblocked rollout.Unblocked
	var kinds []client.Object
	for _, blocker := range rollout.Blockers(&cgu) {
		object, saved := &ranv1.ClusterGroupUpgrade{}, &corev1.ConfigMap{}
		object.Namespace, object.Name = blocker.Namespace, blocker.Name
		key := snapshot.SavedKey(blocker)
		saved.Namespace, saved.Name = key.Namespace, key.Name
		kinds = append(kinds, kube.IfServed(object), kube.SingleObject(saved))
	}
	err = r.Waits.Await(ctx, hub, kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		known, err := readBlockers(ctx, hub, &cgu)
		if err != nil {
			return temporal.Observation{}, false, err
		}
		blocking := rollout.Blocked(&cgu, known)
		if blocking.Cycle != nil {
			return temporal.Observation{}, false, temporal.Error(temporal.ErrInvalidSpec, blocking.CycleMessage(), nil)
		}
		wait := blocking.Wait()
		if wait == nil && rollout.FiltersClusters(&cgu) {
			unblocked.Complete = rollout.CompleteInBlockers(&cgu, known)
		}
		return temporal.Observation{Wait: wait}, wait == nil, nil
	})
	return unblocked, err
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

package onboarding

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/operators"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// rolloutResource is the resource of the objects of rollouts.
var rolloutResource = schema.GroupResource{Group: ranv1.GroupVersion.Group, Resource: "clustergroupupgrades"}

// showsObjects reports whether rollouts of new clusters have objects: the hub serves them, and they are not left to another operator, which would act on them.
func showsObjects(ctx context.Context, hub *kube.Cluster) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(ranv1.GroupVersion.WithKind("ClusterGroupUpgradeList"))
	err := hub.Client.List(ctx, list, kubeclient.InNamespace(rollout.OnboardingNamespace), kubeclient.Limit(1))
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list ClusterGroupUpgrades: %w", err)
	}
	running, err := operators.Running(ctx, hub.Clientset)
	return !slices.ContainsFunc(running, func(o operators.Operator) bool { return slices.Contains(o.Kinds, rolloutResource) }), err
}

// CreateObject creates the ClusterGroupUpgrade that shows the rollout of a new cluster. The ManagedCluster owns it: the object is deleted with it. An object
// whose rollout is over, or that is of a former cluster with that name, is replaced. Errors: NotFound if the cluster is gone; InvalidSpec if an object of that name is not of its onboarding; others
// are retried, such as that of an object that is being deleted.
func (o *Activities) CreateObject(ctx context.Context, in NewCluster) (temporal.Object, error) {
	hub, err := o.Clusters.Hub(ctx)
	if err != nil {
		return temporal.Object{}, err
	}
	cluster := activitykit.ManagedCluster(in.Name)
	if err := hub.Client.Get(ctx, kubeclient.ObjectKeyFromObject(cluster), cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return temporal.Object{}, temporal.Error(temporal.ErrNotFound, "ManagedCluster "+in.Name+" does not exist", err)
		}
		return temporal.Object{}, activitykit.Explain(hub, "read ManagedCluster "+in.Name, err)
	}
	object := rollout.OnboardingRollout(in.Name, in.Policies)
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: activitykit.ManagedClusterKind.GroupVersion().String(), Kind: activitykit.ManagedClusterKind.Kind, Name: in.Name, UID: cluster.GetUID(),
	}}
	err = hub.Client.Create(ctx, &object)
	if apierrors.IsAlreadyExists(err) {
		return existingObject(ctx, hub, &object)
	}
	return referenceOf(&object), activitykit.Explain(hub, "create ClusterGroupUpgrade "+object.Namespace+"/"+object.Name, err)
}

// existingObject returns the object of the same cluster, unless its rollout is over.
func existingObject(ctx context.Context, hub *kube.Cluster, wanted *ranv1.ClusterGroupUpgrade) (temporal.Object, error) {
	existing := &ranv1.ClusterGroupUpgrade{}
	name := "ClusterGroupUpgrade " + wanted.Namespace + "/" + wanted.Name
	if err := hub.Client.Get(ctx, kubeclient.ObjectKeyFromObject(wanted), existing); err != nil {
		return temporal.Object{}, activitykit.Explain(hub, "read "+name, err)
	}
	owner := wanted.OwnerReferences[0]
	owned := slices.IndexFunc(existing.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == owner.Kind && r.Name == owner.Name })
	switch {
	case owned < 0:
		return temporal.Object{}, temporal.Error(temporal.ErrInvalidSpec, name+" exists, and is not of the onboarding of the cluster: delete it", nil)
	case existing.DeletionTimestamp != nil:
		return temporal.Object{}, fmt.Errorf("%s of the former onboarding is still being deleted", name)
	case existing.OwnerReferences[owned].UID == owner.UID && meta.FindStatusCondition(existing.Status.Conditions, ranv1.ConditionSucceeded) == nil:
		return referenceOf(existing), nil
	}
	if err := kube.DeleteExactly(ctx, hub.Client, existing); err != nil {
		return temporal.Object{}, activitykit.Explain(hub, "delete "+name, err)
	}
	return temporal.Object{}, fmt.Errorf("%s of the former onboarding is being deleted", name)
}

func referenceOf(object *ranv1.ClusterGroupUpgrade) temporal.Object {
	return temporal.Object{
		APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// objectGone reports whether the object of a rollout was deleted. It does not rely on the cache alone: another rollout would start.
func objectGone(ctx context.Context, hub *kube.Cluster, cluster string) (bool, error) {
	for _, reader := range []kubeclient.Reader{hub.Cache, hub.Client} {
		object := &ranv1.ClusterGroupUpgrade{}
		err := reader.Get(ctx, kubeclient.ObjectKey{Namespace: rollout.OnboardingNamespace, Name: cluster}, object)
		if !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return true, nil
}

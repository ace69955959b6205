package onboarding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
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

// objectKind remembers for a while whether rollouts of new clusters have objects: thousands of clusters may be new at once.
type objectKind struct {
	mu       sync.Mutex
	examined time.Time
	shown    bool
}

// examineInterval is how long an answer is remembered.
const examineInterval = time.Minute

// areShown reports whether rollouts of new clusters have objects: the hub serves them, and they are not left to another operator, which would act on them.
// A worker that may not know creates none.
func (k *objectKind) areShown(ctx context.Context, hub *kube.Cluster) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.examined) < examineInterval {
		return k.shown, nil
	}
	shown, err := showsObjects(ctx, hub)
	if apierrors.IsForbidden(err) {
		activitykit.Logger(ctx).Warn("Rollouts of new clusters get no objects", "cluster", hub.Name, "error", err)
		shown, err = false, nil
	}
	if err == nil {
		k.examined, k.shown = time.Now(), shown
	}
	return shown, err
}

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

// CreateObject creates the ClusterGroupUpgrade that shows the rollout of a new cluster; nil if rollouts of new clusters have none, or this one runs already
// without. The ManagedCluster owns the object, which is deleted with it. An object whose rollout is over, or that is of a former cluster with that name,
// is replaced. Errors: NotFound if the cluster is gone; InvalidSpec if an object of that name is not of its onboarding; others are retried, such as that
// of an object that is being deleted.
func (o *Activities) CreateObject(ctx context.Context, in NewCluster) (*temporal.Object, error) {
	hub, err := o.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	if shown, err := o.objects.areShown(ctx, hub); err != nil || !shown {
		return nil, activitykit.Explain(hub, "find out who acts on ClusterGroupUpgrades", err)
	}
	if alone, err := o.runsWithoutObject(ctx, in.Name); err != nil || alone {
		return nil, err
	}
	cluster := activitykit.ManagedCluster(in.Name)
	if err := hub.Client.Get(ctx, kubeclient.ObjectKeyFromObject(cluster), cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, temporal.Error(temporal.ErrNotFound, "ManagedCluster "+in.Name+" does not exist", err)
		}
		return nil, activitykit.Explain(hub, "read ManagedCluster "+in.Name, err)
	}
	object := rollout.OnboardingRollout(in.Name, in.Policies)
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: activitykit.ManagedClusterKind.GroupVersion().String(), Kind: activitykit.ManagedClusterKind.Kind, Name: in.Name, UID: cluster.GetUID(),
	}}
	err = hub.Client.Create(ctx, &object)
	if apierrors.IsAlreadyExists(err) {
		return existingObject(ctx, hub, &object)
	}
	if err != nil {
		return nil, activitykit.Explain(hub, "create ClusterGroupUpgrade "+object.Namespace+"/"+object.Name, err)
	}
	return referenceOf(&object), nil
}

// runsWithoutObject reports whether the rollout of a cluster runs, and was not started by an object.
func (o *Activities) runsWithoutObject(ctx context.Context, cluster string) (bool, error) {
	id := temporal.ClusterGroupUpgradeID(rollout.OnboardingNamespace, cluster)
	described, err := o.Temporal.DescribeWorkflowExecution(ctx, id, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("describe workflow %s: %w", id, err)
	}
	run := described.GetWorkflowExecutionInfo()
	object, err := temporal.ObjectOf(run)
	return run.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && object == nil, err
}

// ReadEnd returns how the rollout of an object ended: by its conditions, and otherwise it was cancelled.
func (o *Activities) ReadEnd(ctx context.Context, of temporal.Object) (RolloutEnd, error) {
	hub, err := o.Clusters.Hub(ctx)
	if err != nil {
		return RolloutEnd{}, err
	}
	object := &ranv1.ClusterGroupUpgrade{}
	err = hub.Client.Get(ctx, kubeclient.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object)
	succeeded := meta.FindStatusCondition(object.Status.Conditions, ranv1.ConditionSucceeded)
	switch {
	case apierrors.IsNotFound(err), err == nil && (object.UID != of.UID || succeeded == nil):
		return Cancelled(), nil
	case err != nil:
		return RolloutEnd{}, activitykit.Explain(hub, "read "+of.String(), err)
	case succeeded.Status == metav1.ConditionTrue:
		return RolloutEnd{Succeeded: true}, nil
	}
	return RolloutEnd{Reason: succeeded.Reason, Message: succeeded.Message}, nil
}

// existingObject returns the object of the same cluster, unless its rollout is over.
func existingObject(ctx context.Context, hub *kube.Cluster, wanted *ranv1.ClusterGroupUpgrade) (*temporal.Object, error) {
	existing := &ranv1.ClusterGroupUpgrade{}
	name := "ClusterGroupUpgrade " + wanted.Namespace + "/" + wanted.Name
	if err := hub.Client.Get(ctx, kubeclient.ObjectKeyFromObject(wanted), existing); err != nil {
		return nil, activitykit.Explain(hub, "read "+name, err)
	}
	owner := wanted.OwnerReferences[0]
	owned := slices.IndexFunc(existing.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == owner.Kind && r.Name == owner.Name })
	switch {
	case owned < 0:
		return nil, temporal.Error(temporal.ErrInvalidSpec, name+" exists, and is not of the onboarding of the cluster: delete it", nil)
	case existing.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%s of the former onboarding is still being deleted", name)
	case existing.OwnerReferences[owned].UID == owner.UID && meta.FindStatusCondition(existing.Status.Conditions, ranv1.ConditionSucceeded) == nil:
		return referenceOf(existing), nil
	}
	if err := kube.DeleteExactly(ctx, hub.Client, existing); err != nil {
		return nil, activitykit.Explain(hub, "delete "+name, err)
	}
	return nil, fmt.Errorf("%s of the former onboarding is being deleted", name)
}

func referenceOf(object *ranv1.ClusterGroupUpgrade) *temporal.Object {
	return &temporal.Object{
		APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// objectGone reports whether the object of a rollout was deleted. It does not rely on the cache alone: another rollout would start.
func objectGone(ctx context.Context, hub *kube.Cluster, cluster string) (bool, error) {
	for _, reader := range []kubeclient.Reader{hub.Cache, hub.Client} {
		object := &ranv1.ClusterGroupUpgrade{}
		err := reader.Get(ctx, kubeclient.ObjectKey{Namespace: rollout.OnboardingNamespace, Name: cluster}, object)
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) { // the hub may no longer serve them
			return false, err
		}
	}
	return true, nil
}

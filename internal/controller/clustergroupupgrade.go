package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/objects"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
)

// clusterGroupUpgrades is the kind ClusterGroupUpgrade of the hub.
func clusterGroupUpgrades() kind {
	gvk := ranv1.GroupVersion.WithKind("ClusterGroupUpgrade")
	return kind{
		name:     gvk.Kind,
		resource: ranv1.GroupVersion.WithResource("clustergroupupgrades").GroupResource(),
		gvk:      gvk,
		watch: func(hub *kube.Cluster, options Options) (*controller, error) {
			return newRequests(&clusterGroupUpgrade{hub: hub}, gvk, hub, options).watch(options), nil
		},
	}
}

// clusterGroupUpgrade is how ClusterGroupUpgrades request rollouts.
type clusterGroupUpgrade struct{ hub *kube.Cluster }

func (c *clusterGroupUpgrade) workflow(name types.NamespacedName) (workflowType, id string) {
	return temporal.ClusterGroupUpgrade, temporal.ClusterGroupUpgradeID(name.Namespace, name.Name)
}

func (c *clusterGroupUpgrade) running() string {
	return observe.WorkflowsOf(temporal.ClusterGroupUpgrade, true)
}

func (c *clusterGroupUpgrade) condition() string { return ranv1.ConditionValidated }

func (c *clusterGroupUpgrade) conditions(object *ranv1.ClusterGroupUpgrade) []metav1.Condition {
	return object.Status.Conditions
}

// over reports whether the rollout of an object has ended. As with the original operator, it is final: another rollout needs another object.
func (c *clusterGroupUpgrade) over(object *ranv1.ClusterGroupUpgrade, served bool) bool {
	return served || meta.FindStatusCondition(object.Status.Conditions, ranv1.ConditionSucceeded) != nil
}

func (c *clusterGroupUpgrade) adopts(run) bool { return false }

func (c *clusterGroupUpgrade) besideSpec(*ranv1.ClusterGroupUpgrade) any { return nil }

func (c *clusterGroupUpgrade) gone(uid types.UID) any {
	return rollout.ObjectRequest{UID: uid, Deleted: true}
}

func (c *clusterGroupUpgrade) request(object *ranv1.ClusterGroupUpgrade) any {
	complete := object.DeepCopy()
	request := rollout.ObjectRequest{UID: object.UID, Generation: object.Generation, Deleted: object.DeletionTimestamp != nil}
	if err := manifest.Complete(complete); err != nil {
		request.InvalidSpec = err.Error()
	}
	request.Spec = complete.Spec
	return request
}

func (c *clusterGroupUpgrade) prepare(ctx context.Context, of temporal.Object, object *ranv1.ClusterGroupUpgrade) (*start, *metav1.Condition, error) {
	complete := object.DeepCopy()
	if err := manifest.Complete(complete); err != nil {
		return nil, refusal(reasonInvalidSpec, err.Error()), nil
	}
	if _, err := objects.Hold(ctx, c.hub.Client, object, nil); err != nil {
		return nil, nil, err
	}
	complete.Status, complete.ManagedFields = ranv1.ClusterGroupUpgradeStatus{}, nil
	return &start{
		options: temporal.ClusterGroupUpgradeOptions(object.Namespace, object.Name, rollout.Summary(complete)),
		input:   rollout.Input{Object: *complete, Source: &of},
	}, nil, nil
}

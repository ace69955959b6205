package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// AwaitBlockers waits until the rollouts that block a rollout have succeeded. What the hub keeps of them counts, and is watched. Errors:
// InvalidSpec when rollouts wait for each other.
func (r *Rollouts) AwaitBlockers(ctx context.Context, cgu ranv1.ClusterGroupUpgrade) error {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	var kinds []client.Object
	for _, blocker := range rollout.Blockers(&cgu) {
		kinds = append(kinds, kube.Alone(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: blocker.Namespace, Name: rollout.KeptName(blocker.Name)}}))
	}
	return r.Waits.await(ctx, hub, kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		blocking, err := blocked(ctx, hub, &cgu)
		if err != nil {
			return temporal.Observation{}, false, err
		}
		if blocking.Cycle != nil {
			return temporal.Observation{}, false, temporal.Error(temporal.ErrInvalidSpec, blocking.CycleMessage(), nil)
		}
		wait := blocking.Wait()
		return temporal.Observation{Wait: wait}, wait == nil, nil
	})
}

// refuseCycle makes a plan invalid when the rollout and others wait for each other.
func refuseCycle(ctx context.Context, hub *kube.Cluster, cgu *ranv1.ClusterGroupUpgrade, plan *RolloutPlan, now time.Time) error {
	if len(cgu.Spec.BlockingCRs) == 0 {
		return nil
	}
	blocking, err := blocked(ctx, hub, cgu)
	if err == nil && blocking.Cycle != nil {
		plan.RemediationPlan = [][]string{}
		rollout.SetCondition(&plan.Conditions, ranv1.ConditionValidated, metav1.ConditionFalse, ranv1.ReasonUnresolvableDependency, blocking.CycleMessage(), now)
	}
	return err
}

// blocked reads from the hub how the rollouts stand that block a rollout, and those that block them in turn.
func blocked(ctx context.Context, hub *kube.Cluster, cgu *ranv1.ClusterGroupUpgrade) (rollout.Blocking, error) {
	known := map[types.NamespacedName]*ranv1.ClusterGroupUpgrade{}
	for ask := rollout.Blockers(cgu); len(ask) > 0; ask = ask[1:] {
		if _, asked := known[ask[0]]; asked {
			continue
		}
		object, err := readKept(ctx, hub, ask[0])
		if err != nil {
			return rollout.Blocking{}, err
		}
		known[ask[0]] = object
		if object != nil && !rollout.Over(object) {
			ask = slices.Concat(ask, rollout.Blockers(object))
		}
	}
	return rollout.Blocked(cgu, known), nil
}

// readKept returns the rollout that the hub keeps under a name; nil when it keeps none.
func readKept(ctx context.Context, hub *kube.Cluster, name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error) {
	var kept corev1.ConfigMap
	key := client.ObjectKey{Namespace: name.Namespace, Name: rollout.KeptName(name.Name)}
	err := hub.Client.Get(ctx, key, &kept)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("ConfigMap %s may not be read: bind ClusterRole drydock-rollouts in namespace %s of the hub", key, key.Namespace)
	case err != nil:
		return nil, explain(hub, "read ConfigMap "+key.String(), err)
	}
	object, err := parseKept(&kept)
	if object != nil && object.Name != name.Name {
		return nil, nil // another rollout, whose name is cut to the same
	}
	return object, err
}

package holds

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// The ConfigMap of the hub with the saved holds. The shipped role may write it, and no saved rollout can have its name.
const (
	KeptHoldsNamespace = metav1.NamespaceDefault
	KeptHoldsName      = "emergency-stop.drydock.dev"
	// KeptHoldsKey holds an emergency.State, as YAML.
	KeptHoldsKey = "holds.yaml"
)

// SaveHolds saves the holds on the hub, so that they outlive the workflow. A later saved state stays.
// Errors: NoHub if this worker has no hub; NotFound if it has no right to write there; InvalidSpec if the ConfigMap has another owner.
func (h *Activities) SaveHolds(ctx context.Context, state emergency.State) error {
	hub, err := h.Hub.Hub(ctx)
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(state)
	if err != nil {
		return err
	}
	kept, before, err := readSavedHolds(ctx, hub)
	switch {
	case err != nil:
		return err
	case kept == nil:
		kept = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: KeptHoldsNamespace, Name: KeptHoldsName, Labels: map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy},
		}}
		kept.Data = map[string]string{KeptHoldsKey: string(content)}
		err = hub.Client.Create(ctx, kept)
	case before.Number < state.Number:
		kept.Data = map[string]string{KeptHoldsKey: string(content)}
		err = hub.Client.Update(ctx, kept)
	}
	if apierrors.IsForbidden(err) {
		return temporal.Error(temporal.ErrNotFound, keptHolds+" may not be written: apply deploy/rbac/hub.yaml to the hub", err)
	}
	return activitykit.Explain(hub, "write "+keptHolds, err)
}

// LoadHolds loads the holds from the hub; the zero state if none are saved. Errors: NoHub if this worker has no hub; InvalidSpec if the ConfigMap has
// another owner or cannot be decoded; ClusterUnreachable if the hub does not answer, or refuses the read.
func (h *Activities) LoadHolds(ctx context.Context, _ struct{}) (emergency.State, error) {
	hub, err := h.Hub.Hub(ctx)
	if err != nil {
		return emergency.State{}, err
	}
	_, state, err := readSavedHolds(ctx, hub)
	return state, err
}

const keptHolds = "ConfigMap " + KeptHoldsNamespace + "/" + KeptHoldsName

// readSavedHolds returns nil if nothing is saved. A forbidden read is an error and is retried.
func readSavedHolds(ctx context.Context, hub *kube.Cluster) (*corev1.ConfigMap, emergency.State, error) {
	var kept corev1.ConfigMap
	var state emergency.State
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: KeptHoldsNamespace, Name: KeptHoldsName}, &kept)
	switch {
	case apierrors.IsNotFound(err):
		return nil, state, nil
	case err != nil:
		return nil, state, activitykit.Explain(hub, "read "+keptHolds, err)
	case kept.Labels[activitykit.LabelManagedBy] != activitykit.ManagedBy:
		return nil, state, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s is not Drydock's (label %s is not %s)", keptHolds, activitykit.LabelManagedBy, activitykit.ManagedBy), nil)
	}
	if err := yaml.UnmarshalStrict([]byte(kept.Data[KeptHoldsKey]), &state); err != nil {
		return nil, state, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s cannot be read: %v: correct or delete it", keptHolds, err), nil)
	}
	return &kept, state, nil
}

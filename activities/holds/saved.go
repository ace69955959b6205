package holds

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
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
	SavedHoldsNamespace = kube.SystemNamespace
	SavedHoldsName      = "emergency-stop.drydock.dev"
	// SavedHoldsKey holds an emergency.State, as YAML.
	SavedHoldsKey = "holds.yaml"
)

// SaveHolds saves the holds on the hub, so that they outlive the workflow. A later saved state stays.
// Errors: those of hub; NotFound also if this one has no right to write there; InvalidSpec if the ConfigMap has another
// owner.
func (h *Activities) SaveHolds(ctx context.Context, state emergency.State) error {
	hub, err := h.hub(ctx)
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(state)
	if err != nil {
		return err
	}
	saved, before, err := readSavedHolds(ctx, hub)
	switch {
	case err != nil:
		return err
	case saved == nil:
		saved = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: SavedHoldsNamespace, Name: SavedHoldsName, Labels: map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy},
		}}
		setContent(saved, content)
		err = hub.Client.Create(ctx, saved)
	case before.Number < state.Number:
		setContent(saved, content)
		err = hub.Client.Update(ctx, saved)
	}
	if apierrors.IsForbidden(err) {
		return temporal.Error(temporal.ErrNotFound, savedHolds+" may not be written: apply deploy/rbac/hub.yaml to the hub", err)
	}
	return activitykit.Explain(hub, "write "+savedHolds, err)
}

// LoadHolds loads the holds from the hub; the zero state if none are saved. Errors: those of hub;
// InvalidSpec if the ConfigMap has another owner or cannot be decoded; ClusterUnreachable if the hub does not answer, or refuses the read.
func (h *Activities) LoadHolds(ctx context.Context, _ struct{}) (emergency.State, error) {
	hub, err := h.hub(ctx)
	if err != nil {
		return emergency.State{}, err
	}
	_, state, err := readSavedHolds(ctx, hub)
	return state, err
}

// hub returns the hub of this worker. Temporal knows the workers of the last minutes, and their identities say whether they have a hub. Errors:
// ClusterUnreachable if another worker has one; NotFound if no worker has one; NoHub if that is unknown.
func (h *Activities) hub(ctx context.Context) (*kube.Cluster, error) {
	hub, err := h.Hub.Hub(ctx)
	if temporal.ErrorType(err) != temporal.ErrNoHub {
		return hub, err
	}
	queue, failed := h.Temporal.DescribeTaskQueue(ctx, temporal.TaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	unknown := failed != nil || len(queue.GetPollers()) == 0
	for _, poller := range queue.GetPollers() {
		has, known := temporal.HasHub(poller.GetIdentity())
		if has {
			return nil, temporal.Error(temporal.ErrClusterUnreachable, "the hub: only worker "+poller.GetIdentity()+" has it, and this attempt was not its", err)
		}
		unknown = unknown || !known
	}
	if unknown {
		return nil, err
	}
	return nil, temporal.Error(temporal.ErrNotFound, "no worker has a hub", err)
}

func setContent(saved *corev1.ConfigMap, content []byte) {
	saved.Data = map[string]string{SavedHoldsKey: string(content)}
	activitykit.SetDigest(saved, content)
}

const savedHolds = "ConfigMap " + SavedHoldsNamespace + "/" + SavedHoldsName

// readSavedHolds returns nil if nothing is saved. A forbidden read is an error and is retried.
func readSavedHolds(ctx context.Context, hub *kube.Cluster) (*corev1.ConfigMap, emergency.State, error) {
	var saved corev1.ConfigMap
	var state emergency.State
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: SavedHoldsNamespace, Name: SavedHoldsName}, &saved)
	switch {
	case apierrors.IsNotFound(err):
		return nil, state, nil
	case err != nil:
		return nil, state, activitykit.Explain(hub, "read "+savedHolds, err)
	case saved.Labels[activitykit.LabelManagedBy] != activitykit.ManagedBy:
		return nil, state, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s is not Drydock's (label %s is not %s)", savedHolds, activitykit.LabelManagedBy, activitykit.ManagedBy), nil)
	}
	content := []byte(saved.Data[SavedHoldsKey])
	err = yaml.UnmarshalStrict(content, &state)
	if err == nil {
		err = state.CheckSaved()
	}
	if err == nil {
		err = activitykit.CheckDigest(&saved, content)
	}
	if err != nil {
		return nil, emergency.State{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s cannot be read: %v: correct or delete it", savedHolds, err), nil)
	}
	return &saved, state, nil
}

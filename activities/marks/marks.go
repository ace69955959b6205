// Package marks reads and writes the marks by which Drydock knows the nodes that it has cordoned.
package marks

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
)

// Marks has the desired marks of a node, and whether pods may be scheduled on it. The zero value of a mark is no mark.
type Marks struct {
	Owner string
	// Label represents the owner for the node affinity of pods.
	Label         string
	Former        kube.FormerState
	KeepOnFailure bool
	Unschedulable bool
}

func Of(node *corev1.Node) Marks {
	return Marks{
		Owner: kube.Owner(node), Label: node.Labels[kube.LabelMaintenance], Former: kube.FormerStateOf(node), KeepOnFailure: kube.KeptOnFailure(node),
		Unschedulable: node.Spec.Unschedulable,
	}
}

// Patch returns the patch that makes the change; nil: the node needs none. It applies only to the read version of the node: another write in between
// is a conflict.
func (c Marks) Patch(node *corev1.Node) (client.Patch, error) {
	current := Of(node)
	if c == current {
		return nil, nil
	}
	metadata := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	body := map[string]any{"metadata": metadata}
	if c.Owner != current.Owner || c.Former != current.Former || c.KeepOnFailure != current.KeepOnFailure {
		metadata["annotations"] = map[string]any{
			kube.AnnotationOwner: activitykit.OrNull(c.Owner), kube.AnnotationFormerState: activitykit.OrNull(string(c.Former)), kube.AnnotationKeepOnFailure: activitykit.NullUnless(c.KeepOnFailure, "true"),
		}
	}
	if c.Label != current.Label {
		metadata["labels"] = map[string]any{kube.LabelMaintenance: activitykit.OrNull(c.Label)}
	}
	if c.Unschedulable != node.Spec.Unschedulable {
		// Remove the field instead of writing false, so that a returned node is unchanged.
		body["spec"] = map[string]any{"unschedulable": activitykit.NullUnless(c.Unschedulable, true)}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the marks of node %s: %w", node.Name, err)
	}
	return client.RawPatch(types.MergePatchType, patch), nil
}

// UpdateSeen is Update that starts with the cached node.
func UpdateSeen(ctx context.Context, cluster *kube.Cluster, name string, workOut func(*corev1.Node) (client.Patch, error)) error {
	node, err := cluster.CachedNode(ctx, name)
	if err != nil {
		return Update(ctx, cluster, name, workOut)
	}
	return UpdateFrom(ctx, cluster, node, workOut)
}

// UpdateFrom is Update that starts with a node that was read before. It uses that only if there is a patch, and the patch, which applies only to that
// version, succeeds.
func UpdateFrom(ctx context.Context, cluster *kube.Cluster, node *corev1.Node, workOut func(*corev1.Node) (client.Patch, error)) error {
	name := node.Name
	patch, err := workOut(node)
	if err == nil && patch != nil && cluster.PatchNode(ctx, node, patch) == nil {
		return nil
	}
	return Update(ctx, cluster, name, workOut)
}

// conflictAttempts limits how often a change is tried again after a conflict: the kubelet and others write to nodes all the time.
const conflictAttempts = 5

// Update reads a node from the API server and applies the patch that workOut returns; nil: none. Afterwards the node that workOut received is the patched
// one. Patches by workOut itself may also conflict.
func Update(ctx context.Context, cluster *kube.Cluster, name string, workOut func(*corev1.Node) (client.Patch, error)) error {
	for attempt := 1; ; attempt++ {
		node := &corev1.Node{}
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		patch, err := workOut(node)
		if err == nil && patch != nil {
			err = cluster.PatchNode(ctx, node, patch)
		}
		if !apierrors.IsConflict(err) || attempt == conflictAttempts {
			return err
		}
	}
}

package activities

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// nodeChange is how a node should be marked and whether pods may be scheduled on it. The zero value of a mark is no mark.
type nodeChange struct {
	owner string
	// label stands for the owner where pods can require it.
	label         string
	former        kube.FormerState
	keepOnFailure bool
	unschedulable bool
}

func currentMarks(node *corev1.Node) nodeChange {
	return nodeChange{
		owner: kube.Owner(node), label: node.Labels[kube.LabelMaintenance], former: kube.FormerStateOf(node), keepOnFailure: kube.KeptOnFailure(node),
		unschedulable: node.Spec.Unschedulable,
	}
}

// patch returns the one patch that makes the change, or nil when the node is so already. It holds only for the node as it was read:
// anyone's write in between is a conflict.
func (c nodeChange) patch(node *corev1.Node) (client.Patch, error) {
	current := currentMarks(node)
	if c == current {
		return nil, nil
	}
	metadata := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	body := map[string]any{"metadata": metadata}
	if c.owner != current.owner || c.former != current.former || c.keepOnFailure != current.keepOnFailure {
		metadata["annotations"] = map[string]any{
			kube.AnnotationOwner: orNull(c.owner), kube.AnnotationFormerState: orNull(string(c.former)), kube.AnnotationKeepOnFailure: nullUnless(c.keepOnFailure, "true"),
		}
	}
	if c.label != current.label {
		metadata["labels"] = map[string]any{kube.LabelMaintenance: orNull(c.label)}
	}
	if c.unschedulable != node.Spec.Unschedulable {
		// False is the field's absence, so that a node that was returned is as it was found.
		body["spec"] = map[string]any{"unschedulable": nullUnless(c.unschedulable, true)}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the marks of node %s: %w", node.Name, err)
	}
	return client.RawPatch(types.MergePatchType, patch), nil
}

// changeSeenNode is changeNode that begins with the node as the cache has it. That is believed only if there is something to patch and the patch, which
// holds just for what was seen, succeeds.
func changeSeenNode(ctx context.Context, cluster *kube.Cluster, name string, workOut func(*corev1.Node) (client.Patch, error)) error {
	node := &corev1.Node{}
	if cluster.Cache.Get(ctx, client.ObjectKey{Name: name}, node) == nil {
		patch, err := workOut(node)
		if err == nil && patch != nil && cluster.Client.Patch(ctx, node, patch) == nil {
			return nil
		}
	}
	return changeNode(ctx, cluster, name, workOut)
}

// conflictAttempts is how often a change is worked out anew at once because the node changed in between; its kubelet and others write
// to it all the time.
const conflictAttempts = 5

// changeNode reads a node from the API server and applies the patch that is worked out from it; nil is none. The node that was handed to workOut is
// then as the API server answers. What workOut itself patches may conflict likewise.
func changeNode(ctx context.Context, cluster *kube.Cluster, name string, workOut func(*corev1.Node) (client.Patch, error)) error {
	for attempt := 1; ; attempt++ {
		node := &corev1.Node{}
		if err := cluster.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		patch, err := workOut(node)
		if err == nil && patch != nil {
			err = cluster.Client.Patch(ctx, node, patch)
		}
		if !apierrors.IsConflict(err) || attempt == conflictAttempts {
			return err
		}
	}
}

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Conditions of a node while it is worked on. They say so to people and to other programs. Of Drydock itself a drain tells by them which other nodes are
// being drained, and the sweeper what is left of maintenances that are over.
const (
	// ConditionMaintenancePlanned: a maintenance waits for its turn.
	ConditionMaintenancePlanned corev1.NodeConditionType = "MaintenancePlanned"
	// ConditionMaintenanceInProgress: the node is under maintenance.
	ConditionMaintenanceInProgress corev1.NodeConditionType = "MaintenanceInProgress"
	// ConditionDrainInProgress: pods are being evicted.
	ConditionDrainInProgress corev1.NodeConditionType = "DrainInProgress"
	// ConditionDrained: every pod that had to leave has left.
	ConditionDrained corev1.NodeConditionType = "Drained"
)

// NodeConditions are all conditions that Drydock sets on a node.
func NodeConditions() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{ConditionMaintenancePlanned, ConditionMaintenanceInProgress, ConditionDrainInProgress, ConditionDrained}
}

// conditionReason is the reason of all our conditions.
const conditionReason = "Drydock"

// NodeCondition returns a condition for SetNodeConditions.
func NodeCondition(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: conditionType, Status: status, Message: message}
}

// NoNodeCondition removes a condition by SetNodeConditions.
func NoNodeCondition(conditionType corev1.NodeConditionType) corev1.NodeCondition {
	return corev1.NodeCondition{Type: conditionType}
}

// SetNodeConditions sets conditions on a node's status in the name of an owner, which the message then ends with, and removes those that
// have no status, but not the plan of another, nor what another program has set. The kubelet's conditions and other people's stay as they are: the patch merges
// by type; one of NodeConditions that is set becomes ours, whoever had set it. Conditions that are as
// wanted already are not written again. The patch holds only for the node as it was seen to be allowed: what comes late to a node that was returned
// meanwhile changes nothing. Errors: as the API server's; NotFound when the node is gone.
func (c *Cluster) SetNodeConditions(ctx context.Context, node, owner string, allowed func(*corev1.Node) bool, conditions ...corev1.NodeCondition) error {
	found, err := c.Node(ctx, node)
	if err == nil && !allowed(found) {
		// The cache may be behind.
		err = c.Client.Get(ctx, client.ObjectKey{Name: node}, found)
	}
	if err != nil {
		return err
	}
	return c.UpdateNodeConditions(ctx, found, owner, allowed, conditions...)
}

// conditionAttempts is how often conditions are worked out anew because the node changed in between; its kubelet writes to it, too.
const conditionAttempts = 5

// UpdateNodeConditions is SetNodeConditions for a node that was just read; it is then as the API server answers.
func (c *Cluster) UpdateNodeConditions(ctx context.Context, node *corev1.Node, owner string, allowed func(*corev1.Node) bool, conditions ...corev1.NodeCondition) error {
	uid := node.UID
	for attempt := 1; allowed(node); attempt++ {
		err := c.patchNodeConditions(ctx, node, conditionPatch(node, owner, metav1.Now(), conditions))
		if !apierrors.IsConflict(err) || attempt == conditionAttempts {
			return err
		}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		if node.UID != uid {
			return apierrors.NewNotFound(corev1.Resource("nodes"), node.Name)
		}
	}
	return nil
}

// OwnedNode allows conditions on a node while it bears this very mark.
func OwnedNode(owner string) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool { return OwnedBy(node, owner) }
}

// AnyNode allows conditions on every node.
func AnyNode(*corev1.Node) bool { return true }

// Node reads a node from the cache. Before it calls one missing, it asks the API server: the cache may not have it yet.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node, key := &corev1.Node{}, client.ObjectKey{Name: name}
	err := c.Cache.Get(ctx, key, node)
	if apierrors.IsNotFound(err) {
		err = c.Client.Get(ctx, key, node)
	}
	return node, err
}

// SameNode is Node for the very node that was seen before: one that has taken its name since is not it, and it is missing then. An empty uid is that of
// whichever has the name.
func (c *Cluster) SameNode(ctx context.Context, name string, uid types.UID) (*corev1.Node, error) {
	node, err := c.Node(ctx, name)
	if err != nil || uid == "" || node.UID == uid {
		return node, err
	}
	now := &corev1.Node{} // the cache may have the one before
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, now); err != nil {
		return nil, err
	}
	if now.UID != uid {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return now, nil
}

// RemoveNodeConditions removes those of NodeConditions that were set in the name of an owner from a node that was just read; it is then
// as the API server answers. Errors: as the API server's; Conflict when the node has changed since it was read, as a condition may be that of another
// one by now.
func (c *Cluster) RemoveNodeConditions(ctx context.Context, node *corev1.Node, owner string) error {
	var patch []any
	for _, conditionType := range NodeConditions() {
		old := FindNodeCondition(node, conditionType)
		if old == nil || !ConditionOwnedBy(*old, owner) {
			continue
		}
		if len(ConditionOwners(*old)) > 1 {
			patch = append(patch, withoutOwner(*old, owner))
		} else {
			patch = append(patch, deletion(conditionType))
		}
	}
	return c.patchNodeConditions(ctx, node, patch)
}

// ConditionOwnedBy reports whether a node's condition was set in the name of owner.
func ConditionOwnedBy(condition corev1.NodeCondition, owner string) bool {
	return slices.Contains(ConditionOwners(condition), owner)
}

// ConditionOwners returns in whose names a node's condition was set; none when it is not one of ours. Only MaintenancePlanned has several: it stands
// until the last maintenance that waits for the node does not any more.
func ConditionOwners(condition corev1.NodeCondition) (owners []string) {
	if condition.Reason != conditionReason || !slices.Contains(NodeConditions(), condition.Type) {
		return nil
	}
	message := condition.Message
	for {
		begin := strings.LastIndex(message, " (")
		if begin < 0 || !strings.HasSuffix(message, ")") || strings.Contains(message[begin+1:], " ") {
			return owners
		}
		owners = slices.Insert(owners, 0, message[begin+len(" ("):len(message)-len(")")])
		message = message[:begin]
	}
}

func ownerSuffix(owner string) string { return " (" + owner + ")" }

// withoutOwner is a condition that others have set, too, without this one.
func withoutOwner(condition corev1.NodeCondition, owner string) corev1.NodeCondition {
	condition.Message = strings.Replace(condition.Message, ownerSuffix(owner), "", 1)
	return condition
}

// withOwner is a condition in the name of an owner; where it is a plan, also in the names of those that have it already.
func withOwner(condition corev1.NodeCondition, old *corev1.NodeCondition, owner string) corev1.NodeCondition {
	if old != nil && condition.Type == ConditionMaintenancePlanned {
		for _, other := range ConditionOwners(*old) {
			if other != owner {
				condition.Message += ownerSuffix(other)
			}
		}
	}
	condition.Message += ownerSuffix(owner)
	return condition
}

// conditionPatch returns the entries of a strategic merge patch that change a node's conditions into those wanted; empty if none does. It holds for
// the node as it was seen only: what has come to it since is a conflict.
func conditionPatch(node *corev1.Node, owner string, now metav1.Time, wanted []corev1.NodeCondition) (patch []any) {
	for _, condition := range wanted {
		old := FindNodeCondition(node, condition.Type)
		switch {
		case condition.Status != "":
		case old == nil || old.Reason != conditionReason:
			continue
		case plannedByOthers(*old, owner):
			if ConditionOwnedBy(*old, owner) {
				patch = append(patch, withoutOwner(*old, owner))
			}
			continue
		default:
			patch = append(patch, deletion(condition.Type))
			continue
		}
		condition = withOwner(condition, old, owner)
		condition.Reason = conditionReason
		condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
		if old != nil && old.Status == condition.Status {
			if old.Reason == condition.Reason && old.Message == condition.Message {
				continue
			}
			condition.LastTransitionTime = old.LastTransitionTime
		}
		patch = append(patch, condition)
	}
	return patch
}

// plannedByOthers: several maintenances can wait for a node, and the plans of the others are not over when one has its turn.
func plannedByOthers(condition corev1.NodeCondition, owner string) bool {
	return condition.Type == ConditionMaintenancePlanned && slices.ContainsFunc(ConditionOwners(condition), func(other string) bool { return other != owner })
}

func deletion(conditionType corev1.NodeConditionType) any {
	return map[string]any{"$patch": "delete", "type": conditionType}
}

// FindNodeCondition returns a condition of a node, or nil.
func FindNodeCondition(node *corev1.Node, conditionType corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// patchNodeConditions patches the very node that was read: what comes late to one that has changed since is a conflict.
func (c *Cluster) patchNodeConditions(ctx context.Context, node *corev1.Node, conditions []any) error {
	if len(conditions) == 0 {
		return nil
	}
	// The UID keeps us off a new node of the same name: to the API server it is a field that cannot be changed.
	metadata := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": map[string]any{"conditions": conditions}})
	if err != nil {
		return fmt.Errorf("encode the conditions of node %s: %w", node.Name, err)
	}
	err = c.Client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid") {
		return apierrors.NewNotFound(corev1.Resource("nodes"), node.Name)
	}
	return err
}

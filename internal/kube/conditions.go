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

// Conditions of a node during its maintenance, for people and other programs. A drain reads them to find other nodes being drained, and the sweeper
// to find those that closed maintenances left.
const (
	// ConditionMaintenancePlanned: a maintenance waits for the node.
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

// SetNodeConditions sets conditions on a node's status for an owner, whose name ends the message, and removes those without a status, except another
// owner's plan and conditions of other programs. The patch merges by type, so the kubelet's conditions and others stay unchanged; one of
// NodeConditions becomes Drydock's when it is set. Conditions that are already as desired are not written. The patch has a precondition on the node
// that was checked, so a late patch cannot change a node that returned to service. Errors: those of the API server; NotFound when the node was
// deleted.
func (c *Cluster) SetNodeConditions(ctx context.Context, node, owner string, allowed func(*corev1.Node) bool, conditions ...corev1.NodeCondition) error {
	found, err := c.Node(ctx, node)
	if err == nil && !allowed(found) {
		// The cache may be stale.
		err = c.Client.Get(ctx, client.ObjectKey{Name: node}, found)
	}
	if err != nil {
		return err
	}
	return c.UpdateNodeConditions(ctx, found, owner, allowed, conditions...)
}

// conditionAttempts limits retries after the node changed in between; its kubelet writes to it, too.
const conditionAttempts = 5

// UpdateNodeConditions is SetNodeConditions for a node that was just read, and updates it with the API server's answer.
func (c *Cluster) UpdateNodeConditions(ctx context.Context, node *corev1.Node, owner string, allowed func(*corev1.Node) bool, conditions ...corev1.NodeCondition) error {
	uid := node.UID
	for attempt := 1; allowed(node); attempt++ {
		err := c.SetConditionsOfSeen(ctx, node, owner, conditions...)
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

// SetConditionsOfSeen is UpdateNodeConditions for exactly the version of the node that was read. Errors: those of the API server; Conflict when the node has
// changed since.
func (c *Cluster) SetConditionsOfSeen(ctx context.Context, node *corev1.Node, owner string, conditions ...corev1.NodeCondition) error {
	return c.patchNodeConditions(ctx, node, conditionPatch(node, owner, metav1.Now(), conditions))
}

// OwnedNode allows conditions on a node while it has this ownership mark.
func OwnedNode(owner string) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool { return OwnedBy(node, owner) }
}

// AnyNode allows conditions on every node.
func AnyNode(*corev1.Node) bool { return true }

// Node reads a node from the cache, or as PatchNode or a change of conditions wrote it after that. It confirms a missing node with the API server, because the cache may be
// stale.
func (c *Cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.CachedNode(ctx, name)
	if apierrors.IsNotFound(err) {
		err = c.Client.Get(ctx, client.ObjectKey{Name: name}, node)
	}
	return node, err
}

// CachedNode is Node that sends no request. Error: NotFound if the cache lacks the node.
func (c *Cluster) CachedNode(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := c.Cache.Get(ctx, client.ObjectKey{Name: name}, node)
	if err == nil {
		c.nodeWrites.catchUp(node)
	}
	return node, err
}

// SameNode is Node for a node with that UID: a new node with the same name counts as missing. An empty uid matches any node of the name.
func (c *Cluster) SameNode(ctx context.Context, name string, uid types.UID) (*corev1.Node, error) {
	node, err := c.Node(ctx, name)
	if err != nil || uid == "" || node.UID == uid {
		return node, err
	}
	now := &corev1.Node{} // the cache may have the earlier node
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, now); err != nil {
		return nil, err
	}
	if now.UID != uid {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return now, nil
}

// RemoveNodeConditions removes the NodeConditions of an owner from a node that was just read, and updates it with the API server's answer. Errors:
// those of the API server; Conflict when the node has changed since it was read, because a condition may belong to another owner by now.
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

// ConditionOwnedBy reports whether owner set a node's condition.
func ConditionOwnedBy(condition corev1.NodeCondition, owner string) bool {
	return slices.Contains(ConditionOwners(condition), owner)
}

// ConditionOwners returns the owners of a node's condition; none if Drydock did not set it. Only MaintenancePlanned has several: it stays until no
// maintenance waits for the node.
func ConditionOwners(condition corev1.NodeCondition) (owners []string) {
	if condition.Reason != conditionReason || !slices.Contains(NodeConditions(), condition.Type) {
		return nil
	}
	_, owners = splitOwners(condition.Message)
	return owners
}

// splitOwners splits the message of a condition into its text and the owners at its end.
func splitOwners(message string) (text string, owners []string) {
	for {
		begin := strings.LastIndex(message, " (")
		if begin < 0 || !strings.HasSuffix(message, ")") || strings.Contains(message[begin+1:], " ") {
			return message, owners
		}
		owners = slices.Insert(owners, 0, message[begin+len(" ("):len(message)-len(")")])
		message = message[:begin]
	}
}

func ownerSuffix(owner string) string { return " (" + owner + ")" }

// withoutOwner is a condition of several owners, without this one.
func withoutOwner(condition corev1.NodeCondition, owner string) corev1.NodeCondition {
	message, owners := splitOwners(condition.Message)
	for _, other := range owners {
		if other != owner {
			message += ownerSuffix(other)
		}
	}
	condition.Message = message
	return condition
}

// withOwner is a condition of an owner; a plan keeps its other owners.
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

// conditionPatch returns the entries of a strategic merge patch that sets the desired conditions of a node; empty if nothing changes.
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

// plannedByOthers: several maintenances can wait for a node, and the plans of the others stay when one gets it.
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

// patchNodeConditions patches exactly the node that was read; a change since then is a conflict.
func (c *Cluster) patchNodeConditions(ctx context.Context, node *corev1.Node, conditions []any) error {
	if len(conditions) == 0 {
		return nil
	}
	// The UID protects a new node with the same name: the API server rejects the change of an immutable field.
	metadata := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": map[string]any{"conditions": conditions}})
	if err != nil {
		return fmt.Errorf("encode the conditions of node %s: %w", node.Name, err)
	}
	err = c.wrote(node, c.Client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch)))
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid") {
		return apierrors.NewNotFound(corev1.Resource("nodes"), node.Name)
	}
	return err
}

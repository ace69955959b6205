package node

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/marks"
	"drydock.dev/drydock/internal/kube"
)

// cordonChange decides how a node that is free or ours is cordoned. What it was before is what our mark says, if there is one: a repeated
// call finds its own cordon.
func cordonChange(node *corev1.Node, in CordonInput) (marks.Marks, CordonResult) {
	change := marks.Marks{Owner: in.Owner, Label: kube.MaintenanceLabel(in.Owner), Unschedulable: node.Spec.Unschedulable || in.Cordon}
	if !in.Cordon {
		return change, CordonResult{}
	}
	change.KeepOnFailure = in.KeepOnFailure
	marked := kube.OwnedBy(node, in.Owner) && kube.FormerStateOf(node) == kube.FormerSchedulable
	switch {
	case marked || !node.Spec.Unschedulable:
		change.Former = kube.FormerSchedulable
		return change, CordonResult{CordonedByUs: true}
	default:
		change.Former = kube.FormerUnschedulable
		return change, CordonResult{Note: fmt.Sprintf("node %s was cordoned by someone else before; it stays so afterwards", node.Name)}
	}
}

// returnChange decides what of a node is taken back. Only our mark shows what is ours.
func returnChange(node *corev1.Node, in ReturnNodeInput) (marks.Marks, ReturnNodeResult) {
	if !kube.OwnedBy(node, in.Owner) {
		change := marks.Of(node)
		if change.Label == kube.MaintenanceLabel(in.Owner) {
			change.Label = "" // someone has removed our mark, and left this: a late Job must not find it
		}
		return change, ReturnNodeResult{Note: notOurs(node)}
	}
	change := marks.Marks{Unschedulable: node.Spec.Unschedulable}
	former := kube.FormerStateOf(node)
	switch {
	case former == "":
		return change, ReturnNodeResult{}
	case !node.Spec.Unschedulable:
		return change, ReturnNodeResult{Note: "someone else had uncordoned the node meanwhile"}
	case former == kube.FormerUnschedulable:
		return change, ReturnNodeResult{Note: "left cordoned: someone else had cordoned it before"}
	case former != kube.FormerSchedulable:
		return change, ReturnNodeResult{Note: fmt.Sprintf("left cordoned: annotation %s says %q, which nobody of ours writes", kube.AnnotationFormerState, former)}
	case cordonedAnew(node):
		return change, ReturnNodeResult{Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again"}
	case kube.KeepCordoned(node):
		return change, ReturnNodeResult{Note: fmt.Sprintf("left cordoned: annotation %s asks for it; return it with kubectl uncordon %s",
			kube.AnnotationKeepCordoned, node.Name)}
	case in.KeepCordoned:
		return change, ReturnNodeResult{Note: "left cordoned after the failure, as onFailure asks; return it with kubectl uncordon " + node.Name}
	case in.Ended == nil && kube.KeptOnFailure(node):
		return change, ReturnNodeResult{Note: "left cordoned, as onFailure asks: its maintenance cannot say any more that it had not failed; " +
			"return it with kubectl uncordon " + node.Name}
	}
	change.Unschedulable = false
	return change, ReturnNodeResult{Uncordoned: true}
}

// cordonedAnew reports whether the cordon that stands is not the one that we made. Our mark cannot tell, but the managed fields do: whoever
// sets the field again after it was removed is its only manager. To cordon a node that is cordoned changes nothing, and leaves it ours.
func cordonedAnew(node *corev1.Node) bool {
	byOthers := false
	for _, entry := range node.ManagedFields {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, manages := fields.Spec["f:unschedulable"]; !manages {
			continue
		}
		if entry.Manager == kube.FieldManager {
			return false
		}
		byOthers = true
	}
	return byOthers
}

// notOurs says why a node without our mark is left as it is; nothing when we had not marked it yet.
func notOurs(node *corev1.Node) string {
	if holder := kube.Owner(node); holder != "" {
		workflow, _ := kube.OwnerWorkflow(holder)
		return "the node is left as it is: it is under maintenance by " + workflow
	}
	if kube.FormerStateOf(node) != "" {
		return fmt.Sprintf("the node is left as it is: someone has removed our mark, annotation %s", kube.AnnotationOwner)
	}
	return ""
}

package scheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Input is everything that a decision depends on. The order of its lists has no effect.
type Input struct {
	Nodes    []Node
	Requests []SlotRequest
	Config   maintenancev1.MaintenanceOperatorConfigSpec
	// Now determines how long a request has waited.
	Now time.Time
}

// Node is the part of a node that scheduling needs. It is small, because a workflow keeps thousands of them.
type Node struct {
	Name string `json:"name"`
	// Unavailable: no pods can be scheduled on it, or it is not Ready.
	Unavailable bool `json:"unavailable,omitempty"`
	// Labels that the budgets use.
	Labels map[string]string `json:"labels,omitempty"`
}

// Request names a maintenance request.
type Request struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Requestor string `json:"requestor"`
}

// SlotRequest is a request that waits for a slot, or holds one.
type SlotRequest struct {
	Request
	// Since is when it was first requested.
	Since time.Time `json:"since"`
	// Granted: it has a slot.
	Granted bool `json:"granted,omitempty"`
}

// NodeOf returns the part of a node that scheduling needs, with the labels of these keys.
func NodeOf(node *corev1.Node, keys []string) Node {
	compact := Node{Name: node.Name, Unavailable: !available(node)}
	for _, key := range keys {
		if value, has := node.Labels[key]; has {
			if compact.Labels == nil {
				compact.Labels = make(map[string]string, len(keys))
			}
			compact.Labels[key] = value
		}
	}
	return compact
}

// LabelKeys returns the sorted keys of the labels that the budgets use.
func LabelKeys(config maintenancev1.MaintenanceOperatorConfigSpec) []string {
	var keys []string
	for _, budget := range config.Budgets {
		if budget.TopologyKey != "" {
			keys = append(keys, budget.TopologyKey)
		}
		selector := budget.NodeSelector.LabelSelector()
		if selector == nil {
			continue
		}
		keys = append(keys, labelKeysOf(selector)...)
		for _, expression := range selector.MatchExpressions {
			keys = append(keys, expression.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// InputOf returns the input for the objects of a cluster. The condition Ready has the state of a request, whose age is that of its object.
func InputOf(
	nodes []corev1.Node, requests []maintenancev1.NodeMaintenance, config maintenancev1.MaintenanceOperatorConfigSpec, now time.Time,
) Input {
	in := Input{Config: config, Now: now}
	keys := LabelKeys(config)
	for i := range nodes {
		in.Nodes = append(in.Nodes, NodeOf(&nodes[i], keys))
	}
	for i := range requests {
		request := &requests[i]
		// A request that is being deleted does not wait. If it is in progress, it keeps its slot until its node is returned.
		if working := inProgress(request); working || pending(request) {
			in.Requests = append(in.Requests, SlotRequest{Request: nameOf(request), Since: request.CreationTimestamp.Time, Granted: working})
		}
	}
	return in
}

func nameOf(request *maintenancev1.NodeMaintenance) Request {
	return Request{
		Namespace: request.Namespace, Name: request.Name, Node: request.Spec.NodeName, Requestor: request.Spec.RequestorID,
	}
}

// available reports whether pods can be scheduled on the node and it is Ready.
func available(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// state returns the reason of the condition Ready; Pending without one.
func state(request *maintenancev1.NodeMaintenance) maintenancev1.NodeState {
	condition := meta.FindStatusCondition(request.Status.Conditions, maintenancev1.ConditionReady)
	if condition == nil || condition.Reason == "" {
		return maintenancev1.NodePending
	}
	return maintenancev1.NodeState(condition.Reason)
}

// pending reports whether a request waits for a slot. A request that is being deleted does not.
func pending(request *maintenancev1.NodeMaintenance) bool {
	return state(request) == maintenancev1.NodePending && request.DeletionTimestamp == nil
}

// inProgress reports whether a request has a slot. An unknown state counts, because the node may be disrupted.
func inProgress(request *maintenancev1.NodeMaintenance) bool {
	return state(request) != maintenancev1.NodePending && !state(request).Over()
}

// Package node holds the activities that take a node out of service and return it.
package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Activities takes nodes out of service and returns them.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// ReasonNodeBusy is why a maintenance waits for another one of the same node.
const ReasonNodeBusy = "NodeBusy"

// AwaitNodeFreeInput names the node to wait for.
type AwaitNodeFreeInput struct {
	activitykit.NodeRef
	// Of is the id of the maintenance that must have returned the node; empty: any other maintenance.
	Of string `json:"of,omitempty"`
}

// AwaitNodeFree waits until no other maintenance has the node, and no other program maintains it or the cluster. If in.Of names a maintenance, it waits
// only until that one does not have the node. Errors: NodeGone.
func (n *Activities) AwaitNodeFree(ctx context.Context, in AwaitNodeFreeInput) error {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	watched, others := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.Node}}}, false
	if in.Of == "" {
		if _, others, err = locks.ServingCluster(ctx, n.Clusters, in.Cluster); err != nil {
			return err
		}
	}
	if others {
		watched = append(watched, locks.RequestKinds()...)
	}
	return n.Waits.Await(ctx, cluster, watched, func(ctx context.Context) (temporal.Observation, bool, error) {
		node, err := cluster.Node(ctx, in.Node)
		if err != nil {
			return temporal.Observation{}, false, activitykit.ExplainNode(cluster, in.Node, "read", err)
		}
		holder := holder(node, in.Owner)
		if workflow, _ := kube.OwnerWorkflow(holder); holder != "" && (in.Of == "" || in.Of == workflow) {
			return temporal.Observation{Wait: busy(in.Node, holder)}, false, nil
		}
		if others {
			request, err := locks.ForeignRequest(ctx, cluster, in.Node)
			if err != nil || request != nil {
				return foreign(request), false, err
			}
		}
		return temporal.Observation{}, true, nil
	})
}

// PlanMaintenanceInput names a node that waits for its slot.
type PlanMaintenanceInput struct {
	activitykit.NodeRef
	Preflight drain.Preflight `json:"preflight,omitzero"`
	// Job that works on the node; nil: none. It is checked before the node is marked.
	Job *maintenancev1.JobAction `json:"job,omitempty"`
}

// PlanMaintenanceResult has a warning about the node before it gets its slot.
type PlanMaintenanceResult struct {
	Warning string `json:"warning,omitempty"`
}

// PlanMaintenance marks the node MaintenancePlanned while its maintenance waits for a slot, also if another maintenance has the node. Errors: NodeGone,
// InvalidSpec (the clusters file of the worker does not allow the Job).
func (n *Activities) PlanMaintenance(ctx context.Context, in PlanMaintenanceInput) (PlanMaintenanceResult, error) {
	cluster, err := n.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return PlanMaintenanceResult{}, err
	}
	if err := activitykit.CheckJob(n.Clusters, activitykit.ActionPath(), in.Job); err != nil {
		return PlanMaintenanceResult{}, err
	}
	node, err := cluster.Node(ctx, in.Node)
	if err != nil {
		return PlanMaintenanceResult{}, activitykit.ExplainNode(cluster, in.Node, "read", err)
	}
	if err := markPlanned(ctx, cluster, in.NodeRef, node); err != nil {
		return PlanMaintenanceResult{}, err
	}
	events.Record(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodePending), Message: "a maintenance of the node waits for its slot"})
	warning, err := drain.Warn(ctx, cluster, in.NodeRef, in.Preflight)
	if err != nil {
		return PlanMaintenanceResult{}, err
	}
	return PlanMaintenanceResult{Warning: warning}, nil
}

// RemovePlan removes what PlanMaintenance has set for a maintenance that will not begin.
func RemovePlan(ctx context.Context, clusters *kube.Clusters, of activitykit.NodeRef) error {
	cluster, err := clusters.Cluster(ctx, of.Cluster)
	if err == nil {
		_, _, err = returnNode(ctx, cluster, ReturnNodeInput{NodeRef: of}, nil)
	}
	return err
}

// holder returns the ownership mark of another maintenance of the node; "": none.
func holder(node *corev1.Node, owner string) string {
	if found := kube.Owner(node); found != owner {
		return found
	}
	return ""
}

func nodeBusy(node, holder string) error {
	workflow, _ := kube.OwnerWorkflow(holder)
	return temporal.Error(temporal.ErrNodeBusy, fmt.Sprintf("node %s is under maintenance by %s", node, workflow), nil)
}

// foreign observes that another program maintains the cluster or the node.
func foreign(request *drydockv1.Blocker) temporal.Observation {
	if request == nil {
		return temporal.Observation{}
	}
	return temporal.Observation{Wait: &drydockv1.Wait{Reason: locks.ReasonForeignMaintenance, Message: request.Message, Blockers: []drydockv1.Blocker{*request}}}
}

func busy(node, holder string) *drydockv1.Wait {
	workflow, _ := kube.OwnerWorkflow(holder)
	return &drydockv1.Wait{
		Reason:   ReasonNodeBusy,
		Message:  fmt.Sprintf("node %s is under maintenance by %s; it is next after the node is returned", node, workflow),
		Blockers: []drydockv1.Blocker{{Kind: "Workflow", Name: workflow, Reason: ReasonNodeBusy, Message: "has the node under maintenance"}},
	}
}

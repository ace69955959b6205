package activities

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// Clusters decides about the nodes of a cluster next to its objects.
type Clusters struct {
	Clusters *kube.Clusters
	Waits    Waits
}

// InspectClusterInput says which nodes of which cluster are wanted.
type InspectClusterInput struct {
	Cluster     string                           `json:"cluster"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation"`
}

// InspectCluster returns the nodes to maintain, in order. Errors: InvalidSpec.
func (c *Clusters) InspectCluster(ctx context.Context, in InspectClusterInput) (rollout.NodePlan, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return rollout.NodePlan{}, err
	}
	var nodes corev1.NodeList
	if err := cluster.Cache.List(ctx, &nodes); err != nil {
		return rollout.NodePlan{}, explain(cluster, "list nodes", err)
	}
	plan, err := rollout.PlanNodes(nodes.Items, in.Remediation)
	if err != nil {
		return rollout.NodePlan{}, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	return plan, nil
}

// AwaitGrantsInput says which nodes wait for a slot and which have one.
type AwaitGrantsInput struct {
	Cluster string `json:"cluster"`
	// Pending nodes in order of their turn.
	Pending []string `json:"pending"`
	// Running nodes hold a slot.
	Running []string `json:"running,omitempty"`
}

// AwaitGrants waits until the cluster's budgets (MaintenanceOperatorConfig) let at least one pending node go, and returns those that may.
// Nodes that someone else has under maintenance hold a slot, too. A pending node that is gone needs none and is granted: its
// maintenance ends at once. Errors: InvalidSpec when there are two MaintenanceOperatorConfigs.
func (c *Clusters) AwaitGrants(ctx context.Context, in AwaitGrantsInput) ([]string, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	watched := []client.Object{&corev1.Node{}, kube.IfServed(&maintenancev1.MaintenanceOperatorConfig{})}
	var granted []string
	err = c.Waits.await(ctx, cluster, watched, func(ctx context.Context) (temporal.Observation, bool, error) {
		var nodes corev1.NodeList
		// It is looked at every change of any node, and only read: nothing is copied.
		if err := cluster.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return temporal.Observation{}, false, explain(cluster, "list nodes", err)
		}
		config, err := maintenanceConfig(ctx, cluster)
		if err != nil {
			return temporal.Observation{}, false, err
		}
		var waiting []scheduling.Waiting
		granted, waiting = grants(nodes.Items, config, in)
		return temporal.Observation{Wait: turn(waiting)}, len(granted) > 0, nil
	})
	return granted, err
}

// maintenanceConfig reads the budgets of a cluster.
func maintenanceConfig(ctx context.Context, cluster *kube.Cluster) (maintenancev1.MaintenanceOperatorConfigSpec, error) {
	config, err := snapshot.MaintenanceConfig(ctx, cluster.Cache)
	if several, ok := errors.AsType[snapshot.SeveralConfigs](err); ok {
		err = temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v", cluster.Name, several), several)
	}
	return config, explain(cluster, "read the budgets", err)
}

// grants decides which pending nodes may go.
func grants(nodes []corev1.Node, config maintenancev1.MaintenanceOperatorConfigSpec, in AwaitGrantsInput) ([]string, []scheduling.Waiting) {
	running := sets.New(in.Running...)
	holders := map[string]string{}
	for i := range nodes {
		if holder := kube.Owner(&nodes[i]); holder != "" {
			running.Insert(nodes[i].Name)
			holders[nodes[i].Name] = holder
		}
	}
	decision := scheduling.ScheduleNodes(nodes, config, sets.List(running), in.Pending)
	var granted []string
	for _, request := range decision.Granted {
		granted = append(granted, request.Node)
	}
	var waiting []scheduling.Waiting
	for _, request := range decision.Waiting {
		if request.Reason == scheduling.NodeNotFound {
			granted = append(granted, request.Node)
			continue
		}
		if holder := holders[request.Node]; request.Reason == scheduling.NodeBusy && holder != "" {
			request.Message = busy(request.Node, holder).Message
		}
		waiting = append(waiting, request)
	}
	return granted, waiting
}

// turnBlockers is how many waiting nodes a wait names: each waits for much the same.
const turnBlockers = 10

// turn says why no pending node may go: the reason of the first, and each node with its own.
func turn(waiting []scheduling.Waiting) *drydockv1.Wait {
	if len(waiting) == 0 {
		return nil
	}
	next := waiting[0]
	wait := &drydockv1.Wait{
		Reason:  string(next.Reason),
		Message: fmt.Sprintf("%s is next of %d: %s", next.Node, len(waiting), next.Message),
	}
	for _, request := range waiting[:min(len(waiting), turnBlockers)] {
		wait.Blockers = append(wait.Blockers, drydockv1.Blocker{
			Kind: "Node", Name: request.Node, Reason: string(request.Reason), Message: request.Message,
		})
	}
	return wait
}

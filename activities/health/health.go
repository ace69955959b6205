// Package health holds the activities that wait until a node or a cluster is healthy.
package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
)

// Activities checks the health of nodes and clusters.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// AwaitNodeHealthyInput names a node and its checks.
type AwaitNodeHealthyInput struct {
	activitykit.NodeRef
	// Since is when the work on the node ended and the checks started. Older evidence does not count, and the times of Checks count
	// from it.
	Since time.Time `json:"since"`
	// Deadline for the node being Ready and its DaemonSet pods ready; each of Checks has its own limit.
	Deadline *time.Time              `json:"deadline,omitempty"`
	Checks   []drydockv1.HealthCheck `json:"checks,omitempty"`
	// Ready says that the node was ready; nil: another activity has recorded that on the node.
	Ready *node.AnnounceStateInput `json:"ready,omitempty"`
	// Return is how the healthy node is returned to service at once; nil: it is not.
	Return *node.ReturnNodeInput `json:"return,omitempty"`
}

// AwaitNodeHealthyResult is the result of AwaitNodeHealthy.
type AwaitNodeHealthyResult struct {
	// Returned is the result of the return to service; nil: the node was not returned.
	Returned *node.ReturnNodeResult `json:"returned,omitempty"`
}

// returnTimeout limits the return of a healthy node, so that an API server that hangs then does not cost the result of the health check.
const returnTimeout = 10 * time.Second

// AwaitNodeHealthy waits until the node is Ready, its DaemonSet pods are ready and every check holds, and then returns the node to service if in.Return says
// how. If that fails, the cleanup of the maintenance repeats it.
// Errors: HealthGateFailed (with blockers), NodeGone, InvalidSpec.
func (h *Activities) AwaitNodeHealthy(ctx context.Context, in AwaitNodeHealthyInput) (AwaitNodeHealthyResult, error) {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return AwaitNodeHealthyResult{}, err
	}
	if in.Ready != nil {
		defer events.Announce(ctx, cluster, in.NodeRef, in.Ready.Event())() // the return does not wait for it
	}
	healthy, err := h.awaitNodeHealthy(ctx, cluster, in)
	if err != nil || in.Return == nil {
		return AwaitNodeHealthyResult{}, err
	}
	limited, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	returned, err := node.ReturnSeen(limited, &node.Activities{Clusters: h.Clusters, Waits: h.Waits}, *in.Return, healthy)
	if err != nil {
		in.Logger(ctx).Warn("The node is not returned yet", "error", err)
		return AwaitNodeHealthyResult{}, nil
	}
	return AwaitNodeHealthyResult{Returned: &returned}, nil
}

// awaitNodeHealthy returns the node as the API server had it when it was healthy.
func (h *Activities) awaitNodeHealthy(ctx context.Context, cluster *kube.Cluster, in AwaitNodeHealthyInput) (healthy *corev1.Node, err error) {
	kinds, err := CheckKinds(cluster, in.Checks)
	if err != nil {
		return nil, err
	}
	watched, pod := &corev1.Node{}, &corev1.Pod{}
	watched.Name, pod.Spec.NodeName = in.Node, in.Node
	wait := gateWait{
		waits:   h.Waits,
		cluster: cluster,
		subject: "node " + in.Node,
		kinds:   append(kinds, watched, pod, &appsv1.DaemonSet{}),
		gate:    newGate(in.Since, health.Check{Name: "node and its DaemonSet pods", Deadline: in.Deadline}, in.Checks),
		evaluate: func(objects objects) ([]health.Result, error) {
			objects.found = func(node *corev1.Node) { healthy = node }
			return evaluateNode(objects, in)
		},
	}
	recorded := func() {}
	wait.waiting = sync.OnceFunc(func() { // most nodes are healthy at once
		recorded = events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeHealthChecks), Message: checksMessage(len(in.Checks))})
	})
	err = wait.run(ctx)
	recorded()
	events.AnnounceFailure(ctx, cluster, in.NodeRef, 0, err)
	return healthy, err
}

func checksMessage(declared int) string {
	message := "before the node is returned it must be Ready and its DaemonSet pods ready"
	if declared > 0 {
		message += fmt.Sprintf("; health checks declared: %d", declared)
	}
	return message
}

func evaluateNode(objects objects, in AwaitNodeHealthyInput) ([]health.Result, error) {
	node, err := health.EvaluateNode(in.Node, objects)
	if err != nil {
		return nil, ExplainCheck(objects.cluster, err)
	}
	if node.Reason == health.ReasonNodeMissing {
		return nil, activitykit.NodeGone(objects.cluster.Name, in.Node)
	}
	declared, err := evaluate(objects, in.Checks, in.Node)
	return append([]health.Result{node}, declared...), err
}

// AwaitClusterHealthyInput names a cluster and its checks after its nodes were maintained.
type AwaitClusterHealthyInput struct {
	Cluster string `json:"cluster"`
	// Nodes that were maintained and must be Ready, if they still exist.
	Nodes []string `json:"nodes"`
	// Since is when the work on the cluster ended and the checks started, as in AwaitNodeHealthyInput.
	Since time.Time `json:"since"`
	// Deadline for the nodes; each of Checks has its own limit.
	Deadline *time.Time              `json:"deadline,omitempty"`
	Checks   []drydockv1.HealthCheck `json:"checks,omitempty"`
}

// AwaitClusterHealthy waits until every maintained node that still exists is Ready and every check holds.
// Errors: HealthGateFailed (with blockers), InvalidSpec.
func (h *Activities) AwaitClusterHealthy(ctx context.Context, in AwaitClusterHealthyInput) error {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	kinds, err := CheckKinds(cluster, in.Checks)
	if err != nil {
		return err
	}
	wait := gateWait{
		waits:   h.Waits,
		cluster: cluster,
		subject: "cluster " + in.Cluster,
		kinds:   append(kinds, &corev1.Node{}),
		gate:    newGate(in.Since, health.Check{Name: "maintained nodes", Deadline: in.Deadline}, in.Checks),
		evaluate: func(objects objects) ([]health.Result, error) {
			return evaluateCluster(objects, in)
		},
	}
	return wait.run(ctx)
}

func evaluateCluster(objects objects, in AwaitClusterHealthyInput) ([]health.Result, error) {
	nodes, err := health.EvaluateNodes(in.Nodes, objects)
	if err != nil {
		return nil, ExplainCheck(objects.cluster, err)
	}
	declared, err := evaluate(objects, in.Checks, "")
	return append([]health.Result{nodes}, declared...), err
}

// newGate returns a gate for a built-in check and the declared ones.
func newGate(since time.Time, builtIn health.Check, declared []drydockv1.HealthCheck) health.Gate {
	checks := []health.Check{builtIn}
	for _, check := range declared {
		checks = append(checks, health.Declared(check, since))
	}
	return health.NewGate(since, checks...)
}

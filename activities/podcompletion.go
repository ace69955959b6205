package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// AwaitPodCompletionInput says which pods may end by themselves, until when.
type AwaitPodCompletionInput struct {
	NodeRef
	// NodeUID is that of the node that was cordoned: it is gone when another has its name. Empty: it is not known.
	NodeUID  types.UID                              `json:"nodeUID,omitempty"`
	Spec     maintenancev1.WaitForPodCompletionSpec `json:"spec"`
	Deadline *time.Time                             `json:"deadline,omitempty"`
}

// AwaitPodCompletionResult says which pods were left when time ran out.
type AwaitPodCompletionResult struct {
	// Remaining pods, as namespace/name.
	Remaining []string `json:"remaining,omitempty"`
}

// ReasonPodsRunning is why a maintenance waits for pods to end by themselves.
const ReasonPodsRunning = "PodsRunning"

// AwaitPodCompletion waits until the selected pods have succeeded, failed or gone, or until the deadline.
// Errors: NodeGone, InvalidSpec.
func (d *Drains) AwaitPodCompletion(ctx context.Context, in AwaitPodCompletionInput) (AwaitPodCompletionResult, error) {
	completion, err := drain.NewCompletion(in.Spec)
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	cluster, err := d.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	node, pod := &corev1.Node{}, &corev1.Pod{}
	node.Name, pod.Spec.NodeName = in.Node, in.Node
	var remaining []string
	announced := false
	done, err := d.Waits.awaitUntil(ctx, in.Deadline, cluster, []client.Object{node, pod},
		func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
			if _, err := cluster.SameNode(ctx, in.Node, in.NodeUID); err != nil {
				return temporal.Observation{}, false, explainNode(cluster, in.Node, "read", err)
			}
			left, err := podsAwaited(ctx, reader, cluster.Client, in.Node, completion)
			remaining = left
			if err == nil && !announced {
				announced = true
				record(ctx, cluster, in.NodeRef, nodeEvent{reason: string(maintenancev1.NodeWaitForPodCompletion), message: completionMessage(left)})
			}
			return podsRunning(left), len(left) == 0, explain(cluster, "list the pods of node "+in.Node, err)
		})
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	if !done {
		message := "going on without waiting longer for pods that have not ended by themselves: " + strings.Join(remaining, ", ")
		record(ctx, cluster, in.NodeRef, nodeEvent{reason: EventPodCompletionTimedOut, warning: true, message: message})
	}
	return AwaitPodCompletionResult{Remaining: remaining}, nil
}

func completionMessage(pods []string) string {
	if len(pods) == 0 {
		return "no pod has to end by itself"
	}
	return "waiting for pods to end by themselves: " + strings.Join(pods, ", ")
}

// podsAwaited names the pods of a node that have not ended. That none is left is believed only from the API server: whatever the cache has
// not heard of yet would be evicted in the midst of its work.
func podsAwaited(ctx context.Context, cache, server client.Reader, node string, completion drain.Completion) ([]string, error) {
	awaited, err := awaitedPods(ctx, cache, node, completion)
	if err == nil && len(awaited) == 0 {
		return awaitedPods(ctx, server, node, completion)
	}
	return awaited, err
}

// awaitedPods names the pods of a node that have not ended, in order.
func awaitedPods(ctx context.Context, reader client.Reader, node string, completion drain.Completion) ([]string, error) {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.MatchingFields{kube.IndexNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var awaited []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; completion.Awaits(pod) {
			awaited = append(awaited, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(awaited)
	return awaited, nil
}

// podsRunning is the wait for these pods. It names the first of them.
func podsRunning(pods []string) temporal.Observation {
	const listed = 20
	wait := &drydockv1.Wait{Reason: ReasonPodsRunning, Message: fmt.Sprintf("%d pods have not ended by themselves", len(pods))}
	if len(pods) == 1 {
		wait.Message = "1 pod has not ended by itself: " + pods[0]
	}
	pods = pods[:min(listed, len(pods))]
	for _, pod := range pods {
		namespace, name, _ := strings.Cut(pod, "/")
		wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "Pod", Namespace: namespace, Name: name, Reason: ReasonPodsRunning})
	}
	return temporal.Observation{Wait: wait, Pods: pods}
}

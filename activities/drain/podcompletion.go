package drain

import (
	"context"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// AwaitPodCompletionInput names a node, the pods that may complete, and the deadline.
type AwaitPodCompletionInput struct {
	activitykit.NodeRef
	// NodeUID of the node that was cordoned. If a node of this name has another UID, the cordoned one is gone. Empty: not known.
	NodeUID types.UID                              `json:"nodeUID,omitempty"`
	Spec    maintenancev1.WaitForPodCompletionSpec `json:"spec"`
	// Drain follows: the wait ignores pods that the drain would ignore; nil: no drain follows.
	Drain *maintenancev1.DrainSpec `json:"drain,omitempty"`
	// Cordoned: the node was cordoned for the maintenance. While it is uncordoned, the wait continues.
	Cordoned bool       `json:"cordoned,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
}

// AwaitPodCompletionResult has the pods that remained at the deadline.
type AwaitPodCompletionResult struct {
	// Remaining pods, as namespace/name.
	Remaining []string `json:"remaining,omitempty"`
	// Uncordoned: the node was uncordoned by another writer.
	Uncordoned bool `json:"uncordoned,omitempty"`
}

// AwaitPodCompletion waits until the selected pods have succeeded, failed or gone, or until the deadline.
// Errors: NodeGone, InvalidSpec.
func (d *Activities) AwaitPodCompletion(ctx context.Context, in AwaitPodCompletionInput) (AwaitPodCompletionResult, error) {
	completion, err := drain.NewCompletion(in.Spec, in.Drain)
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	cluster, err := d.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	pod := &corev1.Pod{}
	pod.Spec.NodeName = in.Node
	var awaited drain.Awaited
	announced, uncordoned := false, false
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	done, err := d.Waits.AwaitUntilAlarm(ctx, in.Deadline, alarm.C, cluster, append(activitykit.NodeToWatch(in.Node), pod),
		func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
			node, err := cluster.SameNode(ctx, in.Node, in.NodeUID)
			if err == nil && in.Cordoned {
				uncordoned, err = activitykit.IsUncordoned(ctx, cluster, in.Node, uncordoned)
			}
			if err != nil {
				return temporal.Observation{}, false, activitykit.ExplainNode(cluster, in.Node, "read", err)
			}
			look := func(pods []corev1.Pod) drain.Awaited { return completion.Inspect(node, uncordoned, pods, time.Now()) }
			if awaited, err = awaitedPods(ctx, reader, cluster.Client, in.Node, look); err != nil {
				return temporal.Observation{}, false, activitykit.Explain(cluster, "list the pods of node "+in.Node, err)
			}
			if !awaited.RecheckAt.IsZero() {
				alarm.Reset(time.Until(awaited.RecheckAt))
			}
			if !announced {
				announced = true
				events.Record(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeWaitForPodCompletion), Message: completionMessage(awaited.Pods)})
			}
			return temporal.Observation{Wait: awaited.Wait, Pods: awaited.Pods[:min(podsListed, len(awaited.Pods))]}, awaited.Wait == nil, nil
		})
	if err != nil {
		return AwaitPodCompletionResult{}, err
	}
	if !done {
		message := "continues without waiting longer for pods that have not completed: " + strings.Join(awaited.Pods, ", ")
		if len(awaited.Pods) == 0 {
			message = "continues although the node is uncordoned, and new pods may be scheduled on it"
		}
		events.Record(ctx, cluster, in.NodeRef, events.Event{Reason: events.PodCompletionTimedOut, Warning: true, Message: message})
	}
	return AwaitPodCompletionResult{Remaining: awaited.Pods, Uncordoned: uncordoned}, nil
}

// podsListed limits the pods that the status of a wait names.
const podsListed = 20

func completionMessage(pods []string) string {
	if len(pods) == 0 {
		return "no pod has to end by itself"
	}
	return "waiting for pods to end by themselves: " + strings.Join(pods, ", ")
}

// awaitedPods lists the pods of a node. If the cache has none, the API server decides: the drain would evict a running pod that the cache does not have yet.
func awaitedPods(ctx context.Context, cache, server client.Reader, node string, look func([]corev1.Pod) drain.Awaited) (awaited drain.Awaited, err error) {
	for _, reader := range []client.Reader{cache, server} {
		var pods corev1.PodList
		if err := reader.List(ctx, &pods, client.MatchingFields{kube.IndexNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
			return drain.Awaited{}, err
		}
		if awaited = look(pods.Items); awaited.Wait != nil {
			break
		}
	}
	return awaited, nil
}

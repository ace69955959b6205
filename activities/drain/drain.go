// Package drain holds the activities that drain a node: they wait for pods to complete, and evict the others.
package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Activities drains nodes.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
	Metrics  *Metrics
}

// Input names a node, the pods to evict, and the deadline.
type Input struct {
	activitykit.NodeRef
	// NodeUID of the node that was cordoned. If a node of this name has another UID, the cordoned one is gone. Empty: not known.
	NodeUID types.UID               `json:"nodeUID,omitempty"`
	Spec    maintenancev1.DrainSpec `json:"spec"`
	// Cordoned: the node was cordoned for the maintenance. While it is uncordoned, nothing is evicted.
	Cordoned bool `json:"cordoned,omitempty"`
	// Deadline is when the drain times out; nil: never.
	Deadline *time.Time `json:"deadline,omitempty"`
	Attempt  int32      `json:"attempt"`
	// Before is the last status of an earlier drain of the same maintenance; nil: there was none. The counts continue from it.
	Before *maintenancev1.DrainStatus `json:"before,omitempty"`
	// Reports counts the reports of earlier attempts. With more reports, the drain reports less often.
	Reports int `json:"reports,omitempty"`
	// Closes is as in AcquireNodeInput. It is nil in a drain that continues after Before, and once the node is cordoned, unless the window stops work that
	// is in progress.
	Closes *time.Time `json:"closes,omitempty"`
}

// Drain evicts the pods that must leave and waits until they are gone. It reports its progress as observations. If its worker is killed,
// another one continues.
// Errors: Held, DrainTimedOut, PodsNotEvictable (both with blockers), NodeGone, NodeBusy when the node does not have our mark, InvalidSpec.
func (d *Activities) Drain(ctx context.Context, in Input) (maintenancev1.DrainStatus, error) {
	cluster, err := d.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return maintenancev1.DrainStatus{}, err
	}
	report := activitykit.NewReport(ctx, in.Deadline)
	report.Writes = true
	report.Sent = max(report.Sent, in.Reports)
	before := report.Observed().Drain
	if before == nil {
		before = in.Before
		if err := d.Waits.MayBegin(ctx, in.Closes); err != nil {
			return maintenancev1.DrainStatus{}, err
		}
	}
	stop := report.Start(ctx, d.Waits.Temporal)
	defer stop()
	defer d.Metrics.forget(in.NodeRef)
	rounds := roundLog{logger: in.Logger(ctx)}
	if in.Cordoned && before == nil {
		awaitTaint(ctx, cluster, in.Node)
	}
	status, err := drain.Drain{
		Node: in.Node, NodeUID: in.NodeUID, Spec: in.Spec, Cordoned: in.Cordoned, Deadline: activitykit.WorkerTime(ctx, in.Deadline), Attempt: in.Attempt, Before: before,
		Ours: func(node *corev1.Node) bool { return kube.OwnedBy(node, in.Owner) },
		Draining: func(node *corev1.Node) bool {
			condition := kube.FindNodeCondition(node, kube.ConditionDrainInProgress)
			return condition != nil && condition.Status == corev1.ConditionTrue
		},
		Cache: cluster.Cache, Server: cluster.Client, Watcher: cluster, Evictor: d.Metrics.evictor(in.Cluster, cluster.Evictions.From(in.Node)),
		Begin: func(ctx context.Context) error {
			defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeDraining), Occurrence: in.Attempt, Message: "pods are being evicted"})()
			return setDrainConditions(ctx, cluster, in.NodeRef,
				kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "pods are being evicted"),
				kube.NoNodeCondition(kube.ConditionDrained))
		},
		Progress: func(status maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			report.Observe(temporal.Observation{Drain: &status, Wait: wait, Progresses: drain.Progresses(wait)})
			rounds.log(status)
		},
		Measure: func(remaining, blocked int) { d.Metrics.observe(in.NodeRef, remaining, blocked) },
	}.Run(ctx)
	if err != nil {
		return status, d.failed(ctx, cluster, in, err)
	}
	defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: events.Drained, Message: drainedMessage(status)})()
	err = setDrainConditions(ctx, cluster, in.NodeRef,
		kube.NoNodeCondition(kube.ConditionDrainInProgress),
		kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "every pod that had to leave has left"))
	return status, err
}

// taintTimeout is longer than kube-controller-manager usually takes to add a taint. After it, a write of the node may be a conflict, and is repeated.
const taintTimeout = 200 * time.Millisecond

// awaitTaint waits until kube-controller-manager has added its taint to a node that was just cordoned: a condition that is based on the node without it
// would be a conflict.
func awaitTaint(ctx context.Context, cluster *kube.Cluster, name string) {
	ctx, cancel := context.WithTimeout(ctx, taintTimeout)
	defer cancel()
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	_ = cluster.Await(ctx, []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}, func(ctx context.Context) (bool, error) {
		node, err := cluster.CachedNode(ctx, name)
		return err != nil || !node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }), nil
	})
}

func drainedMessage(status maintenancev1.DrainStatus) string {
	if status.Evicted == 0 {
		return "no pod had to leave"
	}
	return fmt.Sprintf("every pod that had to leave has left; evicted: %d", status.Evicted)
}

// failed removes the condition DrainInProgress if the drain timed out. After any other error the drain is retried, the node is gone, or the drain
// never began.
func (d *Activities) failed(ctx context.Context, cluster *kube.Cluster, in Input, err error) error {
	if temporal.ErrorType(err) == temporal.ErrDrainTimedOut {
		// An error of this update would hide the blockers. The cleanup removes the condition, too.
		_ = setDrainConditions(ctx, cluster, in.NodeRef, kube.NoNodeCondition(kube.ConditionDrainInProgress))
	}
	events.AnnounceFailure(ctx, cluster, in.NodeRef, in.Attempt, err)
	return activitykit.ExplainNode(cluster, in.Node, "drain", err)
}

func setDrainConditions(ctx context.Context, cluster *kube.Cluster, node activitykit.NodeRef, conditions ...corev1.NodeCondition) error {
	return activitykit.ExplainNode(cluster, node.Node, "mark", cluster.SetNodeConditions(ctx, node.Node, node.Owner, kube.OwnedNode(node.Owner), conditions...))
}

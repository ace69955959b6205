package activities

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Drains empties nodes.
type Drains struct {
	Clusters *kube.Clusters
	Waits    Waits
	Metrics  *DrainMetrics
}

// DrainInput says which pods leave which node, until when.
type DrainInput struct {
	NodeRef
	// NodeUID is that of the node that was cordoned: it is gone when another has its name. Empty: it is not known.
	NodeUID types.UID               `json:"nodeUID,omitempty"`
	Spec    maintenancev1.DrainSpec `json:"spec"`
	// Cordoned: the node was cordoned for the maintenance. While somebody has uncordoned it, nothing is evicted.
	Cordoned bool `json:"cordoned,omitempty"`
	// Deadline is when the drain times out; nil: never.
	Deadline *time.Time `json:"deadline,omitempty"`
	Attempt  int32      `json:"attempt"`
	// Before is what an earlier drain of the same maintenance had reached; nil: there was none. The counts go on from there.
	Before *maintenancev1.DrainStatus `json:"before,omitempty"`
	// Reports counts how often earlier attempts have reported what they saw: the more, the less often it is reported.
	Reports int `json:"reports,omitempty"`
	// Closes is as in TakeNodeInput.
	Closes *time.Time `json:"closes,omitempty"`
}

// Drain evicts the pods that must leave and waits until they are gone. It reports its progress as observations; another worker goes on
// where one was killed.
// Errors: Held, DrainTimedOut, PodsNotEvictable (both with blockers), NodeGone, NodeBusy when the node does not bear our mark, InvalidSpec.
func (d *Drains) Drain(ctx context.Context, in DrainInput) (maintenancev1.DrainStatus, error) {
	cluster, err := d.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return maintenancev1.DrainStatus{}, err
	}
	report := newReport(ctx, in.Deadline)
	report.sent = max(report.sent, in.Reports)
	before := report.observed().Drain
	if before == nil {
		before = in.Before
		if err := d.Waits.mayBegin(ctx, in.Closes); err != nil {
			return maintenancev1.DrainStatus{}, err
		}
	}
	stop := report.start(ctx, d.Waits.Temporal)
	defer stop()
	defer d.Metrics.forget(in.NodeRef)
	status, err := drain.Drain{
		Node: in.Node, NodeUID: in.NodeUID, Spec: in.Spec, Cordoned: in.Cordoned, Deadline: onThisClock(ctx, in.Deadline), Attempt: in.Attempt, Before: before,
		Ours: func(node *corev1.Node) bool { return kube.OwnedBy(node, in.Owner) },
		Draining: func(node *corev1.Node) bool {
			condition := kube.FindNodeCondition(node, kube.ConditionDrainInProgress)
			return condition != nil && condition.Status == corev1.ConditionTrue
		},
		Cache: cluster.Cache, Server: cluster.Client, Watcher: cluster, Evictor: cluster.Evictions.From(in.Node),
		Begin: func(ctx context.Context) error {
			defer announce(ctx, cluster, in.NodeRef, nodeEvent{reason: string(maintenancev1.NodeDraining), occurrence: in.Attempt, message: "pods are being evicted"})()
			return setDrainConditions(ctx, cluster, in.NodeRef,
				kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "pods are being evicted"),
				kube.NoNodeCondition(kube.ConditionDrained))
		},
		Progress: func(status maintenancev1.DrainStatus, wait *drydockv1.Wait) {
			report.observe(temporal.Observation{Drain: &status, Wait: wait})
		},
		Measure: func(remaining, blocked int) { d.Metrics.observe(in.NodeRef, remaining, blocked) },
	}.Run(ctx)
	if err != nil {
		return status, d.failed(ctx, cluster, in, err)
	}
	defer announce(ctx, cluster, in.NodeRef, nodeEvent{reason: EventDrained, message: drainedMessage(status)})()
	err = setDrainConditions(ctx, cluster, in.NodeRef,
		kube.NoNodeCondition(kube.ConditionDrainInProgress),
		kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "every pod that had to leave has left"))
	return status, err
}

func drainedMessage(status maintenancev1.DrainStatus) string {
	if status.Evicted == 0 {
		return "no pod had to leave"
	}
	return fmt.Sprintf("every pod that had to leave has left; evicted: %d", status.Evicted)
}

// failed takes back that a drain is in progress when it has timed out. After any other error it goes on, or the node is gone, or it
// never began.
func (d *Drains) failed(ctx context.Context, cluster *kube.Cluster, in DrainInput, err error) error {
	if temporal.ErrorType(err) == temporal.ErrDrainTimedOut {
		// Its own error would hide the blockers; what is left of the condition goes with the clean-up.
		_ = setDrainConditions(ctx, cluster, in.NodeRef, kube.NoNodeCondition(kube.ConditionDrainInProgress))
	}
	announceFailure(ctx, cluster, in.NodeRef, in.Attempt, err)
	return explainNode(cluster, in.Node, "drain", err)
}

func setDrainConditions(ctx context.Context, cluster *kube.Cluster, node NodeRef, conditions ...corev1.NodeCondition) error {
	return explainNode(cluster, node.Node, "mark", cluster.SetNodeConditions(ctx, node.Node, node.Owner, kube.OwnedNode(node.Owner), conditions...))
}

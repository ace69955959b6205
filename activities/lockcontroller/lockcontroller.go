// Package lockcontroller holds the activities that operate the workload locks of one application.
package lockcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/health"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// Activities operates the locks of applications without their own controller. It writes locks, never requests.
type Activities struct {
	Clusters *kube.Clusters
}

// Input names an application and its cluster.
type Input struct {
	Cluster string `json:"cluster"`
	// Owner is the ownership mark of locks that are created.
	Owner  string                           `json:"owner"`
	Policy drydockv1.WorkloadLockPolicySpec `json:"policy"`
}

// Due has the locks that differ from the policy.
type Due struct {
	// Changes that are due: the first locks.MaxReported of them.
	Changes []locks.LockDecision `json:"changes,omitempty"`
	// More of them were left out.
	More int `json:"more,omitempty"`
}

// ObserveWorkloadLocks waits until a lock of the application differs from the policy. Errors: InvalidSpec.
func (w *Activities) ObserveWorkloadLocks(ctx context.Context, in Input) (Due, error) {
	cluster, err := w.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return Due{}, err
	}
	watched, err := lockKinds(cluster, in.Policy)
	if err != nil {
		return Due{}, err
	}
	c := &controller{cluster: cluster, in: in}
	var decision locks.Decision
	for {
		// Time alone changes a decision at its RecheckAt. Another RecheckAt makes another wait.
		due := decision.RecheckAt
		_, err := activitykit.Waits{}.AwaitUntil(ctx, due, cluster, watched, func(ctx context.Context, _ client.Reader) (temporal.Observation, bool, error) {
			if err := c.read(ctx); err != nil {
				return temporal.Observation{}, false, err
			}
			var err error
			decision, err = c.decide(ctx)
			return temporal.Observation{}, !decision.Settled() || !sameInstant(decision.RecheckAt, due), err
		})
		if err != nil {
			return Due{}, activitykit.Explain(cluster, "watch the locks of "+in.Policy.ControllerName, err)
		}
		if !decision.Settled() {
			return dueNow(decision), nil
		}
	}
}

// lockKinds are the kinds whose objects the decisions about the locks of an application depend on.
func lockKinds(cluster *kube.Cluster, policy drydockv1.WorkloadLockPolicySpec) ([]client.Object, error) {
	checked, err := health.CheckKinds(cluster, policy.ClusterHealth)
	return append([]client.Object{
		&lcmv1.ClusterMaintenanceRequest{},
		&lcmv1.NodeMaintenanceRequest{},
		kube.IfServed(&lcmv1.NodeDeletionRequest{}),
		kube.IfServed(&lcmv1.NodeDisableNotification{}),
		&lcmv1.ClusterWorkloadLock{},
		&lcmv1.NodeWorkloadLock{},
		&corev1.Node{},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: policy.Namespace}},
	}, checked...), err
}

func dueNow(decision locks.Decision) Due {
	changes := decision.Changes()
	listed := min(len(changes), locks.MaxReported)
	return Due{Changes: changes[:listed], More: len(changes) - listed}
}

func sameInstant(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// applyRounds limits how often ApplyWorkloadLocks decides again after a conflict. Then another attempt continues.
const applyRounds = 100

// ApplyWorkloadLocks updates the locks of the application and reports their state. It decides on the objects that it reads itself: the changes of
// ObserveWorkloadLocks may be outdated. Errors: InvalidSpec, ClusterUnreachable.
//
// At no time are more node locks inactive than the policy allows, even if several attempts run in parallel: a frozen attempt may continue, with an old
// cache, after another one has started on another machine. The reasons:
//
//   - The turns on the application's ClusterWorkloadLock (locks.Turns) name the nodes that may be inactive, never more than allowed. They are
//     written under the lock's resourceVersion, so the changes of all writers are in one order, and each writer knew the change before.
//   - A node's lock is made inactive in this order: read it; write the turns with the node, even if it is in them already; write the lock under
//     the resourceVersion that was read.
//   - A node's turn is ended, or given to another node, in this order: read the turns; write the node's lock, so that its resourceVersion
//     changes; write the turns.
//
// Suppose a lock were made inactive after its node's turn was ended. Its writer wrote the turns before that end, hence before the ender
// read them, hence it had read the lock before the ender wrote it. Then the lock has another resourceVersion now, and the write is refused.
func (w *Activities) ApplyWorkloadLocks(ctx context.Context, in Input) (locks.Report, error) {
	cluster, err := w.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return locks.Report{}, err
	}
	c := &controller{cluster: cluster, in: in}
	if err := c.read(ctx); err != nil {
		return locks.Report{}, activitykit.Explain(cluster, "read what the locks of "+in.Policy.ControllerName+" depend on", err)
	}
	report, err := c.keep(ctx)
	if err == nil {
		// A cache that is out of date may have shown no change to make.
		err = cluster.Reachable(ctx)
	}
	return report, activitykit.Explain(cluster, "operate the locks of "+in.Policy.ControllerName, err)
}

// keep decides and makes changes until none is due. The cache may be outdated, so it reads relevant objects again.
func (k *controller) keep(ctx context.Context) (locks.Report, error) {
	for range applyRounds {
		decision, err := k.decide(ctx)
		if err != nil {
			return locks.Report{}, err
		}
		if decision.Settled() {
			return decision.Report(), nil
		}
		confirmed, err := k.confirm(ctx, decision)
		if err != nil {
			return locks.Report{}, err
		}
		if !confirmed {
			continue
		}
		if err := k.carryOut(ctx, decision); err != nil && !errors.Is(err, errOutdated) {
			return locks.Report{}, err
		}
	}
	return locks.Report{}, fmt.Errorf("the locks of %s were written by another client %d times in a row: look for a second controller of that name", k.in.Policy.ControllerName, applyRounds)
}

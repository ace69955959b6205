package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// lockKeeper is one application's view of a cluster: what the cache held, brought up to date where it mattered.
type lockKeeper struct {
	cluster  *kube.Cluster
	in       WorkloadLocksInput
	snapshot locks.Snapshot
	// book names the cluster's lock, which holds the turns.
	book string
	// confirmed are the locks that were read from the API server since the last write, with all that they depend on.
	confirmed []string
}

// read takes everything from the cache. Nothing of it is to be changed: it is the cache's own.
func (k *lockKeeper) read(ctx context.Context) error {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var clusterRequests lcmv1.ClusterMaintenanceRequestList
	var nodeRequests lcmv1.NodeMaintenanceRequestList
	var clusterLocks lcmv1.ClusterWorkloadLockList
	var nodeLocks lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&nodes, &clusterRequests, &nodeRequests, &clusterLocks, &nodeLocks} {
		if err := k.cluster.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	if err := k.cluster.Cache.List(ctx, &pods, client.InNamespace(k.in.Policy.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	k.snapshot = locks.Snapshot{
		Nodes: nodes.Items, Pods: pods.Items,
		ClusterRequests: clusterRequests.Items, NodeRequests: nodeRequests.Items,
		ClusterLocks: clusterLocks.Items, NodeLocks: nodeLocks.Items,
	}
	return k.examine(ctx, k.cluster.Cache)
}

// examine looks at the application's health. It matters only while someone wants to maintain the cluster.
func (k *lockKeeper) examine(ctx context.Context, reader client.Reader) error {
	k.snapshot.Health = nil
	if len(k.snapshot.ClusterRequests) == 0 {
		return nil
	}
	results, err := evaluate(objectsOf(ctx, k.cluster, reader), k.in.Policy.ClusterHealth, "")
	if err != nil {
		return err
	}
	k.snapshot.Health = evidence(k.in.Policy.ClusterHealth, results)
	return nil
}

func evidence(checks []drydockv1.HealthCheck, results []health.Result) []locks.CheckResult {
	var found []locks.CheckResult
	for i, result := range results {
		found = append(found, locks.CheckResult{Check: checks[i].Name, Healthy: result.Healthy, Message: result.Message})
	}
	return found
}

func (k *lockKeeper) decide() (locks.Decision, error) {
	decision, err := locks.Decide(k.in.Policy, k.snapshot, time.Now())
	if errors.Is(err, locks.ErrInvalid) {
		err = temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	if err != nil {
		return locks.Decision{}, err
	}
	k.book = decision.Locks[0].Name
	return decision, nil
}

// confirm reads from the API server what the grave changes depend on. It returns false if that was not done before: then it has to be decided
// anew. The watches of different kinds are not in step, so that the cache may have a lock that has let go but not yet what for.
func (k *lockKeeper) confirm(ctx context.Context, decision locks.Decision) (bool, error) {
	confirmed := true
	for _, change := range decision.Changes() {
		subject := change.Kind + "/" + change.Node
		if !change.Grave() || slices.Contains(k.confirmed, subject) {
			continue
		}
		confirmed = false
		k.confirmed = append(k.confirmed, subject)
		if err := k.refresh(ctx, change); err != nil {
			return false, err
		}
	}
	if confirmed {
		k.confirmed = nil // what is written next makes it old
	}
	return confirmed, nil
}

// refresh reads a lock first, then the turns, then what they name: a lock that has let go has done so for a turn that was recorded before.
func (k *lockKeeper) refresh(ctx context.Context, change locks.LockDecision) error {
	view, api, own := &k.snapshot, k.cluster.Client, k.in.Policy.ControllerName
	err := errors.Join(
		refresh(ctx, api, &view.NodeLocks, func(l *lcmv1.NodeWorkloadLock) bool {
			return l.Spec.NodeName == change.Node && l.Spec.ControllerName == own
		}),
		refresh(ctx, api, &view.ClusterLocks, func(l *lcmv1.ClusterWorkloadLock) bool { return l.Spec.ControllerName == own }),
	)
	if err != nil {
		return err
	}
	turns, err := k.turns()
	if err != nil {
		return err
	}
	if change.Kind == locks.ClusterLockKind {
		err := refresh(ctx, api, &view.ClusterRequests, func(*lcmv1.ClusterMaintenanceRequest) bool { return true }, names(turns.Cluster)...)
		return errors.Join(err, k.examine(ctx, api))
	}
	return errors.Join(
		refresh(ctx, api, &view.NodeRequests, func(r *lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName == change.Node },
			names(turns.Nodes[change.Node].Requests)...),
		refresh(ctx, api, &view.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == change.Node }),
		refresh(ctx, api, &view.Nodes, func(n *corev1.Node) bool { return n.Name == change.Node }, change.Node),
	)
}

// turns are those that are recorded on the cluster's lock, as far as the view has it.
func (k *lockKeeper) turns() (locks.Turns, error) {
	for i := range k.snapshot.ClusterLocks {
		if lock := &k.snapshot.ClusterLocks[i]; lock.Name == k.book {
			return locks.ReadTurns(lock)
		}
	}
	return locks.Turns{}, nil
}

func names(requests []locks.Served) []string {
	var list []string
	for _, request := range requests {
		list = append(list, request.Name)
	}
	return list
}

// refresh replaces those objects in the view that concern us, and those of the further names that are not in it, by what the API server has
// now: with one GET each, which it answers at once, while a consistent LIST waits for its watch cache.
func refresh[T any, P objectOf[T]](ctx context.Context, api client.Reader, view *[]T, concerns func(P) bool, further ...string) error {
	var current []T
	var wanted []client.ObjectKey
	for i := range *view {
		object := P(&(*view)[i])
		if !concerns(object) {
			current = append(current, *object)
			continue
		}
		wanted = append(wanted, client.ObjectKeyFromObject(object))
	}
	for _, name := range further {
		if !slices.ContainsFunc(*view, func(t T) bool { return P(&t).GetName() == name }) {
			wanted = append(wanted, client.ObjectKey{Name: name})
		}
	}
	for _, key := range wanted {
		var fresh T
		err := api.Get(ctx, key, P(&fresh))
		switch {
		case err == nil:
			current = append(current, fresh)
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	*view = current
	return nil
}

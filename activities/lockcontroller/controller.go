package lockcontroller

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/health"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// controller has the objects of one application, from the cache, and from the API server where decisions need it.
type controller struct {
	cluster  *kube.Cluster
	in       Input
	snapshot locks.Snapshot
	// clusterLock names the lock of the cluster, which records the turns.
	clusterLock string
	// confirmed are the locks that were read from the API server since the last write, together with the objects that determine their state.
	confirmed []string
}

// read reads all objects from the cache, which must not be changed.
func (k *controller) read(ctx context.Context) error {
	var err error
	k.snapshot, err = snapshot.WorkloadLocks(ctx, k.cluster.Cache, k.in.Policy.Namespace)
	return err
}

// examine evaluates the application's health.
func (k *controller) examine(ctx context.Context, reader client.Reader) error {
	if err := k.snapshot.Examine(ctx, k.in.Policy, health.ObjectsOf(ctx, k.cluster, reader)); err != nil {
		return health.ExplainCheck(k.cluster, err)
	}
	return nil
}

func (k *controller) decide(ctx context.Context) (locks.Decision, error) {
	if k.snapshot.Health == nil {
		// The health was not evaluated yet.
		if err := k.examine(ctx, k.cluster.Cache); err != nil {
			return locks.Decision{}, err
		}
	}
	decision, err := locks.Decide(k.in.Policy, k.snapshot, time.Now())
	if errors.Is(err, locks.ErrInvalid) {
		err = temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	if err != nil {
		return locks.Decision{}, err
	}
	k.clusterLock = decision.Locks[0].Name
	return decision, nil
}

// confirm reads the objects for changes that allow disruption from the API server. It returns false if they were not read before; then the caller decides
// again. Watches of different kinds are not synchronised: the cache may have an inactive lock, but not the request for which it is inactive.
func (k *controller) confirm(ctx context.Context, decision locks.Decision) (bool, error) {
	confirmed := true
	for _, change := range decision.Changes() {
		subject := change.Kind + "/" + change.Node + "/" + string(change.To)
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
		k.confirmed = nil // the next write makes it outdated
	}
	return confirmed, nil
}

// refresh reads a lock first, then the turns, then the objects that they name: an inactive lock has a turn that was recorded before.
func (k *controller) refresh(ctx context.Context, change locks.LockDecision) error {
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
		return errors.Join(err, k.examine(ctx, api), k.refreshProgress(ctx, change))
	}
	return errors.Join(
		refresh(ctx, api, &view.NodeRequests, func(r *lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName == change.Node },
			names(turns.Nodes[change.Node].Requests)...),
		refresh(ctx, api, &view.DeletionRequests, func(r *lcmv1.NodeDeletionRequest) bool { return r.Spec.NodeName == change.Node },
			names(turns.Nodes[change.Node].Requests)...),
		k.refreshDisabled(ctx, change),
		k.refreshPods(ctx, change),
		refresh(ctx, api, &view.Nodes, func(n *corev1.Node) bool { return n.Name == change.Node }, change.Node),
	)
}

// refreshDisabled reads the notifications before the lock of a node is removed, which is rare.
func (k *controller) refreshDisabled(ctx context.Context, change locks.LockDecision) error {
	if change.Action != locks.Delete {
		return nil
	}
	var current lcmv1.NodeDisableNotificationList
	if err := activitykit.ListIfServed(ctx, k.cluster.Client, &current); err != nil {
		return err
	}
	k.snapshot.Disabled = current.Items
	return nil
}

// refreshPods reads the pods of a node. Before its lock fails for one that is missing, they are listed: the watch may not have shown it yet.
func (k *controller) refreshPods(ctx context.Context, change locks.LockDecision) error {
	onNode := func(p *corev1.Pod) bool { return p.Spec.NodeName == change.Node }
	if change.To != lcmv1.LockFailed {
		return refresh(ctx, k.cluster.Client, &k.snapshot.Pods, onNode)
	}
	var current corev1.PodList
	err := k.cluster.Client.List(ctx, &current, client.InNamespace(k.in.Policy.Namespace), client.MatchingFields{kube.IndexNodeName: change.Node})
	if err == nil {
		others := slices.DeleteFunc(k.snapshot.Pods, func(p corev1.Pod) bool { return onNode(&p) })
		k.snapshot.Pods = append(others, current.Items...)
	}
	return err
}

// refreshProgress reads all locks of nodes with one LIST before the reported progress decreases, which is rare.
func (k *controller) refreshProgress(ctx context.Context, change locks.LockDecision) error {
	if !change.ReportsLess {
		return nil
	}
	var current lcmv1.NodeWorkloadLockList
	if err := k.cluster.Client.List(ctx, &current); err != nil {
		return err
	}
	k.snapshot.NodeLocks = current.Items
	return nil
}

// turns returns the turns that are recorded on the cluster's lock in the view.
func (k *controller) turns() (locks.Permits, error) {
	for i := range k.snapshot.ClusterLocks {
		if lock := &k.snapshot.ClusterLocks[i]; lock.Name == k.clusterLock {
			return locks.ReadPermits(lock)
		}
	}
	return locks.Permits{}, nil
}

func names(requests []locks.Served) []string {
	var list []string
	for _, request := range requests {
		list = append(list, request.Name)
	}
	return list
}

// refresh replaces the relevant objects in the view, and those with the further names, by their current versions. It uses one GET for each, which is
// faster than a consistent LIST, which waits for the watch cache.
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
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err): // a kind may not be served
			return err
		}
	}
	*view = current
	return nil
}

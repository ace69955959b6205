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
	// confirmed are the changes whose objects were read from the API server since the last write, with the resourceVersion that the cluster's lock had
	// then. A later version has what other controllers wrote in the meantime, so the objects are read again.
	confirmed map[confirmation]string
}

// confirmation is a change of a lock to a state. A loss of progress depends on more objects.
type confirmation struct {
	kind, node string
	to         lcmv1.LockState
	loss       bool
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
	if k.confirmed == nil {
		k.confirmed = map[confirmation]string{}
	}
	confirmed := true
	for _, change := range decision.Locks {
		subject := confirmation{kind: change.Kind, node: change.Node, to: change.To, loss: change.LosesProgress()}
		version, known := k.confirmed[subject]
		if !change.Grave() || known && version == k.recorded().ResourceVersion {
			continue
		}
		confirmed = false
		if err := k.refresh(ctx, change); err != nil {
			return false, err
		}
		k.confirmed[subject] = k.recorded().ResourceVersion
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
	turns, err := locks.ReadPermits(k.recorded())
	if err != nil {
		return err
	}
	if change.Kind == locks.ClusterLockKind {
		err := refresh(ctx, api, &view.ClusterRequests, func(*lcmv1.ClusterMaintenanceRequest) bool { return true }, names(turns.Cluster)...)
		if change.From != change.To {
			err = errors.Join(err, k.examine(ctx, api))
		}
		return errors.Join(err, k.refreshProgress(ctx, change))
	}
	if change.LosesProgress() {
		err = k.listClusterRequests(ctx)
	}
	return errors.Join(err,
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

// refreshProgress lists all locks of nodes and the requests for the cluster before progress is lost, which is rare.
func (k *controller) refreshProgress(ctx context.Context, change locks.LockDecision) error {
	if !change.LosesProgress() {
		return nil
	}
	var current lcmv1.NodeWorkloadLockList
	if err := k.cluster.Client.List(ctx, &current); err != nil {
		return err
	}
	k.snapshot.NodeLocks = current.Items
	return k.listClusterRequests(ctx)
}

// listClusterRequests lists the requests for the cluster. A new one has no name in the view yet.
func (k *controller) listClusterRequests(ctx context.Context) error {
	var current lcmv1.ClusterMaintenanceRequestList
	err := k.cluster.Client.List(ctx, &current)
	if err == nil {
		k.snapshot.ClusterRequests = current.Items
	}
	return err
}

// recorded is the cluster's lock in the view, which records the turns; an empty one if there is none.
func (k *controller) recorded() *lcmv1.ClusterWorkloadLock {
	for i := range k.snapshot.ClusterLocks {
		if lock := &k.snapshot.ClusterLocks[i]; lock.Name == k.clusterLock {
			return lock
		}
	}
	return &lcmv1.ClusterWorkloadLock{}
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

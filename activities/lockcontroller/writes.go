package lockcontroller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
)

// errOutdated: an object has changed since the decision. The controller has the new version and must decide again.
var errOutdated = errors.New("decided on an old state")

// carryOut makes the changes of a decision: first those that make no lock inactive, then the record of turns, then the others. See ApplyWorkloadLocks for
// the reason. A created lock gets its state by the next decision; no lock becomes inactive before that.
func (k *controller) carryOut(ctx context.Context, decision locks.Decision) error {
	var letGo []locks.LockDecision
	anyNew := false
	for _, change := range decision.Changes() {
		if held, isNew := change.HoldsFirst(); isNew {
			change, anyNew = held, true
		}
		if change.Releases() && change.Action == locks.Update {
			letGo = append(letGo, change)
			continue
		}
		if err := k.make(ctx, change); err != nil {
			return err
		}
	}
	if anyNew {
		return nil
	}
	if decision.RecordPermits || len(letGo) > 0 {
		if err := k.record(ctx, decision.Permits); err != nil {
			return err
		}
	}
	for _, change := range letGo {
		if err := k.make(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// make makes one change and logs it.
func (k *controller) make(ctx context.Context, change locks.LockDecision) error {
	err := k.write(ctx, change)
	if err == nil {
		activitykit.Logger(ctx, "cluster", k.cluster.Name, "node", change.Node, "controller", k.in.Policy.ControllerName).Info(
			"Workload lock changed", "kind", change.Kind, "lock", change.Name, "action", change.Action, "from", change.From, "to", change.To)
	}
	return err
}

func (k *controller) write(ctx context.Context, change locks.LockDecision) error {
	if activity.IsActivity(ctx) {
		activity.RecordHeartbeat(ctx, change)
	}
	ofCluster := change.Kind == locks.ClusterLockKind
	switch {
	case change.Action == locks.Create && ofCluster:
		return createLock(ctx, k, &k.snapshot.ClusterLocks, lcmv1.ClusterWorkloadLock{
			ObjectMeta: k.newLock(change.Name),
			Spec:       lcmv1.ClusterWorkloadLockSpec{ControllerName: k.in.Policy.ControllerName},
		})
	case change.Action == locks.Create:
		return createLock(ctx, k, &k.snapshot.NodeLocks, lcmv1.NodeWorkloadLock{
			ObjectMeta: k.newLock(change.Name),
			Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: k.in.Policy.ControllerName, NodeName: change.Node, NodeDeletionRequestSupported: true},
		})
	case change.Action == locks.Delete && ofCluster:
		return deleteLock(ctx, k, &k.snapshot.ClusterLocks, change.Name)
	case change.Action == locks.Delete:
		return deleteLock(ctx, k, &k.snapshot.NodeLocks, change.Name)
	case ofCluster:
		return patchLock(ctx, k, &k.snapshot.ClusterLocks, change.Name, k.writeStatus, statusOf(change))
	}
	return k.updateNodeLock(ctx, change)
}

func (k *controller) newLock(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{kube.AnnotationOwner: k.in.Owner}}
}

// updateNodeLock writes the status and the annotations. For a lock that becomes inactive the annotations come last; for one that becomes active again
// they come first, so that they are not lost if the second write fails.
func (k *controller) updateNodeLock(ctx context.Context, change locks.LockDecision) error {
	met := change.Matches(named(k.snapshot.NodeLocks, change.Name).Status)
	first, then := k.writeNodeStatus, k.remember
	if change.From == lcmv1.LockInactive {
		first, then = then, first
	}
	if err := first(ctx, change, met); err != nil {
		return err
	}
	return then(ctx, change, met)
}

// writeNodeStatus writes the status of a node's lock if it differs.
func (k *controller) writeNodeStatus(ctx context.Context, change locks.LockDecision, met bool) error {
	if met {
		return nil
	}
	return patchLock(ctx, k, &k.snapshot.NodeLocks, change.Name, k.writeStatus, statusOf(change))
}

// remember writes the annotations of the lock of a node. At the end of a turn it writes them even without a change.
func (k *controller) remember(ctx context.Context, change locks.LockDecision, met bool) error {
	annotations := map[string]any{}
	if change.UpdatedFor != "" {
		annotations[lcmv1.AnnotationUpdatedFor] = change.UpdatedFor
	}
	if change.EndsPermit && met {
		annotations[locks.AnnotationPermitEnded] = named(k.snapshot.ClusterLocks, k.clusterLock).ResourceVersion
	}
	if len(annotations) == 0 {
		return nil
	}
	return patchLock(ctx, k, &k.snapshot.NodeLocks, change.Name, k.writeObject, annotating(annotations))
}

// record writes the turns on the application's ClusterWorkloadLock.
func (k *controller) record(ctx context.Context, turns locks.Permits) error {
	text, err := turns.Annotation(named(k.snapshot.ClusterLocks, k.clusterLock).ResourceVersion)
	if err != nil {
		return err
	}
	return patchLock(ctx, k, &k.snapshot.ClusterLocks, k.clusterLock, k.writeObject, annotating(map[string]any{locks.AnnotationPermits: text}))
}

func statusOf(change locks.LockDecision) map[string]any {
	return map[string]any{"status": map[string]any{
		"state": change.To, "errorMessage": activitykit.OrNull(change.Message), "release": activitykit.OrNull(change.Release),
		// Write a percentage of 0, too; otherwise the former one would stay.
		"inactivationProgress": map[string]any{"description": change.Progress.Description, "percentage": change.Progress.Percentage},
	}}
}

func annotating(annotations map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": annotations}}
}

func (k *controller) writeStatus(ctx context.Context, object client.Object, patch client.Patch) error {
	return k.cluster.LockController.Status().Patch(ctx, object, patch)
}

func (k *controller) writeObject(ctx context.Context, object client.Object, patch client.Patch) error {
	return k.cluster.LockController.Patch(ctx, object, patch)
}

// objectOf is a pointer to a T that implements client.Object.
type objectOf[T any] interface {
	*T
	client.Object
}

// patchLock writes a merge patch that applies only to the version of the lock in the view, and stores the result there. Errors: errOutdated.
func patchLock[T any, P objectOf[T]](ctx context.Context, k *controller, view *[]T, name string,
	write func(context.Context, client.Object, client.Patch) error, body map[string]any,
) error {
	lock := P(named[T, P](*view, name)).DeepCopyObject().(P)
	metadata, ok := body["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		body["metadata"] = metadata
	}
	metadata["resourceVersion"] = lock.GetResourceVersion() // a recreated lock has another
	patch, err := json.Marshal(body)
	if err != nil {
		return err
	}
	err = write(ctx, lock, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reload[T, P](ctx, k, view, name)
	}
	if err == nil {
		*view = with[T, P](*view, *lock)
	}
	return err
}

// createLock creates a lock. An existing lock of that name is stored in the view. Errors: errOutdated.
func createLock[T any, P objectOf[T]](ctx context.Context, k *controller, view *[]T, lock T) error {
	name := P(&lock).GetName()
	err := k.cluster.LockController.Create(ctx, P(&lock))
	if apierrors.IsAlreadyExists(err) {
		return reload[T, P](ctx, k, view, name)
	}
	if err == nil {
		*view = with[T, P](*view, lock)
	}
	return err
}

// deleteLock deletes the version of the lock in the view. Errors: errOutdated.
func deleteLock[T any, P objectOf[T]](ctx context.Context, k *controller, view *[]T, name string) error {
	lock := P(named[T, P](*view, name)).DeepCopyObject().(P)
	version := lock.GetResourceVersion()
	err := k.cluster.LockController.Delete(ctx, lock, client.Preconditions{ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return reload[T, P](ctx, k, view, name)
	}
	if client.IgnoreNotFound(err) == nil {
		*view = without[T, P](*view, name)
		return nil
	}
	return err
}

// reload updates or removes a lock in the view according to the API server, and returns errOutdated.
func reload[T any, P objectOf[T]](ctx context.Context, k *controller, view *[]T, name string) error {
	var lock T
	err := k.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, P(&lock))
	switch {
	case apierrors.IsNotFound(err):
		*view = without[T, P](*view, name)
	case err != nil:
		return err
	default:
		*view = with[T, P](*view, lock)
	}
	return errOutdated
}

// named returns the lock of that name, which is in the view of the decision.
func named[T any, P objectOf[T]](view []T, name string) P {
	return P(&view[slices.IndexFunc(view, func(t T) bool { return P(&t).GetName() == name })])
}

func with[T any, P objectOf[T]](view []T, lock T) []T {
	return append(without[T, P](view, P(&lock).GetName()), lock)
}

func without[T any, P objectOf[T]](view []T, name string) []T {
	return slices.DeleteFunc(view, func(t T) bool { return P(&t).GetName() == name })
}

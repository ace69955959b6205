package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
)

const (
	// requestorUser creates the objects, and deletes each when its node is ready.
	requestorUser = "bench-requestor"
	requestorID   = "bench.example.com"
)

// ObjectTimes are the times of requests by objects. All times are in seconds.
type ObjectTimes struct {
	// ApplyToCordon is the time from the creation of an object to the cordon of its node, of the objects that find a free slot.
	ApplyToCordon Latency `json:"applyToCordon"`
	// DrainedToStatus is the time from the end of a drain to its object's condition Ready.
	DrainedToStatus Latency `json:"drainedToStatus"`
	// StatusWrites is the number of writes to the status of an object.
	StatusWrites float64 `json:"statusWrites"`
}

// byObjects maintains the nodes with one NodeMaintenance each, all created at once. Their requestor has nothing to do on a node.
func byObjects(ctx context.Context, s *measurement, result *Result) error {
	if err := s.warmUp(ctx, result); err != nil {
		return err
	}
	seen, err := s.measureWorker(ctx, result, func(ctx context.Context, _ int) (time.Duration, error) {
		return timed(func() error { return s.requestAll(ctx) })
	})
	if err != nil {
		return err
	}
	all, err := s.requested(ctx)
	if err != nil {
		return err
	}
	result.Cost = costOf(all, s.size.maintenances())
	return result.readObjects(seen, s.nodes())
}

// requested returns the histories of the requested maintenances, which have the names of their nodes.
func (s *measurement) requested(ctx context.Context) (all []history, err error) {
	for _, node := range s.nodes() {
		histories, err := readAll(ctx, s.server, s.maintenanceOf(node))
		if err != nil {
			return nil, err
		}
		all = append(all, histories...)
	}
	return all, nil
}

// requestAll creates an object for each node, deletes each when its node is ready, and waits until all are released.
func (s *measurement) requestAll(ctx context.Context) error {
	c, err := s.requestor()
	if err != nil {
		return err
	}
	seen, err := c.Watch(ctx, &maintenancev1.NodeMaintenanceList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer seen.Stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for _, node := range s.nodes() {
			if err := c.Create(ctx, requestFor(node)); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error { return deleteReady(ctx, c, seen, s.size.Nodes) })
	return group.Wait()
}

// requestor returns a client of the requestor.
func (s *measurement) requestor() (client.WithWatch, error) {
	config, err := s.spoke.UserConfig(requestorUser, adminGroup)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

func requestFor(node string) *maintenancev1.NodeMaintenance {
	return &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: requestorID, NodeName: node, DrainSpec: &maintenancev1.DrainSpec{TimeoutSeconds: new(int32(0))}},
	}
}

// deleteReady deletes objects whose nodes are ready, until that many have been released.
func deleteReady(ctx context.Context, c client.Client, seen watch.Interface, count int) error {
	for event := range seen.ResultChan() {
		object, known := event.Object.(*maintenancev1.NodeMaintenance)
		switch {
		case !known:
			return fmt.Errorf("watch the objects: %v", event.Object)
		case event.Type == watch.Deleted:
			if count--; count == 0 {
				return nil
			}
		case object.DeletionTimestamp == nil && meta.IsStatusConditionTrue(object.Status.Conditions, maintenancev1.ConditionReady):
			if err := c.Delete(ctx, object); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%d objects were not released: the watch has ended", count)
}

// readObjects reads the times of the objects from the audit log. Each object has the name of its node.
func (r *Result) readObjects(seen observed, nodes []string) error {
	steps := []map[string]time.Time{
		firstTimes(seen.requests, func(e auditv1.Event) bool { return e.Verb == "create" && is(e, "nodemaintenances", "") }),
		seen.first(fleet.ActionCordon),
		firstTimes(seen.requests, func(e auditv1.Event) bool {
			return is(e, "nodes", "status") && hasCondition(e, string(kube.ConditionDrained))
		}),
		firstTimes(seen.requests, func(e auditv1.Event) bool {
			return is(e, "nodemaintenances", "status") && hasCondition(e, maintenancev1.ConditionReady)
		}),
		firstTimes(seen.requests, func(e auditv1.Event) bool { return e.Verb == "delete" && is(e, "nodemaintenances", "") }),
		seen.first(fleet.ActionUncordon),
	}
	const created, cordoned, drained, ready, deleted, uncordoned = 0, 1, 2, 3, 4, 5
	free := seen.at(fleet.ActionCordon)[r.Size.AtOnce-1]
	var toReady, toUncordon, toCordon, toStatus []time.Duration
	for _, node := range nodes {
		for i, step := range steps {
			if step[node].IsZero() {
				return fmt.Errorf("the audit log does not have step %d of %s", i, node)
			}
		}
		took := func(from, to int) time.Duration { return steps[to][node].Sub(steps[from][node]) }
		toReady, toUncordon, toStatus = append(toReady, took(created, ready)), append(toUncordon, took(deleted, uncordoned)), append(toStatus, took(drained, ready))
		if !steps[cordoned][node].After(free) {
			toCordon = append(toCordon, took(created, cordoned))
		}
	}
	r.RequestToReady, r.ReleaseToUncordon = latency(toReady), latency(toUncordon)
	r.Objects = &ObjectTimes{
		ApplyToCordon: latency(toCordon), DrainedToStatus: latency(toStatus), StatusWrites: r.Requests.ByTarget["patch nodemaintenances/status"],
	}
	return nil
}

// is reports whether a request to a resource has succeeded.
func is(e auditv1.Event, resource, subresource string) bool {
	return e.ObjectRef != nil && wrote(resource, subresource, func(auditv1.Event) bool { return true })(e)
}

// hasCondition reports whether the body of a request sets a condition to True.
func hasCondition(e auditv1.Event, conditionType string) bool {
	var body struct {
		Status struct{ Conditions []corev1.NodeCondition }
	}
	if !bodyOf(e, &body) {
		return false
	}
	for _, condition := range body.Status.Conditions {
		if string(condition.Type) == conditionType && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// firstTimes returns the time of the first event of each object, by name.
func firstTimes(events []auditv1.Event, matches func(auditv1.Event) bool) map[string]time.Time {
	times := map[string]time.Time{}
	for _, e := range events {
		if matches(e) && times[e.ObjectRef.Name].IsZero() {
			times[e.ObjectRef.Name] = e.StageTimestamp.Time
		}
	}
	return times
}

// first returns the time of the first such action on each node.
func (o observed) first(what string) map[string]time.Time {
	times := map[string]time.Time{}
	for _, action := range o.actions {
		if action.What == what && times[action.Object].IsZero() {
			times[action.Object] = action.At
		}
	}
	return times
}

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
type byObjects struct{ *measurement }

func (byObjects) String() string { return "Drydock, by objects" }

func (b byObjects) maintain(ctx context.Context, number int) (time.Duration, error) {
	return timed(func() error { return b.requestAll(ctx, number) })
}

func (b byObjects) record(ctx context.Context, rounds []round, result *Result) error {
	seen, err := b.recordWorker(rounds, result)
	if err != nil {
		return err
	}
	histories, err := b.requested(ctx)
	if err != nil {
		return err
	}
	result.Cost = costOf(histories, b.size.maintenances())
	return result.readObjects(seen, rounds, b.nodes())
}

// requested returns the histories of the requested maintenances of all rounds.
func (s *measurement) requested(ctx context.Context) (all []history, err error) {
	for number := range s.size.Rounds {
		for _, node := range s.nodes() {
			histories, err := readAll(ctx, s.server, s.maintenanceOf(node, number))
			if err != nil {
				return nil, err
			}
			all = append(all, histories...)
		}
	}
	return all, nil
}

// requestAll creates an object for each node, deletes each when its node is ready, and waits until all are released.
func (s *measurement) requestAll(ctx context.Context, number int) error {
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
			if err := c.Create(ctx, requestFor(node, requestName(node, number))); err != nil {
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

// requestName is the name of the object that requests a node in a round.
func requestName(node string, number int) string { return fmt.Sprintf("%s-%d", node, number+1) }

func requestFor(node, name string) *maintenancev1.NodeMaintenance {
	return &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
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

// readObjects reads the times of the objects from the audit log.
func (r *Result) readObjects(seen observed, rounds []round, nodes []string) error {
	var all objectTimes
	for number, round := range rounds {
		if err := all.read(seen.during(round), number, nodes, r.Size.AtOnce); err != nil {
			return err
		}
	}
	r.RequestToReady, r.ReleaseToUncordon = latency(all.toReady), latency(all.toUncordon)
	r.Objects = &ObjectTimes{
		ApplyToCordon: latency(all.toCordon), DrainedToStatus: latency(all.toStatus), StatusWrites: r.Requests.ByTarget["patch nodemaintenances/status"],
	}
	return nil
}

// objectTimes are the times of each object, in any order: from its creation to Ready and, if it finds a free slot, to the cordon; from its deletion to the
// uncordon; and from the end of the drain to Ready.
type objectTimes struct{ toReady, toCordon, toUncordon, toStatus []time.Duration }

// read adds the times of a round, in which that many nodes find a free slot.
func (t *objectTimes) read(seen observed, number int, nodes []string, slots int) error {
	type step struct {
		name  string
		times map[string]time.Time
		// ofNode says that the times are those of the node, not of its object.
		ofNode bool
	}
	const created, cordoned, drained, ready, deleted, uncordoned = 0, 1, 2, 3, 4, 5
	steps := []step{
		{"creation", firstTimes(seen.requests, func(e auditv1.Event) bool { return e.Verb == "create" && is(e, "nodemaintenances", "") }), false},
		{"cordon", seen.first(fleet.ActionCordon), true},
		{"end of the drain", firstTimes(seen.requests, func(e auditv1.Event) bool {
			return is(e, "nodes", "status") && hasCondition(e, string(kube.ConditionDrained))
		}), true},
		{"Ready", firstTimes(seen.requests, func(e auditv1.Event) bool {
			return is(e, "nodemaintenances", "status") && hasCondition(e, maintenancev1.ConditionReady)
		}), false},
		{"deletion", firstTimes(seen.requests, func(e auditv1.Event) bool { return e.Verb == "delete" && is(e, "nodemaintenances", "") }), false},
		{"uncordon", seen.first(fleet.ActionUncordon), true},
	}
	free := seen.at(fleet.ActionCordon)[min(slots, len(nodes))-1]
	for _, node := range nodes {
		times := make([]time.Time, len(steps))
		for i, step := range steps {
			name := node
			if !step.ofNode {
				name = requestName(node, number)
			}
			if times[i] = step.times[name]; times[i].IsZero() {
				return fmt.Errorf("the audit log of round %d does not have the %s of %s", number+1, step.name, name)
			}
		}
		took := func(from, to int) time.Duration { return times[to].Sub(times[from]) }
		t.toReady, t.toUncordon, t.toStatus = append(t.toReady, took(created, ready)), append(t.toUncordon, took(deleted, uncordoned)), append(t.toStatus, took(drained, ready))
		if !times[cordoned].After(free) {
			t.toCordon = append(t.toCordon, took(created, cordoned))
		}
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

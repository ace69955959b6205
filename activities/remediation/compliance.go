package remediation

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// ComplianceReader reads the compliance of clusters from objects in their namespaces on the hub. Names are the names of these objects, in the order
// of the items of a rollout.
type ComplianceReader struct {
	Hub   *kube.Cluster
	Kind  schema.GroupVersionKind
	Names []string
	// Judge returns the compliance of an object with the item of that index; nil: the object does not exist. An Outdated object counts as Compliant from
	// settles on, if its cluster is available.
	Judge func(item int, object *unstructured.Unstructured) (compliance policies.Compliance, settles time.Time)
	// Complete adds what follows from other objects to what was read of clusters; nil: nothing does. known is what was known of them; nil: nothing. It returns when
	// that may change without a change of an object; zero: it does not. Related are these objects.
	Complete func(ctx context.Context, known []policies.KnownCluster, seen []policies.ClusterCompliance) (again time.Time, err error)
	Related  []client.Object
	// Now is the clock; nil: that of the worker.
	Now func() time.Time
}

func (s ComplianceReader) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Await waits until the compliance of clusters with their current item differs from the known one, and returns it. After the first change it gathers
// more of them for a while. All such waits on a hub share one watch.
func (s ComplianceReader) Await(ctx context.Context, clusters []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	w := s.watch(clusters)
	for {
		if err := w.await(ctx, func() bool { return len(w.changes()) > 0 }); err != nil {
			return nil, activitykit.Explain(s.Hub, "watch the compliance of clusters", err)
		}
		gathering, cancel := context.WithTimeout(ctx, gather)
		err := w.await(gathering, func() bool { return len(w.changes()) == len(clusters) })
		gathered := err == nil || gathering.Err() != nil
		cancel()
		changes := w.changes()
		switch {
		case ctx.Err() != nil && !slices.ContainsFunc(changes, func(c policies.ClusterCompliance) bool { return c.Relapsed }):
			return nil, ctx.Err() // report a relapse anyway: the next watch cannot see it after it has ended
		case !gathered:
			return nil, activitykit.Explain(s.Hub, "watch the compliance of clusters", err)
		case len(changes) > 0:
			return changes, nil
		}
	}
}

// Read reads the compliance of clusters from the API server, since a watch may lag.
func (s ComplianceReader) Read(ctx context.Context, clusters []string) ([]policies.ClusterCompliance, error) {
	letters := make([][]byte, len(clusters))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, cluster := range clusters {
		letters[i] = make([]byte, len(s.Names))
		available := s.availability(cluster)
		for j := range s.Names {
			reads.Go(func() error {
				object, err := s.readObject(reading, cluster, j)
				if err == nil {
					letters[i][j], _, err = s.judge(reading, j, object, available)
				}
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, activitykit.Explain(s.Hub, "read the compliance of clusters", err)
	}
	read := []policies.ClusterCompliance{}
	for i, cluster := range clusters {
		read = append(read, policies.ClusterCompliance{Cluster: cluster, Status: policies.ComplianceStatus(letters[i])})
	}
	_, err := s.complete(ctx, nil, read)
	return read, activitykit.Explain(s.Hub, "read why policies are not bound to clusters", err)
}

func (s ComplianceReader) complete(ctx context.Context, known []policies.KnownCluster, seen []policies.ClusterCompliance) (again time.Time, err error) {
	if s.Complete == nil {
		return time.Time{}, nil
	}
	return s.Complete(ctx, known, seen)
}

// readObject reads the object of an item in the namespace of a cluster from the API server; nil: it does not exist.
func (s ComplianceReader) readObject(ctx context.Context, cluster string, item int) (*unstructured.Unstructured, error) {
	object := s.newObject()
	err := s.Hub.Client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: s.Names[item]}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// judge returns the compliance of an object that counts now, and when it may change without a change of the object; zero: it does not.
func (s ComplianceReader) judge(ctx context.Context, item int, object *unstructured.Unstructured, available func(context.Context) (bool, error)) (letter byte, again time.Time, err error) {
	compliance, settles := s.Judge(item, object)
	if compliance != policies.Outdated {
		return byte(compliance), time.Time{}, nil
	}
	now := s.now()
	if settles.After(now) {
		return byte(compliance), settles, nil
	}
	is, err := available(ctx)
	if err != nil || is {
		return byte(policies.Compliant), time.Time{}, err
	}
	return byte(compliance), now.Add(policies.Settle), nil
}

// availability returns a function that reads once whether a cluster is available.
func (s ComplianceReader) availability(cluster string) func(context.Context) (bool, error) {
	var mu sync.Mutex
	var known *bool
	return func(ctx context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			return *known, nil
		}
		registered := activitykit.ManagedCluster(cluster)
		err := client.IgnoreNotFound(s.Hub.Client.Get(ctx, client.ObjectKeyFromObject(registered), registered))
		if err == nil {
			known = new(policies.Available(registered))
		}
		return known != nil && *known, err
	}
}

func (s ComplianceReader) newObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(s.Kind)
	return object
}

// complianceWatch is one call of Await.
type complianceWatch struct {
	ComplianceReader
	clusters []policies.KnownCluster
	// read is what was last read of each cluster, and latest its last observed compliance. Relapsed stays set.
	read, latest map[string]policies.ClusterCompliance
	// missing are the objects that did not exist on the API server, by item.
	missing map[missingObject]bool
	// settles is when the compliance of a cluster, or of all clusters (""), may change without a change of an object. alarm goes off at the first of these times.
	settles map[string]time.Time
	alarm   *time.Timer
}

type missingObject struct {
	cluster string
	item    int
}

// watch starts with the known compliance. A missing object is not read again until the watch shows it.
func (s ComplianceReader) watch(clusters []policies.KnownCluster) *complianceWatch {
	w := &complianceWatch{
		ComplianceReader: s, clusters: clusters, read: map[string]policies.ClusterCompliance{}, latest: map[string]policies.ClusterCompliance{},
		missing: map[missingObject]bool{}, settles: map[string]time.Time{}, alarm: time.NewTimer(0),
	}
	w.alarm.Stop()
	for _, known := range clusters {
		for item := range known.Status {
			if none, _ := s.Judge(item, nil); known.Status.Of(item) == none {
				w.missing[missingObject{known.Cluster, item}] = true
			}
		}
	}
	return w
}

// await waits until the condition holds. It reads all clusters once, and then those that have changed: thousands may be in a batch, and all the time one of them
// reports something. After changes of Related it judges all again.
func (w *complianceWatch) await(ctx context.Context, until func() bool) error {
	var kinds []client.Object
	record := func(object client.Object) *kube.Recorded {
		recorded := kube.Record(object)
		kinds = append(kinds, recorded)
		return recorded
	}
	var related []*kube.Recorded
	for _, object := range w.Related {
		related = append(related, record(object))
	}
	objects := map[string][]*kube.Recorded{}
	for _, known := range w.clusters {
		object := w.newObject()
		object.SetNamespace(known.Cluster)
		objects[known.Cluster] = []*kube.Recorded{record(object), record(activitykit.ManagedCluster(known.Cluster))}
	}
	clear(w.read) // nothing was recorded before
	return activitykit.Waits{}.AwaitAlarm(ctx, w.alarm.C, w.Hub, kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		now := w.now()
		all := changed(related) || due(w.settles, "", now)
		var judged []policies.KnownCluster
		for _, known := range w.clusters {
			_, read := w.read[known.Cluster]
			if changed(objects[known.Cluster]) || !read || due(w.settles, known.Cluster, now) {
				if err := w.readCluster(ctx, known.Cluster); err != nil {
					return temporal.Observation{}, false, err
				}
			} else if !all {
				continue
			}
			judged = append(judged, known)
		}
		err := w.judgeAgain(ctx, judged)
		return temporal.Observation{}, err == nil && until(), err
	})
}

// changed reports whether an object has changed since the last call.
func changed(objects []*kube.Recorded) bool {
	any := false
	for _, recorded := range objects {
		any = len(recorded.Take()) > 0 || any
	}
	return any
}

// due reports whether the compliance of a cluster may have changed because time has passed.
func due(settles map[string]time.Time, cluster string, now time.Time) bool {
	at, pending := settles[cluster]
	return pending && !at.After(now)
}

// judgeAgain completes what was read of clusters, and sets the alarm.
func (w *complianceWatch) judgeAgain(ctx context.Context, clusters []policies.KnownCluster) error {
	if len(clusters) == len(w.clusters) {
		delete(w.settles, "")
	}
	seen := make([]policies.ClusterCompliance, len(clusters))
	for i, known := range clusters {
		seen[i] = w.read[known.Cluster]
	}
	again, err := w.complete(ctx, clusters, seen)
	if err != nil {
		return err
	}
	w.settle("", again)
	for i, known := range clusters {
		seen[i].Relapsed = w.latest[known.Cluster].Relapsed ||
			known.Status.Of(known.Policy) == policies.Compliant && seen[i].Status.Of(known.Policy) != policies.Compliant
		w.latest[known.Cluster] = seen[i]
	}
	w.alarm.Stop()
	if len(w.settles) > 0 {
		first := slices.MinFunc(slices.Collect(maps.Values(w.settles)), time.Time.Compare)
		w.alarm.Reset(first.Sub(w.now()))
	}
	return nil
}

// settle notes that the compliance of a cluster may change at a time; zero: it does not.
func (w *complianceWatch) settle(cluster string, at time.Time) {
	if first, pending := w.settles[cluster]; !at.IsZero() && (!pending || at.Before(first)) {
		w.settles[cluster] = at
	}
}

// readCluster reads the objects of a cluster.
func (w *complianceWatch) readCluster(ctx context.Context, cluster string) error {
	seen := policies.ClusterCompliance{Cluster: cluster}
	delete(w.settles, cluster)
	letters := make([]byte, len(w.Names))
	available := w.availability(cluster)
	for item := range w.Names {
		object, err := w.object(ctx, cluster, item)
		if err != nil {
			return err
		}
		letter, again, err := w.judge(ctx, item, object, available)
		if err != nil {
			return err
		}
		letters[item] = letter
		w.settle(cluster, again)
	}
	seen.Status = policies.ComplianceStatus(letters)
	var err error
	if seen.ClusterDeleted, err = activitykit.ManagedClusterGone(ctx, w.Hub, cluster); err == nil {
		w.read[cluster] = seen
	}
	return err
}

// object reads the object of an item from the cache; nil: it does not exist. If it is missing there, object reads it from the API server: the cache may lag,
// and a cluster whose policy is unbound fails.
func (w *complianceWatch) object(ctx context.Context, cluster string, item int) (*unstructured.Unstructured, error) {
	object, missing := w.newObject(), missingObject{cluster, item}
	err := w.Hub.Cache.Get(ctx, client.ObjectKey{Namespace: cluster, Name: w.Names[item]}, object)
	if err == nil {
		delete(w.missing, missing)
		return object, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if w.missing[missing] {
		return nil, nil
	}
	object, err = w.readObject(ctx, cluster, item)
	w.missing[missing] = err == nil && object == nil
	return object, err
}

// changes are the clusters whose compliance changed, or that relapsed meanwhile.
func (w *complianceWatch) changes() []policies.ClusterCompliance {
	var changes []policies.ClusterCompliance
	for _, known := range w.clusters {
		now := w.latest[known.Cluster]
		if now.Relapsed || now.ClusterDeleted || now.Displaced || now.Unselectable != known.Unselectable || policies.Changed(known.Status, now.Status, known.Policy) {
			changes = append(changes, now)
		}
	}
	return changes
}

package remediation

import (
	"context"
	"slices"
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
	// Judge returns the compliance of an object; nil: the object does not exist.
	Judge func(*unstructured.Unstructured) policies.Compliance
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
		for j, name := range s.Names {
			reads.Go(func() error {
				compliance, err := s.readObject(reading, client.ObjectKey{Namespace: cluster, Name: name})
				letters[i][j] = byte(compliance)
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
	return read, nil
}

// readObject reads one object from the API server.
func (s ComplianceReader) readObject(ctx context.Context, key client.ObjectKey) (policies.Compliance, error) {
	object := s.newObject()
	err := s.Hub.Client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return s.Judge(nil), nil
	}
	return s.Judge(object), err
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
	// latest is the last observed compliance of each cluster. Relapsed stays set.
	latest map[string]policies.ClusterCompliance
	// missing are the objects that did not exist on the API server.
	missing map[client.ObjectKey]bool
}

// watch starts with the known compliance. A missing object is not read again until the watch shows it.
func (s ComplianceReader) watch(clusters []policies.KnownCluster) *complianceWatch {
	w := &complianceWatch{ComplianceReader: s, clusters: clusters, latest: map[string]policies.ClusterCompliance{}, missing: map[client.ObjectKey]bool{}}
	for _, known := range clusters {
		for i := range known.Status {
			if known.Status.Of(i) == s.Judge(nil) {
				w.missing[client.ObjectKey{Namespace: known.Cluster, Name: s.Names[i]}] = true
			}
		}
	}
	return w
}

func (w *complianceWatch) await(ctx context.Context, until func() bool) error {
	return activitykit.Waits{}.Await(ctx, w.Hub, []client.Object{w.newObject(), activitykit.ManagedCluster("")}, func(ctx context.Context) (temporal.Observation, bool, error) {
		err := w.readAll(ctx)
		return temporal.Observation{}, err == nil && until(), err
	})
}

func (w *complianceWatch) readAll(ctx context.Context) error {
	for _, known := range w.clusters {
		letters := make([]byte, len(w.Names))
		for i, name := range w.Names {
			compliance, err := w.compliance(ctx, client.ObjectKey{Namespace: known.Cluster, Name: name})
			if err != nil {
				return err
			}
			letters[i] = byte(compliance)
		}
		gone, err := activitykit.ManagedClusterGone(ctx, w.Hub, known.Cluster)
		if err != nil {
			return err
		}
		seen := policies.ClusterCompliance{Cluster: known.Cluster, Status: policies.ComplianceStatus(letters), ClusterDeleted: gone}
		seen.Relapsed = w.latest[known.Cluster].Relapsed ||
			known.Status.Of(known.Policy) == policies.Compliant && seen.Status.Of(known.Policy) != policies.Compliant
		w.latest[known.Cluster] = seen
	}
	return nil
}

// compliance reads an object from the cache. If it is missing there, compliance reads it from the API server: the cache may lag, and a cluster whose
// policy is unbound fails.
func (w *complianceWatch) compliance(ctx context.Context, key client.ObjectKey) (policies.Compliance, error) {
	object := w.newObject()
	err := w.Hub.Cache.Get(ctx, key, object)
	if err == nil {
		delete(w.missing, key)
		return w.Judge(object), nil
	}
	if !apierrors.IsNotFound(err) {
		return policies.Unknown, err
	}
	if w.missing[key] {
		return w.Judge(nil), nil
	}
	compliance, err := w.readObject(ctx, key)
	if err == nil && compliance == w.Judge(nil) {
		w.missing[key] = true
	}
	return compliance, err
}

// changes are the clusters whose compliance changed, or that relapsed meanwhile.
func (w *complianceWatch) changes() []policies.ClusterCompliance {
	var changes []policies.ClusterCompliance
	for _, known := range w.clusters {
		now := w.latest[known.Cluster]
		if now.Relapsed || now.ClusterDeleted || policies.Changed(known.Status, now.Status, known.Policy) {
			changes = append(changes, now)
		}
	}
	return changes
}

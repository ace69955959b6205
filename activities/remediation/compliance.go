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

// ComplianceReader reads the compliance of clusters from objects in their namespaces on the hub: one of each name, in the order of a rollout's items.
type ComplianceReader struct {
	Hub   *kube.Cluster
	Kind  schema.GroupVersionKind
	Names []string
	// Judge returns the compliance that an object shows; nil is one that does not exist.
	Judge func(*unstructured.Unstructured) policies.Compliance
}

// Await waits until the compliance of some clusters with their current item is not the known one, and returns it. Changes are gathered for a while
// from the first on. All such waits on the hub share one watch.
func (s ComplianceReader) Await(ctx context.Context, clusters []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	l := s.watch(clusters)
	for {
		if err := l.await(ctx, func() bool { return len(l.changes()) > 0 }); err != nil {
			return nil, activitykit.Explain(s.Hub, "watch the compliance of clusters", err)
		}
		gathering, cancel := context.WithTimeout(ctx, gather)
		err := l.await(gathering, func() bool { return len(l.changes()) == len(clusters) })
		gathered := err == nil || gathering.Err() != nil
		cancel()
		news := l.changes()
		switch {
		case ctx.Err() != nil && !slices.ContainsFunc(news, func(c policies.ClusterCompliance) bool { return c.Relapsed }):
			return nil, ctx.Err() // report a relapse anyway: the next watch cannot see one that has ended
		case !gathered:
			return nil, activitykit.Explain(s.Hub, "watch the compliance of clusters", err)
		case len(news) > 0:
			return news, nil
		}
	}
}

// Read reads the compliance of clusters from the API server: a watch may be behind.
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

// complianceWatch is one attempt at await.
type complianceWatch struct {
	ComplianceReader
	clusters []policies.KnownCluster
	// latest is the compliance of each cluster at the last look. Relapsed stays set.
	latest map[string]policies.ClusterCompliance
	// missing are objects that did not exist on the API server when they were read last.
	missing map[client.ObjectKey]bool
}

// watch begins with what is known: an object that did not exist need not be read again, the watch shows when it does.
func (s ComplianceReader) watch(clusters []policies.KnownCluster) *complianceWatch {
	l := &complianceWatch{ComplianceReader: s, clusters: clusters, latest: map[string]policies.ClusterCompliance{}, missing: map[client.ObjectKey]bool{}}
	for _, known := range clusters {
		for i := range known.Status {
			if known.Status.Of(i) == s.Judge(nil) {
				l.missing[client.ObjectKey{Namespace: known.Cluster, Name: s.Names[i]}] = true
			}
		}
	}
	return l
}

func (l *complianceWatch) await(ctx context.Context, until func() bool) error {
	return activitykit.Waits{}.Await(ctx, l.Hub, []client.Object{l.newObject(), activitykit.ManagedCluster("")}, func(ctx context.Context) (temporal.Observation, bool, error) {
		err := l.readAll(ctx)
		return temporal.Observation{}, err == nil && until(), err
	})
}

func (l *complianceWatch) readAll(ctx context.Context) error {
	for _, known := range l.clusters {
		letters := make([]byte, len(l.Names))
		for i, name := range l.Names {
			compliance, err := l.compliance(ctx, client.ObjectKey{Namespace: known.Cluster, Name: name})
			if err != nil {
				return err
			}
			letters[i] = byte(compliance)
		}
		gone, err := activitykit.ManagedClusterGone(ctx, l.Hub, known.Cluster)
		if err != nil {
			return err
		}
		seen := policies.ClusterCompliance{Cluster: known.Cluster, Status: policies.ComplianceStatus(letters), ClusterDeleted: gone}
		seen.Relapsed = l.latest[known.Cluster].Relapsed ||
			known.Status.Of(known.Policy) == policies.Compliant && seen.Status.Of(known.Policy) != policies.Compliant
		l.latest[known.Cluster] = seen
	}
	return nil
}

// compliance reads an object from the cache, or from the API server if it is missing there: the cache may be behind, and a cluster that is no longer bound
// has failed.
func (l *complianceWatch) compliance(ctx context.Context, key client.ObjectKey) (policies.Compliance, error) {
	object := l.newObject()
	err := l.Hub.Cache.Get(ctx, key, object)
	if err == nil {
		delete(l.missing, key)
		return l.Judge(object), nil
	}
	if !apierrors.IsNotFound(err) {
		return policies.Unknown, err
	}
	if l.missing[key] {
		return l.Judge(nil), nil
	}
	compliance, err := l.readObject(ctx, key)
	if err == nil && compliance == l.Judge(nil) {
		l.missing[key] = true
	}
	return compliance, err
}

// changes are the clusters whose compliance changed, if only for a moment.
func (l *complianceWatch) changes() []policies.ClusterCompliance {
	var news []policies.ClusterCompliance
	for _, known := range l.clusters {
		now := l.latest[known.Cluster]
		if now.Relapsed || now.ClusterDeleted || policies.Changed(known.Status, now.Status, known.Policy) {
			news = append(news, now)
		}
	}
	return news
}

package activities

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// standings says how clusters stand, by objects in their namespaces on the hub: one of each name, in the order of a rollout's items.
type standings struct {
	hub   *kube.Cluster
	kind  schema.GroupVersionKind
	names []string
	// judge reads an object, nil for one that does not exist.
	judge func(*unstructured.Unstructured) policies.Compliance
}

// await waits until some of the clusters stand in another way than is known to the item whose turn it is, and says how. Changes are gathered for a while
// from the first on. All who wait on the hub share one watch.
func (s standings) await(ctx context.Context, clusters []policies.KnownCluster, gather time.Duration) ([]policies.ClusterStanding, error) {
	l := s.lookout(clusters)
	for {
		if err := l.await(ctx, func() bool { return len(l.news()) > 0 }); err != nil {
			return nil, explain(s.hub, "watch how clusters stand", err)
		}
		gathering, cancel := context.WithTimeout(ctx, gather)
		err := l.await(gathering, func() bool { return len(l.news()) == len(clusters) })
		gathered := err == nil || gathering.Err() != nil
		cancel()
		news := l.news()
		switch {
		case ctx.Err() != nil && !slices.ContainsFunc(news, func(c policies.ClusterStanding) bool { return c.Dipped }):
			return nil, ctx.Err() // a relapse that is over is told all the same: whoever watches next cannot see it
		case !gathered:
			return nil, explain(s.hub, "watch how clusters stand", err)
		case len(news) > 0:
			return news, nil
		}
	}
}

// read asks the API server how clusters stand: what a watch has shown may be behind.
func (s standings) read(ctx context.Context, clusters []string) ([]policies.ClusterStanding, error) {
	letters := make([][]byte, len(clusters))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(requestsAtOnce)
	for i, cluster := range clusters {
		letters[i] = make([]byte, len(s.names))
		for j, name := range s.names {
			reads.Go(func() error {
				compliance, err := s.ask(reading, client.ObjectKey{Namespace: cluster, Name: name})
				letters[i][j] = byte(compliance)
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, explain(s.hub, "look how clusters stand", err)
	}
	read := []policies.ClusterStanding{}
	for i, cluster := range clusters {
		read = append(read, policies.ClusterStanding{Cluster: cluster, Standing: policies.Standing(letters[i])})
	}
	return read, nil
}

// requestsAtOnce is how many objects are asked for, or written, at the same time.
const requestsAtOnce = 16

// ask reads one object from the API server.
func (s standings) ask(ctx context.Context, key client.ObjectKey) (policies.Compliance, error) {
	object := s.empty()
	err := s.hub.Client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return s.judge(nil), nil
	}
	return s.judge(object), err
}

func (s standings) empty() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(s.kind)
	return object
}

// standingLookout is one attempt at await.
type standingLookout struct {
	standings
	clusters []policies.KnownCluster
	// now is how each cluster stood at the last look. Dipped stays.
	now map[string]policies.ClusterStanding
	// gone are objects that do not exist, as the API server has said, now or when it was looked at last.
	gone map[client.ObjectKey]bool
}

// lookout begins with what is known: what did not exist then need not be asked for once more, the watch shows when it does.
func (s standings) lookout(clusters []policies.KnownCluster) *standingLookout {
	l := &standingLookout{standings: s, clusters: clusters, now: map[string]policies.ClusterStanding{}, gone: map[client.ObjectKey]bool{}}
	for _, known := range clusters {
		for i := range known.Standing {
			if known.Standing.Of(i) == s.judge(nil) {
				l.gone[client.ObjectKey{Namespace: known.Cluster, Name: s.names[i]}] = true
			}
		}
	}
	return l
}

func (l *standingLookout) await(ctx context.Context, until func() bool) error {
	return Waits{}.await(ctx, l.hub, []client.Object{l.empty(), registeredCluster("")}, func(ctx context.Context) (temporal.Observation, bool, error) {
		err := l.look(ctx)
		return temporal.Observation{}, err == nil && until(), err
	})
}

func (l *standingLookout) look(ctx context.Context) error {
	for _, known := range l.clusters {
		letters := make([]byte, len(l.names))
		for i, name := range l.names {
			compliance, err := l.compliance(ctx, client.ObjectKey{Namespace: known.Cluster, Name: name})
			if err != nil {
				return err
			}
			letters[i] = byte(compliance)
		}
		gone, err := vanished(ctx, l.hub, known.Cluster)
		if err != nil {
			return err
		}
		seen := policies.ClusterStanding{Cluster: known.Cluster, Standing: policies.Standing(letters), Vanished: gone}
		seen.Dipped = l.now[known.Cluster].Dipped ||
			known.Standing.Of(known.Policy) == policies.Compliant && seen.Standing.Of(known.Policy) != policies.Compliant
		l.now[known.Cluster] = seen
	}
	return nil
}

// compliance reads an object from the cache. One that is missing there is asked for: the cache may not have it yet, and a cluster that is not bound
// any more has failed.
func (l *standingLookout) compliance(ctx context.Context, key client.ObjectKey) (policies.Compliance, error) {
	object := l.empty()
	err := l.hub.Cache.Get(ctx, key, object)
	if err == nil {
		delete(l.gone, key)
		return l.judge(object), nil
	}
	if !apierrors.IsNotFound(err) {
		return policies.Unknown, err
	}
	if l.gone[key] {
		return l.judge(nil), nil
	}
	compliance, err := l.ask(ctx, key)
	if err == nil && compliance == l.judge(nil) {
		l.gone[key] = true
	}
	return compliance, err
}

// news are the clusters that stand in another way than was known, or did for a moment.
func (l *standingLookout) news() []policies.ClusterStanding {
	var news []policies.ClusterStanding
	for _, known := range l.clusters {
		now := l.now[known.Cluster]
		if now.Dipped || now.Vanished || policies.News(known.Standing, now.Standing, known.Policy) {
			news = append(news, now)
		}
	}
	return news
}

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/temporal"
)

// discovered are the clusters that objects on the hub name, in addition to those of the source.
type discovered struct {
	mu      sync.Mutex
	sources []*discoveredSource
	// clusters that are used, by name, and why other names are not.
	clusters map[string]access
	refused  map[string]refusal
	// changed is closed at the next change.
	changed chan struct{}
}

// refusal is why objects that name a cluster are not used.
type refusal struct {
	// reasons are those of the first objects, and count is the number of all.
	reasons string
	count   int
	// expected: the hub has no credentials for the cluster, which may be on purpose.
	expected bool
}

// maxReasons limits the reasons for one name: a person who may write Secrets may write many.
const maxReasons = 3

func (r refusal) add(cluster discovery.Cluster) refusal {
	r.expected = cluster.NoCredentials && (r.count == 0 || r.expected)
	if r.count++; r.count <= maxReasons {
		r.reasons += cluster.From + " is not used: " + cluster.Problem + "; "
	}
	return r
}

func (r refusal) reason() string {
	if r.count > maxReasons {
		return fmt.Sprintf("%s%d more objects of this name are not used; ", r.reasons, r.count-maxReasons)
	}
	return r.reasons
}

// discoveredSource is what one source has given.
type discoveredSource struct {
	discovery.Source
	read bool
	// failure is why it could not be read; nil after a read.
	failure error
	found   []discovery.Cluster
}

func newDiscovered(sources []discovery.Source) *discovered {
	d := &discovered{changed: make(chan struct{})}
	for _, source := range sources {
		d.sources = append(d.sources, &discoveredSource{Source: source})
	}
	return d
}

// Discover watches the objects on the hub that name clusters, until ctx is done: those that come, change and go. Clusters stay known while the hub does not
// answer.
func (c *Clusters) Discover(ctx context.Context) {
	var running sync.WaitGroup
	for _, source := range c.discovered.sources {
		running.Go(func() { c.followSource(ctx, source) })
	}
	running.Wait()
}

// followSource watches a source until ctx is done, and retries while that fails. It logs each reason once.
func (c *Clusters) followSource(ctx context.Context, source *discoveredSource) {
	var failingSince time.Time
	reason := ""
	for {
		began := time.Now()
		err := c.watchSource(ctx, source)
		if ctx.Err() != nil {
			return
		}
		if c.discovered.fail(source, err) {
			failingSince, reason = began, ""
		}
		if err.Error() != reason {
			reason = err.Error()
			c.options.Log.Warn("cannot watch the clusters of the hub, retrying", "source", source.Name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(forbiddenPause(time.Since(failingSince))):
		}
	}
}

// watchSource keeps the clusters of a source up to date until the hub fails, or its credentials change.
func (c *Clusters) watchSource(ctx context.Context, source *discoveredSource) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hub, err := c.Hub(ctx)
	if err != nil {
		return err
	}
	var kinds []client.Object
	var reads []*cached
	for _, selection := range source.Reads {
		read := &cached{Object: selection.Object, selection: selection}
		kinds, reads = append(kinds, read), append(reads, read)
	}
	return hub.Await(ctx, kinds, func(context.Context) (bool, error) {
		var read [][]client.Object
		for _, of := range reads {
			read = append(read, of.list())
		}
		c.apply(source, source.Find(read))
		return false, nil
	})
}

// apply takes over what a source gives now. Clusters whose credentials have changed or are gone are no longer used with the former ones.
func (c *Clusters) apply(source *discoveredSource, found []discovery.Cluster) {
	d := c.discovered
	d.mu.Lock()
	source.read, source.failure, source.found = true, nil, found
	var all []discovery.Cluster
	for _, source := range d.sources {
		all = append(all, source.found...)
	}
	clusters, refused := map[string]access{}, map[string]refusal{}
	for _, cluster := range discovery.Merge(c.source.names, all) {
		if cluster.Config != nil {
			now := access{config: func() (*rest.Config, error) { return cluster.Config, nil }, ended: make(chan struct{})}
			if was, known := d.clusters[cluster.Name]; known && was.same(now) {
				now = was
			}
			clusters[cluster.Name] = now
			continue
		}
		refused[cluster.Name] = refused[cluster.Name].add(cluster)
	}
	former, formerlyRefused := d.clusters, d.refused
	d.clusters, d.refused = clusters, refused
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()

	log := c.options.Log.With("source", source.Name)
	for name, was := range former {
		now, still := clusters[name]
		if still && was.ended == now.ended {
			continue
		}
		if still {
			c.reopen(name, was.ended)
			log.Info("the credentials of a cluster have changed", "cluster", name)
		} else {
			c.unclaim(name, was.ended)
			log.Warn("a cluster of the hub is gone", "cluster", name)
		}
	}
	for name := range clusters {
		if _, known := former[name]; !known {
			log.Info("found a cluster on the hub", "cluster", name)
		}
	}
	for name, why := range refused {
		if !why.expected && why != formerlyRefused[name] {
			log.Warn("a cluster of the hub is not used", "cluster", name, "problem", strings.TrimSuffix(why.reason(), "; "))
		}
	}
}

// same reports whether two ways to a cluster have the same credentials. Those of objects on the hub do not fail.
func (a access) same(other access) bool {
	mine, _ := a.config()
	theirs, _ := other.config()
	return sameConfig(mine, theirs)
}

// fail records why a source cannot be watched, and reports whether it had worked before. What it gave stays.
func (d *discovered) fail(source *discoveredSource, err error) (worked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	worked = source.failure == nil
	source.failure = err
	return worked
}

// unread is why not all clusters of the hub are known; nil: all are.
func (d *discovered) unread() error {
	for _, source := range d.sources {
		switch {
		case source.failure != nil:
			return fmt.Errorf("%s cannot be read: %w", source.Name, source.failure)
		case !source.read:
			return fmt.Errorf("%s are not read yet", source.Name)
		}
	}
	return nil
}

// access returns how to reach a cluster. Errors: ClusterUnknown, or ClusterUnreachable while the hub may have it.
func (c *Clusters) access(name string) (access, error) {
	if found, ok := c.source.clusters[name]; ok {
		return found, nil
	}
	d := c.discovered
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.clusters[name]; ok {
		return found, nil
	}
	if err := d.unread(); err != nil {
		return access{}, temporal.Error(temporal.ErrClusterUnreachable, fmt.Sprintf("cluster %s is not known yet: %v", name, err), err)
	}
	return access{}, temporal.Error(temporal.ErrClusterUnknown, fmt.Sprintf("cluster %s is not known; %s%s", name, d.refused[name].reason(), c.source.hint), nil)
}

// clusterCredentials returns the access to a cluster. Errors: ClusterUnknown, ClusterUnreachable.
func (c *Clusters) clusterCredentials(name string) (credentials, error) {
	known, err := c.access(name)
	switch {
	case err != nil:
		return credentials{}, err
	case known.config == nil:
		return credentials{}, temporal.Error(temporal.ErrClusterUnknown,
			fmt.Sprintf("cluster %s is served by a worker inside it, this one has no credentials for it", name), nil)
	}
	return known.read("cluster " + name)
}

// Reachable returns the names of the clusters whose credentials this process has now, in order, and a channel that is closed when they may have changed.
func (c *Clusters) Reachable() (names []string, changed <-chan struct{}) {
	d := c.discovered
	d.mu.Lock()
	defer d.mu.Unlock()
	names = slices.AppendSeq(c.source.Reachable(), maps.Keys(d.clusters))
	slices.Sort(names)
	return names, d.changed
}

// FoundOnHub is what one source on the hub gives.
type FoundOnHub struct {
	Source   string
	Clusters []discovery.Cluster
	// Err is why the source could not be read.
	Err error
}

// FindOnHub reads once, with the credentials of a user, what Discover watches.
func (s Source) FindOnHub(ctx context.Context, hub *rest.Config) ([]FoundOnHub, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	api, err := client.New(hub, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	var found []FoundOnHub
	var all []discovery.Cluster
	for _, source := range s.discovery.Sources() {
		of := FoundOnHub{Source: source.Name}
		of.Clusters, of.Err = findOnce(ctx, api, source)
		found, all = append(found, of), append(all, of.Clusters...)
	}
	merged := discovery.Merge(s.names, all)
	for i := range found {
		count := len(found[i].Clusters)
		found[i].Clusters, merged = merged[:count], merged[count:]
	}
	return found, nil
}

func findOnce(ctx context.Context, api client.Client, source discovery.Source) ([]discovery.Cluster, error) {
	var read [][]client.Object
	for _, selection := range source.Reads {
		list, _, err := listOf(selection.Object, false, api.Scheme())
		if err != nil {
			return nil, err
		}
		options := selection.Options
		options.Namespace = selection.Object.GetNamespace()
		if err := api.List(ctx, list, &options); err != nil {
			return nil, err
		}
		var objects []client.Object
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			objects = append(objects, item.(client.Object))
			return nil
		}); err != nil {
			return nil, err
		}
		read = append(read, objects)
	}
	return source.Find(read), nil
}

// Package kube accesses clusters, with one client set, one informer cache and one rate limiter each, opened on first use and dropped when idle. It
// also manages the marks by which Drydock recognises its own changes.
package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/transport"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/temporal"
)

// Options of the access to clusters. The zero value has every default.
type Options struct {
	// QPS and Burst limit the requests to one cluster. The defaults, 300 and 600, are enough for 50 parallel drains that each evict ten pods and
	// retry refused evictions.
	QPS   float32
	Burst int
	// IdleTimeout is how long an unused cluster stays open, and an unused informer of an open one; 10 minutes by default.
	IdleTimeout time.Duration
	// SafetyInterval is how often a wait checks without a change, and checks the API server; 30 s by default.
	SafetyInterval time.Duration
	// MaintenanceConfig is the MaintenanceOperatorConfig that counts in each cluster; without a name, the only one of the namespace. The default is
	// namespace drydock-system.
	MaintenanceConfig types.NamespacedName
	// UserAgent is the name of this program in the audit logs of API servers; "drydock" by default.
	UserAgent string
	// Transport wraps the transport of all requests; nil does not.
	Transport transport.WrapperFunc
	// Log receives errors in the background; nil discards them.
	Log *slog.Logger
}

// ParseMaintenanceConfig parses NAMESPACE, or NAMESPACE/NAME, of a MaintenanceOperatorConfig.
func ParseMaintenanceConfig(text string) (types.NamespacedName, error) {
	namespace, name, named := strings.Cut(text, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || named && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q: must be NAMESPACE or NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func (o Options) withDefaults() Options {
	if o.QPS == 0 {
		o.QPS = 300
	}
	if o.Burst == 0 {
		o.Burst = 600
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.SafetyInterval == 0 {
		o.SafetyInterval = 30 * time.Second
	}
	if o.MaintenanceConfig.Namespace == "" {
		o.MaintenanceConfig.Namespace = SystemNamespace
	}
	if o.UserAgent == "" {
		o.UserAgent = FieldManager
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// openTimeout limits the requests that open a cluster. It is shorter than the timeout of a short activity, so that the error names an unreachable
// cluster.
const openTimeout = 8 * time.Second

// sourceInterval is how often the source is read again while an API server cannot be reached.
const sourceInterval = time.Second

// hubName is the name of the hub in errors. The hub may also be a cluster of a rollout, under the name of its ManagedCluster.
const hubName = "hub"

// Clusters opens clusters on first use and drops those that are idle. It is safe for concurrent use.
type Clusters struct {
	source  Source
	options Options

	mu   sync.Mutex
	open map[key]*entry
	// names of the clusters, by the UID of their namespace kube-system.
	names  map[types.UID]string
	closed bool

	discovered *discovered
}

// key distinguishes the hub from a cluster named "hub".
type key struct {
	name string
	hub  bool
}

// entry is a cluster that is open or being opened.
type entry struct {
	// opened is closed when cluster or err is set.
	opened  chan struct{}
	cluster *Cluster
	err     error

	uses int
	idle *time.Timer
}

// New returns access to the clusters of a source. It contacts no server.
func New(source Source, options Options) *Clusters {
	options = options.withDefaults()
	// controller-runtime has one global logger for its caches, and writes to standard error without one.
	ctrllog.SetLogger(logr.FromSlogHandler(options.Log.Handler()))
	return &Clusters{
		source: source, options: options, open: map[key]*entry{}, names: map[types.UID]string{}, discovered: newDiscovered(source.discovery.Sources()),
	}
}

// Cluster returns a cluster by name and opens it if necessary. It stays open at least until ctx is done. Errors: ClusterUnknown, ClusterUnreachable,
// and InvalidSpec when the cluster is known under another name.
func (c *Clusters) Cluster(ctx context.Context, name string) (*Cluster, error) {
	return c.use(ctx, key{name: name})
}

// Hub returns the hub, like Cluster. Errors: NoHub, ClusterUnreachable.
func (c *Clusters) Hub(ctx context.Context) (*Cluster, error) {
	return c.use(ctx, key{name: hubName, hub: true})
}

// ClusterOrHub returns a cluster, or the hub if the name is empty. Errors are those of Cluster and Hub.
func (c *Clusters) ClusterOrHub(ctx context.Context, name string) (*Cluster, error) {
	if name == "" {
		return c.Hub(ctx)
	}
	return c.Cluster(ctx, name)
}

// Knows reports whether there is a cluster with that name, and whether an activity-only worker inside runs its activities. Errors: ClusterUnreachable until
// the clusters on the hub have been read.
func (c *Clusters) Knows(name string) (known, inClusterWorker bool, err error) {
	found, err := c.access(name)
	if temporal.ErrorType(err) == temporal.ErrClusterUnknown {
		return false, false, nil
	}
	return err == nil, found.inClusterWorker, err
}

// Reaches reports whether this process has credentials for a cluster. Errors: as Knows.
func (c *Clusters) Reaches(name string) (bool, error) {
	found, err := c.access(name)
	if temporal.ErrorType(err) == temporal.ErrClusterUnknown {
		return false, nil
	}
	return found.config != nil, err
}

// HasHub reports whether this process has a hub.
func (c *Clusters) HasHub() bool { return c.source.HasHub() }

// Allowed is what the requests of users may make this process do.
func (c *Clusters) Allowed() allow.List { return c.source.allowed }

// Close drops every cluster. None can be used afterwards.
func (c *Clusters) Close() {
	c.mu.Lock()
	c.closed = true
	entries := c.open
	c.open = map[key]*entry{}
	c.mu.Unlock()
	for _, e := range entries {
		e.close()
	}
}

func (c *Clusters) use(ctx context.Context, k key) (*Cluster, error) {
	e, err := c.acquire(k)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.opened:
	case <-ctx.Done():
		c.release(k, e)
		return nil, ctx.Err()
	}
	if e.err != nil {
		return nil, e.err
	}
	context.AfterFunc(ctx, func() { c.release(k, e) })
	return e.cluster, nil
}

// acquire adds a user of a cluster, and opens it if it is closed.
func (c *Clusters) acquire(k key) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, temporal.Error(temporal.ErrClusterUnreachable, "the access to clusters is closed: the worker is shutting down", nil)
	}
	e, ok := c.open[k]
	if !ok {
		e = &entry{opened: make(chan struct{})}
		c.open[k] = e
		// Not in the caller's goroutine and context: other callers wait for the same cluster.
		go c.openEntry(k, e)
	}
	e.uses++
	if e.idle != nil {
		e.idle.Stop()
	}
	return e, nil
}

func (c *Clusters) release(k key, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.uses--
	switch {
	case e.uses > 0:
	case c.open[k] == e:
		e.idle = time.AfterFunc(c.options.IdleTimeout, func() { c.drop(k, e) })
	default: // dropped while in use
		go e.close()
	}
}

// drop removes a cluster, so that the next use opens it again. It is closed after its last use ends.
func (c *Clusters) drop(k key, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[k] == e {
		c.forget(k)
	}
}

// forget removes a cluster if it is open. The caller has the lock.
func (c *Clusters) forget(k key) {
	e, ok := c.open[k]
	delete(c.open, k)
	if ok && e.uses == 0 {
		go e.close()
	}
}

// reopen ends the use of former credentials, and has the next use open the cluster again. What its name has claimed stays: another cluster must not take it
// meanwhile.
func (c *Clusters) reopen(name string, former chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(former)
	c.forget(key{name: name})
}

// unclaim ends the use of former credentials, gives up what the name has claimed, and has the next use open its cluster again.
func (c *Clusters) unclaim(name string, former chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(former)
	c.unclaimLocked(name)
}

func (c *Clusters) unclaimLocked(name string) {
	c.forget(key{name: name})
	maps.DeleteFunc(c.names, func(_ types.UID, theirs string) bool { return theirs == name })
}

func (e *entry) close() {
	<-e.opened
	if e.cluster != nil {
		e.cluster.close()
	}
}

// openEntry opens a cluster. A failure goes to the current waiters; the next use tries again.
func (c *Clusters) openEntry(k key, e *entry) {
	defer close(e.opened)
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	e.cluster, e.err = c.openCluster(ctx, k, func() { c.drop(k, e) })
	if e.err != nil {
		c.drop(k, e)
	}
}

// openCluster opens a cluster. It calls outdated when the source may have newer credentials: the API server rejects the current ones or cannot be
// reached with them, and the source has others now.
func (c *Clusters) openCluster(ctx context.Context, k key, outdated func()) (*Cluster, error) {
	found, err := c.credentials(k)
	if err != nil {
		return nil, err
	}
	scheme, err := sharedScheme()
	if err != nil {
		return nil, err
	}
	var looks rate.Sometimes
	looks.Interval = sourceInterval
	failed := func() {
		looks.Do(func() {
			if now, err := c.credentials(k); err == nil && !found.same(now) {
				outdated()
			}
		})
	}
	cluster, err := newCluster(k.name, found.watched(outdated, failed), scheme, c.options)
	if err != nil {
		return nil, fmt.Errorf("prepare the access to cluster %s: %w", k.name, err)
	}
	cluster.Hub, cluster.Allowed = k.hub, c.source.allowed
	uid, err := cluster.uid(ctx)
	if err == nil && !k.hub {
		err = c.claim(uid, k.name, found.ended)
	}
	if err != nil {
		cluster.close()
		return nil, err
	}
	return cluster, nil
}

func (c *Clusters) credentials(k key) (credentials, error) {
	if k.hub {
		return c.source.hubCredentials()
	}
	return c.clusterCredentials(k.name)
}

// claim refuses a second name for a cluster, because its budgets would be spent twice. The hub is exempt: it has no budgets under that name. A cluster of the
// source takes its claim from one of the hub, which could pose as it.
func (c *Clusters) claim(uid types.UID, name string, ended <-chan struct{}) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-ended:
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster "+name+": "+errEnded.Error(), errEnded)
	default:
	}
	maps.DeleteFunc(c.names, func(_ types.UID, theirs string) bool { return theirs == name }) // it may have named another cluster before
	if other, ok := c.names[uid]; ok && other != name && c.source.names(name) && !c.source.names(other) {
		c.unclaimLocked(other)
	}
	if other, ok := c.names[uid]; ok && other != name {
		kind := temporal.ErrInvalidSpec
		if !c.source.names(name) { // objects on the hub change: work waits
			kind = temporal.ErrClusterUnreachable
		}
		return temporal.Error(kind, fmt.Sprintf("clusters %s and %s are the same: namespace kube-system has the UID %s in both; keep one of the names",
			other, name, uid), errors.New("two names for one cluster"))
	}
	c.names[uid] = name
	return nil
}

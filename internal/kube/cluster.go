package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/temporal"
)

// FieldManager is Drydock's name in the managed fields of objects.
const FieldManager = "drydock"

// Cluster is the access to one cluster. All its users share one connection pool and one rate limiter.
type Cluster struct {
	// Name in the source; "hub" for the hub.
	Name string
	// Hub: it was opened as the hub. A cluster may be named "hub", too.
	Hub    bool
	Config *rest.Config
	// Client reads from and writes to the API server, as field manager "drydock".
	Client client.Client
	// LockController writes workload locks where Drydock manages them for an application: with credentials and a rate limit of its own. Without such
	// credentials it is Client.
	LockController client.Client
	// Cache reads from informers. A kind is watched from its first use until IdleTimeout after the last one; if that fails, reads return the reason instead of blocking. Pods are indexed
	// by spec.nodeName. Of some kinds it keeps only the fields in parts.
	Cache     cache.Cache
	Clientset *Clientset
	Evictions Evictions
	// MaintenanceConfig is the MaintenanceOperatorConfig that counts; without a name, the only one of the namespace.
	MaintenanceConfig types.NamespacedName

	// IdleTimeout is how long what nothing uses stays: informers, and controllers of kinds without objects.
	IdleTimeout time.Duration

	// Allowed is what the requests of users may make this process do.
	Allowed allow.List

	mapper         meta.RESTMapper
	safetyInterval time.Duration
	probe          probe
	feeds          feeds
	nodeWrites     nodeWrites
	stop           func()
	// ended is closed when the credentials must no longer be used.
	ended <-chan struct{}
}

// newCluster creates the clients and starts the empty cache. It contacts no server.
func newCluster(name string, found credentials, scheme *runtime.Scheme, options Options) (*Cluster, error) {
	config := limited(found.config, options)
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: name, Config: config, MaintenanceConfig: options.MaintenanceConfig, IdleTimeout: options.IdleTimeout, safetyInterval: options.SafetyInterval, ended: found.ended}
	if c.mapper, err = newMapper(config, connections); err != nil {
		return nil, err
	}
	if c.Client, err = newClient(config, client.Options{HTTPClient: connections, Scheme: scheme, Mapper: c.mapper}); err != nil {
		return nil, err
	}
	c.LockController = c.Client
	if found.lockController != nil {
		own := limited(found.lockController, options)
		if c.LockController, err = newClient(own, client.Options{Scheme: scheme, Mapper: c.mapper}); err != nil {
			return nil, err
		}
	}
	builtIn := rest.CopyConfig(config)
	builtIn.ContentType = runtime.ContentTypeProtobuf
	builtIn.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.Clientset, err = newClientset(builtIn, connections); err != nil {
		return nil, err
	}
	if c.Evictions, err = newEvictions(builtIn, connections); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	informers := newInformers(ctx, c, config, connections, scheme, options)
	c.Cache = informers
	c.stop = func() {
		cancel()
		informers.wait()
		connections.CloseIdleConnections()
	}
	return c, nil
}

// limited returns config with one rate limit for all users, and with the transport of the options.
func limited(config *rest.Config, options Options) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = options.UserAgent
	if options.Transport != nil {
		config.Wrap(options.Transport)
	}
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(options.QPS, options.Burst)
	return config
}

func newClient(config *rest.Config, options client.Options) (client.Client, error) {
	plain, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return client.WithFieldOwner(deletions{plain}, FieldManager), nil
}

// deletions deletes objects without a Go type that remain for now, for example because of finalizers. The API server then answers with the object, which the client
// of controller-runtime 0.25 cannot decode, because no scheme has its kind.
type deletions struct{ client.Client }

// Delete implements client.Client. An answer that cannot be decoded is that of an accepted deletion.
func (d deletions) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	err := d.Client.Delete(ctx, object, options...)
	switch object.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata: // their requests need no scheme
		if runtime.IsNotRegisteredError(err) {
			return nil
		}
	}
	return err
}

func (c *Cluster) close() { c.stop() }

// Ended is closed when the credentials must no longer be used; nil: they do not end.
func (c *Cluster) Ended() <-chan struct{} { return c.ended }

// watched wraps the transport: an attempt at an activity whose lease is over writes nothing, and none sends anything after the credentials have ended. refused is
// called when the API server rejects the credentials, and failed when it cannot be reached with them.
func (c credentials) watched(refused, failed func()) credentials {
	watch := func(config *rest.Config) *rest.Config {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return endWatch{leaseWatch{answerWatch{next, refused, failed}}, c.ended}
		})
		return config
	}
	c.config = watch(c.config)
	if c.lockController != nil {
		c.lockController = watch(c.lockController)
	}
	return c
}

type endWatch struct {
	http.RoundTripper
	ended <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (w endWatch) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case <-w.ended:
		return nil, errEnded
	default:
		return w.RoundTripper.RoundTrip(request)
	}
}

type leaseWatch struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w leaseWatch) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if err := temporal.LeaseOver(request.Context()); err != nil {
			return nil, err
		}
	}
	return w.RoundTripper.RoundTrip(request)
}

type answerWatch struct {
	http.RoundTripper
	refused, failed func()
}

// RoundTrip implements http.RoundTripper.
func (w answerWatch) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(request)
	left := errors.Is(request.Context().Err(), context.Canceled)
	switch {
	case err != nil && !left:
		w.failed()
	case err == nil && response.StatusCode == http.StatusUnauthorized:
		w.refused()
	}
	return response, err
}

// Serves reports whether the cluster serves a kind. A positive answer is cached; a negative one is not.
func (c *Cluster) Serves(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	_, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, c.explain("ask which kinds it serves", err)
	}
	return true, nil
}

// uid identifies the cluster by the UID of the namespace kube-system, which cannot be deleted. Errors: ClusterUnreachable, and InvalidSpec when the
// lock controller's credentials are for another cluster.
func (c *Cluster) uid(ctx context.Context) (types.UID, error) {
	system, err := c.Clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", c.explain("get namespace kube-system", err)
	}
	if c.LockController == c.Client {
		return system.UID, nil
	}
	var theirs corev1.Namespace
	if err := c.LockController.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &theirs); err != nil {
		return "", c.explain("get namespace kube-system as the lock controller", err)
	}
	if theirs.UID != system.UID {
		return "", temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: the credentials of its lockController are for another cluster", c.Name), nil)
	}
	return system.UID, nil
}

// probe records when the API server last answered.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// probeTimeout is how long the health check of an API server may take. Without it, a server that accepts requests and answers none would never count
// as unreachable, and waits that start would hang without reacting to cancellation.
const probeTimeout = 5 * time.Second

// Reachable checks the health of the API server; if it does not answer, the cache may be stale. Errors: ClusterUnreachable.
func (c *Cluster) Reachable(ctx context.Context) error { return c.reachable(ctx, 0) }

// reachable checks the API server, unless any caller did within maxAge. Informers do not report it: they reconnect silently and keep serving stale
// objects.
func (c *Cluster) reachable(ctx context.Context, maxAge time.Duration) error {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	if c.probe.err == nil && time.Since(c.probe.at) < maxAge {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := c.Clientset.Discovery().RESTClient().Get().AbsPath("/livez").MaxRetries(0).Do(asking).Error()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.probe.at, c.probe.err = time.Now(), c.explain("check the health of its API server", err)
	return c.probe.err
}

// answered reports whether the API server answered the last check; true before the first.
func (c *Cluster) answered() bool {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	return c.probe.err == nil
}

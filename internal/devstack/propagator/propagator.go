// Package propagator simulates the policy propagator of a hub, and the clusters it serves. A policy that is bound to a cluster gets a replica in the
// cluster's namespace. A replica that enforces makes the cluster compliant after a while. Compliance depends on the content of policies, not on
// their names.
package propagator

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kinds are declared here because a simulation must not share code with the code under test.
var (
	policyKind     = schema.GroupVersionKind{Group: "policy.open-cluster-management.io", Version: "v1", Kind: "Policy"}
	bindingKind    = schema.GroupVersionKind{Group: "policy.open-cluster-management.io", Version: "v1", Kind: "PlacementBinding"}
	ruleKind       = schema.GroupVersionKind{Group: "apps.open-cluster-management.io", Version: "v1", Kind: "PlacementRule"}
	setKind        = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta2", Kind: "ManagedClusterSet"}
	setBindingKind = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta2", Kind: "ManagedClusterSetBinding"}
	placementKind  = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1beta1", Kind: "Placement"}
	configMapKind  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	clusterKind    = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}
)

// Options configure the simulated clusters.
type Options struct {
	// Takes is how long a cluster takes to comply with an enforced policy, <namespace>.<name>. If negative, it does not comply until Evaluate is called
	// and Takes returns another value. Nil: no time.
	Takes func(cluster, policy string) time.Duration
	// Delay is how much later the hub acts on a change, and then on the changed replicas; nil: a random time up to maxDelay.
	Delay func() time.Duration
}

// maxDelay is the longest random delay.
const maxDelay = 100 * time.Millisecond

// Prompt is a Delay without delay, for measurements.
func Prompt() time.Duration { return 0 }

// Propagator is a running simulated policy propagator.
type Propagator struct {
	options Options
	objects cache.Cache
	client  client.Client
	dirty   chan struct{}
	// changed: replicas were written since the last summaries.
	changed chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// complies has the contents of policies that each cluster complies with.
	complies map[string]map[string]bool
	// inProgress has the contents that each cluster will comply with after Options.Takes.
	inProgress map[string]map[string]bool
	replicas   map[client.ObjectKey]replica
	// known are the policies that exist.
	known      map[client.ObjectKey]bool
	namespaces map[string]bool
	enforced   []Enforcement
	failure    error

	// placements are the last decisions, only for the loop of propagation. statuses are the last written statuses of policies, only for that of summaries.
	placements map[string][]string
	statuses   map[client.ObjectKey]string
}

// Enforcement is the start or the end of the enforcement of a policy on a cluster.
type Enforcement struct {
	Cluster, Policy string
	Began           bool
	At              time.Time
}

// Start runs the simulated policy propagator on a hub until Stop.
func Start(ctx context.Context, config *rest.Config, options Options) (*Propagator, error) {
	if options.Takes == nil {
		options.Takes = func(string, string) time.Duration { return 0 }
	}
	if options.Delay == nil {
		options.Delay = func() time.Duration { return rand.N(maxDelay) }
	}
	scheme := runtime.NewScheme()
	objects, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	writer, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &Propagator{
		options: options, objects: objects, client: writer, dirty: make(chan struct{}, 1), changed: make(chan struct{}, 1), stop: stop,
		complies: map[string]map[string]bool{}, inProgress: map[string]map[string]bool{}, replicas: map[client.ObjectKey]replica{},
		statuses: map[client.ObjectKey]string{}, namespaces: map[string]bool{},
	}
	p.running.Go(func() { _ = objects.Start(running) })
	for _, kind := range []schema.GroupVersionKind{policyKind, bindingKind, ruleKind, placementKind, setKind, setBindingKind, clusterKind, configMapKind} {
		if err := p.watch(ctx, kind); err != nil {
			p.Stop()
			return nil, err
		}
	}
	p.running.Go(func() { p.run(running) })
	p.running.Go(func() { p.summarize(running) })
	return p, nil
}

func (p *Propagator) watch(ctx context.Context, kind schema.GroupVersionKind) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	informer, err := p.objects.GetInformer(ctx, object)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.trigger() },
		UpdateFunc: func(any, any) { p.trigger() },
		DeleteFunc: func(any) { p.trigger() },
	})
	return err
}

func (p *Propagator) trigger() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// Evaluate calls Options.Takes again for the policies that are enforced.
func (p *Propagator) Evaluate() { p.trigger() }

// Stop ends the simulation. Created objects stay.
func (p *Propagator) Stop() {
	p.stop()
	p.running.Wait()
}

// Err is the last error; the operation is retried.
func (p *Propagator) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

func (p *Propagator) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		}
		if p.pause(ctx) != nil {
			return
		}
		err := p.propagate(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			time.AfterFunc(100*time.Millisecond, p.trigger)
		}
		p.mu.Lock()
		p.failure = err
		p.mu.Unlock()
	}
}

// pause waits for a delay, at most until ctx is done.
func (p *Propagator) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(p.options.Delay()):
	}
	return ctx.Err()
}

// Drift makes a cluster noncompliant with a policy, like a manual change on it. If the policy is enforced, it complies again after Options.Takes.
func (p *Propagator) Drift(cluster, namespace, policy string) {
	p.mu.Lock()
	delete(p.complies[cluster], p.replicas[client.ObjectKey{Namespace: cluster, Name: namespace + "." + policy}].content)
	p.mu.Unlock()
	p.trigger()
}

// Enforcements returns all starts and ends so far, in order.
func (p *Propagator) Enforcements() []Enforcement {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Enforcement{}, p.enforced...)
}

// Enforced returns the policies that are enforced now (<namespace>.<name>), by cluster.
func (p *Propagator) Enforced() map[string][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	enforced := map[string][]string{}
	for key, replica := range p.replicas {
		if replica.enforces {
			enforced[key.Namespace] = append(enforced[key.Namespace], key.Name)
		}
	}
	return enforced
}

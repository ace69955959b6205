// Package agent simulates the agents of managed clusters that serve the ManagedClusterViews and ManagedClusterActions of a hub, and the hub's removal of actions that
// are over. It follows the published sources of multicloud-operators-foundation.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	viewKind   = schema.GroupVersionKind{Group: "view.open-cluster-management.io", Version: "v1beta1", Kind: "ManagedClusterView"}
	actionKind = schema.GroupVersionKind{Group: "action.open-cluster-management.io", Version: "v1beta1", Kind: "ManagedClusterAction"}
)

const (
	// usualInterval is how often a view is read again, if it does not say it.
	usualInterval = 30 * time.Second
	// keepsActions is how long an action that is over stays.
	keepsActions = time.Minute
	// restarts is how long a crashed agent takes to restart.
	restarts = 100 * time.Millisecond
)

// ErrNotBegun: the agent has not begun an action.
var ErrNotBegun = errors.New("not begun")

// Options configure the simulated agents.
type Options struct {
	// Offline clusters do not react; nil: none.
	Offline func(cluster string) bool
	// Refuse is why an agent does not carry out an action; nil: it carries out all. With ErrNotBegun, the action stays as it is.
	Refuse func(cluster string) error
	// Forgets is whether an agent carries out an action and cannot report it, as if it had crashed in between; nil: never.
	Forgets func(cluster string) bool
	// Show changes what a view shows, as the API server of another version would have it; nil: nothing.
	Show func(object map[string]any)
}

// Agents are running simulated agents.
type Agents struct {
	options  Options
	objects  cache.Cache
	hub      client.Client
	clusters map[string]client.Client
	dirty    chan struct{}
	stop     context.CancelFunc
	running  sync.WaitGroup
	// next is when each view is read again, and tried the version of each action that was last tried, by their UIDs.
	next  map[string]time.Time
	tried map[string]string

	mu      sync.Mutex
	actions []string
	failure error
}

// Start runs the agents of clusters, by the names of their ManagedClusters, until Stop.
func Start(ctx context.Context, hub *rest.Config, clusters map[string]*rest.Config, options Options) (*Agents, error) {
	if options.Offline == nil {
		options.Offline = func(string) bool { return false }
	}
	if options.Refuse == nil {
		options.Refuse = func(string) error { return nil }
	}
	if options.Forgets == nil {
		options.Forgets = func(string) bool { return false }
	}
	scheme := runtime.NewScheme()
	objects, err := cache.New(hub, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	a := &Agents{options: options, objects: objects, clusters: map[string]client.Client{}, dirty: make(chan struct{}, 1), next: map[string]time.Time{}, tried: map[string]string{}}
	if a.hub, err = client.New(hub, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	for name, config := range clusters {
		if a.clusters[name], err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return nil, err
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.running.Go(func() { _ = objects.Start(running) })
	for _, kind := range []schema.GroupVersionKind{viewKind, actionKind} {
		if err := a.watch(ctx, kind); err != nil {
			a.Stop()
			return nil, err
		}
	}
	a.running.Go(func() { a.run(running) })
	return a, nil
}

func (a *Agents) watch(ctx context.Context, kind schema.GroupVersionKind) error {
	informer, err := a.objects.GetInformer(ctx, newObject(kind))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { a.Wake() }, UpdateFunc: func(any, any) { a.Wake() }, DeleteFunc: func(any) { a.Wake() },
	})
	return err
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// Wake lets the agents look again: a cluster may be online again.
func (a *Agents) Wake() {
	select {
	case a.dirty <- struct{}{}:
	default:
	}
}

// Stop ends the simulation.
func (a *Agents) Stop() {
	a.stop()
	a.running.Wait()
}

// Err is the last error; the operation is retried.
func (a *Agents) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// Actions are the actions that succeeded: <cluster> <kind> <namespace>/<name> for an update, and <cluster> <type> <resource> <namespace>/<name> for the others.
func (a *Agents) Actions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.actions...)
}

func (a *Agents) run(ctx context.Context) {
	for {
		next, err := a.serve(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			next = min(next, 100*time.Millisecond)
		}
		a.mu.Lock()
		a.failure = err
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-a.dirty:
		case <-time.After(next):
		}
	}
}

// serve serves everything that is due, and returns when to do it again without a change.
func (a *Agents) serve(ctx context.Context) (next time.Duration, err error) {
	next = usualInterval
	for kind, serve := range map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured, client.Client) (time.Duration, error){
		viewKind: a.serveView, actionKind: a.serveAction,
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := a.objects.List(ctx, list); err != nil {
			return next, err
		}
		for i := range list.Items {
			object := &list.Items[i]
			cluster, exists := a.clusters[object.GetNamespace()]
			if !exists || a.options.Offline(object.GetNamespace()) {
				continue
			}
			again, failure := serve(ctx, object, cluster)
			next, err = min(next, again), errors.Join(err, failure)
		}
	}
	return next, err
}

// serveView reads the object of a view when that is due. It keeps the result when it cannot read the object any longer.
func (a *Agents) serveView(ctx context.Context, view *unstructured.Unstructured, cluster client.Client) (time.Duration, error) {
	interval := usualInterval
	if seconds, _, _ := unstructured.NestedInt64(view.Object, "spec", "scope", "updateIntervalSeconds"); seconds > 0 {
		interval = time.Duration(seconds) * time.Second
	}
	if due := time.Until(a.next[string(view.GetUID())]); due > 0 {
		return due, nil
	}
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(view.Object, "spec", "scope", field)
		return value
	}
	object := newObject(schema.GroupVersionKind{Group: text("apiGroup"), Version: text("version"), Kind: text("kind")})
	condition := metav1.Condition{Type: "Processing", Status: metav1.ConditionTrue, Reason: "GetResourceProcessing", Message: "Watching resources successfully"}
	switch err := cluster.Get(ctx, client.ObjectKey{Namespace: text("namespace"), Name: text("name")}, object); {
	case meta.IsNoMatchError(err):
		condition = metav1.Condition{Type: "Processing", Status: metav1.ConditionFalse, Reason: "ResourceGVKInvalid", Message: fmt.Sprintf("failed to get resource with err: %v", err)}
	case err != nil:
		condition = metav1.Condition{Type: "Processing", Status: metav1.ConditionFalse, Reason: "GetResourceFailed", Message: fmt.Sprintf("failed to get resource with err: %v", err)}
	default:
		if a.options.Show != nil {
			a.options.Show(object.Object)
		}
		if view.Object["status"] == nil {
			view.Object["status"] = map[string]any{}
		}
		view.Object["status"].(map[string]any)["result"] = object.Object
	}
	if err := a.updateStatus(ctx, view, condition); err != nil {
		return interval, err
	}
	a.next[string(view.GetUID())] = time.Now().Add(interval)
	return interval, nil
}

// updateStatus writes the status of a view or an action with a condition.
func (a *Agents) updateStatus(ctx context.Context, object *unstructured.Unstructured, condition metav1.Condition) error {
	listed, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var conditions []metav1.Condition
	text, err := json.Marshal(listed)
	if err == nil {
		err = json.Unmarshal(text, &conditions)
	}
	if err != nil {
		return err
	}
	meta.SetStatusCondition(&conditions, condition)
	written := make([]any, len(conditions))
	for i := range conditions {
		if written[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i]); err != nil {
			return err
		}
	}
	if err := unstructured.SetNestedSlice(object.Object, written, "status", "conditions"); err != nil {
		return err
	}
	return client.IgnoreNotFound(a.hub.Status().Update(ctx, object))
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/operators"
)

// examineInterval is how often a cluster is searched for other operators that does not let itself be watched for them.
const examineInterval = 5 * time.Minute

// definitionIntervals is for how many intervals a cluster is asked what it serves after a change of a CRD: an API server serves a new kind a moment later.
const definitionIntervals = 4

// session runs the controllers of a cluster with one set of credentials.
type session struct {
	cluster *kube.Cluster
	kinds   []kind
	options Options
	// ctx ends with the session, by fail.
	ctx      context.Context
	fail     context.CancelFunc
	starting sync.WaitGroup
	// running are the ends of the controllers in progress, by kind.
	running map[string]func()
	// off says why controllers are off, by kind. final: only a change of a CRD turns the controller on.
	off   map[string]string
	final map[string]bool

	// definitions tells of the CRDs of the kinds. The cluster is asked what it serves until askUntil.
	definitions *kube.Changes
	askUntil    time.Time
	// permissions tell of objects that make a Deployment an operator. The cluster was last searched for operators at examined, which found theirs, by kind; stale:
	// it has to be searched again.
	permissions []*kube.Changes
	examined    time.Time
	stale       bool
	theirs      map[string]string
	// served are the kinds that the cluster served once.
	served map[string]bool
}

func newSession(ctx context.Context, cluster *kube.Cluster, kinds []kind, options Options, fail context.CancelFunc) *session {
	s := &session{
		cluster: cluster, kinds: kinds, options: options, ctx: ctx, fail: fail, stale: true,
		running: map[string]func(){}, off: map[string]string{}, final: map[string]bool{}, served: map[string]bool{},
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.resource.String())
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	s.definitions = cluster.WatchChanges(ctx, definitions, func(_ watch.EventType, definition *metav1.PartialObjectMetadata) bool {
		return slices.Contains(names, definition.Name)
	})
	s.permissions = []*kube.Changes{cluster.WatchChanges(ctx, rbacv1.SchemeGroupVersion.WithResource("clusterroles"), every)}
	return s
}

func every(watch.EventType, *metav1.PartialObjectMetadata) bool { return true }

// stop ends all controllers.
func (s *session) stop() {
	for _, stop := range s.running {
		stop()
	}
	s.starting.Wait()
}

// logOff logs why the controller of a kind is off, once for each reason.
func (s *session) logOff(kind kind, message string, args ...any) {
	if why := message + fmt.Sprint(args...); s.off[kind.name] != why {
		s.off[kind.name] = why
		s.options.Log.With("kind", kind.name).Warn(message, args...)
	}
}

// startAndStop starts the controllers of the kinds that the cluster serves, and stops those of kinds on which another operator acts.
func (s *session) startAndStop() {
	if changed, watching := s.definitions.Take(); changed || !watching {
		s.askUntil = time.Now().Add(definitionIntervals * s.options.Interval)
		clear(s.final)
	}
	examined := sync.OnceValue(s.examine)
	for _, kind := range s.kinds {
		stop, runs := s.running[kind.name]
		if !runs && (s.final[kind.name] || !s.serves(kind)) {
			continue
		}
		if err := examined(); err != nil {
			if !runs {
				s.logOff(kind, "controller stays off: unknown whether other operators run", "error", err)
			}
			continue
		}
		operator, theirs := s.theirs[kind.resource.String()]
		switch {
		case theirs && runs:
			stop()
			delete(s.running, kind.name)
			fallthrough
		case theirs:
			s.logOff(kind, "controller is off: another operator acts on the kind", "operator", operator)
		case !runs:
			s.start(kind)
		}
	}
}

// serves reports whether the cluster serves a kind, as far as it is known: a cluster whose CRDs do not change is not asked again. A controller of a CRD that was
// deleted waits for it.
func (s *session) serves(kind kind) bool {
	if s.served[kind.name] {
		return true
	}
	if time.Now().After(s.askUntil) {
		return false
	}
	served, err := s.cluster.Serves(s.ctx, kind.gvk)
	if err != nil {
		s.askUntil = time.Now().Add(definitionIntervals * s.options.Interval)
	}
	s.served[kind.name] = err == nil && served
	return s.served[kind.name]
}

// start starts the controller of a kind.
func (s *session) start(kind kind) {
	log := s.options.Log.With("kind", kind.name)
	err := kind.readable(s.ctx, s.cluster)
	if apierrors.IsNotFound(err) { // its CRD was deleted
		delete(s.served, kind.name)
	}
	var c *controller
	if err == nil {
		c, err = kind.watch(s.cluster, s.options)
	}
	if err != nil {
		s.final[kind.name] = errors.Is(err, errOtherHarborCRD)
		s.logOff(kind, "controller cannot start", "error", err)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	c.queue = newQueue(func(request reconcile.Request) { c.reconcileOne(ctx, request) })
	s.running[kind.name] = func() {
		cancel()
		c.queue.stop()
	}
	delete(s.off, kind.name)
	log.Info("controller started")
	s.starting.Go(func() {
		for ctx.Err() == nil {
			if err := s.runUntilIdle(ctx, kind, c); err != nil && ctx.Err() == nil {
				log.Error("controller ended", "error", err)
				s.fail()
				return
			}
		}
	})
}

// runUntilIdle runs a controller until its kind has no objects, and no workflows of objects. Most kinds of most clusters have none, and need no informers.
func (s *session) runUntilIdle(ctx context.Context, kind kind, c *controller) error {
	if c.idle != nil && c.idle(ctx) {
		s.cluster.AwaitAny(ctx, kind.resource.WithVersion(kind.gvk.Version))
	}
	if ctx.Err() != nil {
		return nil
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	if err := c.run(running); err != nil {
		return err
	}
	if err := s.awaitIdle(ctx, kind, c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	s.options.Log.With("kind", kind.name).Info("controller waits for an object: there are none")
	return nil
}

// awaitIdle returns when a running controller has nothing to do until its kind has an object, or ctx is done.
func (s *session) awaitIdle(ctx context.Context, kind kind, c *controller) error {
	if c.idle == nil {
		<-ctx.Done()
	}
	for ctx.Err() == nil {
		pause(ctx, s.cluster.IdleTimeout)
		found, err := s.cluster.Client.Scheme().New(kind.gvk.GroupVersion().WithKind(kind.gvk.Kind + "List"))
		if err != nil {
			return err
		}
		objects := found.(kubeclient.ObjectList)
		if err := s.cluster.Cache.List(ctx, objects); err == nil && meta.LenList(objects) == 0 && c.idle(ctx) {
			return nil
		}
	}
	return nil
}

// examine searches the cluster for the original operators of kinds, if they may have changed.
func (s *session) examine() error {
	watched := true
	for _, permission := range s.permissions {
		changed, watching := permission.Take()
		s.stale, watched = s.stale || changed, watched && watching
	}
	if unwatched := !watched && (len(s.theirs) > 0 || time.Since(s.examined) >= examineInterval); !s.stale && !unwatched {
		return nil
	}
	s.stale = true
	running, permitted, err := operators.Find(s.ctx, s.cluster.Clientset)
	if err != nil {
		return err
	}
	s.stale, s.examined, s.theirs = false, time.Now(), map[string]string{}
	for _, operator := range running {
		for _, kind := range operator.Kinds {
			s.theirs[kind.String()] = operator.NamespacedName.String()
		}
	}
	if permitted && len(s.permissions) == 1 {
		s.permissions = append(s.permissions,
			s.cluster.WatchChanges(s.ctx, rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), every),
			s.cluster.WatchChanges(s.ctx, appsv1.SchemeGroupVersion.WithResource("deployments"), newSpecs()),
		)
	}
	return nil
}

// newSpecs selects changes that are not only of the status.
func newSpecs() func(watch.EventType, *metav1.PartialObjectMetadata) bool {
	generations := map[types.UID]int64{}
	return func(change watch.EventType, object *metav1.PartialObjectMetadata) bool {
		if change == watch.Deleted {
			delete(generations, object.UID)
			return true
		}
		known := generations[object.UID]
		generations[object.UID] = object.Generation
		return known != object.Generation
	}
}

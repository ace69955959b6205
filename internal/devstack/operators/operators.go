// Package operators simulates the operators that a HarborCluster needs (PostgreSQL by Zalando, Redis by Spotahome, MinIO and Harbor) and, in a cluster
// without controllers, the workload controllers. They write objects and statuses; no database or registry runs.
package operators

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of object whose operator is simulated.
type Kind string

// The kinds have their own names here, because a simulation must not share code with the code under test.
const (
	Postgresql    Kind = "postgresql"
	RedisFailover Kind = "RedisFailover"
	Tenant        Kind = "Tenant"
	Harbor        Kind = "Harbor"
	// BucketJob is a Job.
	BucketJob Kind = "Job"
)

var kinds = map[Kind]schema.GroupVersionKind{
	Postgresql:    {Group: "acid.zalan.do", Version: "v1", Kind: "postgresql"},
	RedisFailover: {Group: "databases.spotahome.com", Version: "v1", Kind: "RedisFailover"},
	Tenant:        {Group: "minio.min.io", Version: "v2", Kind: "Tenant"},
	Harbor:        {Group: "goharbor.io", Version: "v1beta1", Kind: "Harbor"},
	BucketJob:     batchv1.SchemeGroupVersion.WithKind("Job"),
}

// Behaviour is the simulated behaviour for one object. With the zero value the object is ready immediately.
type Behaviour struct {
	// After is how long the object takes to become ready; if negative, it never does.
	After time.Duration
	// Fails: the object never becomes ready, and its status shows that.
	Fails bool
	// Down: the object is not ready, and its operator is repairing it.
	Down bool
	// Absent: no operator reconciles the object.
	Absent bool
	// Flaps is how long the object is ready and not ready in turn; 0: it does not flap.
	Flaps time.Duration
}

// Options configure the operators.
type Options struct {
	// Behaves returns the behaviour for an object; nil: every object is ready immediately.
	Behaves func(kind Kind, namespace, name string) Behaviour
	// Controllers: the cluster has its own controllers for StatefulSets, Deployments and Jobs. Redis cannot be Down then.
	Controllers bool
}

// Operators are running simulated operators.
type Operators struct {
	options Options
	objects cache.Cache
	client  client.Client
	queue   workqueue.TypedRateLimitingInterface[item]
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// behaviours are those that Simulate has set.
	behaviours map[item]Behaviour
	// seen is when each object was first seen, by UID.
	seen    map[string]time.Time
	failure error
}

// item is an object in the queue.
type item struct {
	kind            Kind
	namespace, name string
}

// Start runs the simulated operators until Stop.
func Start(ctx context.Context, config *rest.Config, options Options) (*Operators, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	objects, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	writer, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o := &Operators{
		options: options, objects: objects, client: writer, stop: stop, behaviours: map[item]Behaviour{}, seen: map[string]time.Time{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[item](50*time.Millisecond, time.Second)),
	}
	o.running.Go(func() { _ = objects.Start(running) })
	for kind := range kinds {
		if kind == BucketJob && options.Controllers {
			continue
		}
		if err := o.watch(ctx, kind); err != nil {
			o.Stop()
			return nil, err
		}
	}
	for range workers {
		o.running.Go(func() { o.work(running) })
	}
	return o, nil
}

// workers is how many objects are reconciled at the same time.
const workers = 8

// watch queues every object of the kind when it is found or changes.
func (o *Operators) watch(ctx context.Context, kind Kind) error {
	informer, err := o.objects.GetInformer(ctx, objectOf(kind))
	if err != nil {
		return err
	}
	add := func(event any) {
		if missed, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
			event = missed.Obj
		}
		if object, ok := event.(client.Object); ok {
			o.queue.Add(item{kind, object.GetNamespace(), object.GetName()})
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, after any) { add(after) }, DeleteFunc: add,
	})
	return err
}

func objectOf(kind Kind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kinds[kind])
	return object
}

// Stop ends the simulation. Created objects stay.
func (o *Operators) Stop() {
	o.stop()
	o.queue.ShutDown()
	o.running.Wait()
}

// Err is the last error; the operation is retried.
func (o *Operators) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failure
}

// Simulate sets the behaviour for one object from now on. It overrides Options.Behaves.
func (o *Operators) Simulate(kind Kind, namespace, name string, behaviour Behaviour) {
	simulated := item{kind, namespace, name}
	o.mu.Lock()
	o.behaviours[simulated] = behaviour
	o.mu.Unlock()
	o.queue.Add(simulated)
}

func (o *Operators) behaviourOf(simulated item) Behaviour {
	o.mu.Lock()
	defer o.mu.Unlock()
	if behaviour, ok := o.behaviours[simulated]; ok {
		return behaviour
	}
	if o.options.Behaves == nil {
		return Behaviour{}
	}
	return o.options.Behaves(simulated.kind, simulated.namespace, simulated.name)
}

// work handles queued objects until the queue is shut down.
func (o *Operators) work(ctx context.Context) {
	for {
		simulated, shutdown := o.queue.Get()
		if shutdown {
			return
		}
		again, err := o.reconcile(ctx, simulated)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // it was deleted or changed meanwhile
			o.queue.AddRateLimited(simulated)
		case err != nil && ctx.Err() == nil:
			o.queue.AddRateLimited(simulated)
			o.mu.Lock()
			o.failure = err
			o.mu.Unlock()
		case again > 0:
			o.queue.AddAfter(simulated, again)
			fallthrough
		default:
			o.queue.Forget(simulated)
		}
		o.queue.Done(simulated)
	}
}

// reconcile simulates the operator of an object. It returns when to reconcile again without a change; 0: never.
func (o *Operators) reconcile(ctx context.Context, simulated item) (again time.Duration, err error) {
	object := objectOf(simulated.kind)
	err = o.client.Get(ctx, client.ObjectKey{Namespace: simulated.namespace, Name: simulated.name}, object)
	if apierrors.IsNotFound(err) {
		return 0, o.cleanUp(ctx, simulated)
	}
	if err != nil || object.GetDeletionTimestamp() != nil {
		return 0, err
	}
	if o.behaviourOf(simulated).Absent {
		return 0, nil
	}
	stage, again := o.stageOf(simulated, object)
	switch simulated.kind {
	case Postgresql:
		err = o.simulatePostgresql(ctx, object, stage)
	case RedisFailover:
		err = o.simulateRedis(ctx, object, stage)
	case Tenant:
		err = o.simulateTenant(ctx, object, stage)
	case Harbor:
		err = o.simulateHarbor(ctx, object, stage)
	case BucketJob:
		err = o.simulateJob(ctx, object, stage)
	}
	return again, err
}

// stage is the state of an object.
type stage int

const (
	creating stage = iota
	ready
	failed
	// down: the object was ready, and its operator is restoring it.
	down
)

func (o *Operators) stageOf(simulated item, object client.Object) (stage, time.Duration) {
	behaviour := o.behaviourOf(simulated)
	o.mu.Lock()
	since, known := o.seen[string(object.GetUID())]
	if !known {
		since = time.Now()
		o.seen[string(object.GetUID())] = since
	}
	o.mu.Unlock()
	age := time.Since(since)
	switch {
	case behaviour.Fails:
		return failed, 0
	case behaviour.Down:
		return down, 0
	case behaviour.After < 0:
		return creating, 0
	case age < behaviour.After:
		return creating, behaviour.After - age
	case behaviour.Flaps > 0:
		flap := age - behaviour.After
		phase, next := flap/behaviour.Flaps, behaviour.Flaps-flap%behaviour.Flaps
		if phase%2 == 1 {
			return down, next
		}
		return ready, next
	}
	return ready, 0
}

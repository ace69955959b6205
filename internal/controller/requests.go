package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Reasons of the condition of an object that starts no workflow.
const (
	reasonInvalidSpec = "InvalidSpec"
	reasonNameInUse   = "NameInUse"
)

// occupiedPause is the time until an object is looked at again whose name another run has.
const occupiedPause = 5 * time.Second

// requestKind is a kind whose objects each start one workflow, and steer it while it runs.
type requestKind[T kubeclient.Object] interface {
	// workflow returns the type of the workflow, and its id for an object of this name.
	workflow(types.NamespacedName) (workflowType, id string)
	// running is the query for the running workflows of objects in this cluster. It may find others.
	running() string
	// request returns the payload of the signal temporal.SignalObject: everything of the object that may change while its workflow runs.
	request(T) any
	// besideSpec is what the request has from elsewhere in the object: annotations and conditions; nil: nothing.
	besideSpec(T) any
	// gone returns that payload for an object that no longer exists.
	gone(types.UID) any
	// over reports whether the object starts no other workflow. served: the last run of its workflow was for the object, and has ended.
	over(object T, served bool) bool
	// adopts reports whether a running workflow that was not started by the object takes it: the workflow serves no request yet, or no longer.
	adopts(run) bool
	// prepare returns how the workflow of an object starts, or the condition that says why it cannot start. It adds the finalizer.
	prepare(context.Context, temporal.Object, T) (*start, *metav1.Condition, error)
	// condition is the type of the condition that shows why an object starts no workflow.
	condition() string
	// conditions are those of the object's status.
	conditions(T) []metav1.Condition
}

// start is how a workflow starts.
type start struct {
	options client.StartWorkflowOptions
	input   any
	// first is the input of the first workflow with this id; nil: it is the same. Another worker may have been faster.
	first any
}

// requests reconciles the objects of a kind in one cluster.
type requests[T kubeclient.Object] struct {
	of       requestKind[T]
	cluster  *kube.Cluster
	clusters *kube.Clusters
	temporal client.Client
	started  *startedByObjects
	kind     schema.GroupVersionKind

	// standing: the workflow works for as long as its object exists. If it has ended, the deletion of the object starts it again, to clean up.
	standing bool
	// ended reports whether a status shows the end of a run; nil: no edit starts another run after it.
	ended func(T) bool
	// finalizer keeps an object whose workflow has to clean up.
	finalizer string
	// follows: the workflow watches the object of its name itself, and needs no signals. It may have been started without the object.
	follows bool
	// identify returns the id of the workflow of the object with this name, which may no longer exist; "": there is none. By default, the workflow has
	// the name of the object.
	identify func(context.Context, types.NamespacedName) (string, error)
	// pace limits the signals for each object.
	pace pace
}

// newRequests returns a reconciler of a kind.
func newRequests[T kubeclient.Object](of requestKind[T], kind schema.GroupVersionKind, cluster *kube.Cluster, options Options) *requests[T] {
	return &requests[T]{
		of: of, cluster: cluster, clusters: options.Clusters, temporal: options.Temporal, started: options.started, kind: kind, finalizer: objects.Finalizer,
		identify: func(_ context.Context, name types.NamespacedName) (string, error) {
			_, id := of.workflow(name)
			return id, nil
		},
	}
}

// watch returns a controller that reconciles the objects when their requests change, the objects of running workflows when it starts, and further
// ones by the other sources.
func (r *requests[T]) watch(options Options, others ...source.Source) *controller {
	objects := kindSource(r.cluster.Cache, r.new(), &handler.TypedEnqueueRequestForObject[T]{}, r.changes())
	c := newController(r.kind.Kind, r, options, append([]source.Source{objects, source.Func(r.enqueueRunning)}, others...)...)
	if !r.cluster.Hub {
		c.idle = r.noneRunning
	}
	return c
}

// noneRunning reports whether no workflow of an object in this cluster is running.
func (r *requests[T]) noneRunning(ctx context.Context) bool {
	workflowType, _ := r.of.workflow(types.NamespacedName{})
	clusters, err := r.started.clusters(ctx, workflowType, r.kind.Kind)
	return err == nil && !clusters[r.cluster.Name]
}

// new returns an empty object.
func (r *requests[T]) new() T {
	object, err := r.cluster.Client.Scheme().New(r.kind)
	if err != nil {
		panic(err) // the scheme of all clusters has all kinds
	}
	return object.(T)
}

// changes omits updates that do not change the request. Most only write the status, so no request is built to compare them.
func (r *requests[T]) changes() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		UpdateFunc: func(e event.TypedUpdateEvent[T]) bool {
			before, now := e.ObjectOld, e.ObjectNew
			return before.GetUID() != now.GetUID() || before.GetGeneration() != now.GetGeneration() ||
				(before.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) ||
				!equality.Semantic.DeepEqual(r.of.besideSpec(before), r.of.besideSpec(now))
		},
	}
}

// enqueueRunning adds the objects of running workflows to the queue when the controller starts: they may be gone.
func (r *requests[T]) enqueueRunning(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for ctx.Err() == nil && r.enqueueListed(ctx, queue) != nil {
			pause(ctx, defaultInterval)
		}
	}()
	return nil
}

func (r *requests[T]) enqueueListed(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	running, err := runningRuns(ctx, r.temporal, r.of.running(), clusterOf(r.cluster), r.kind.Kind)
	for _, run := range running {
		queue.Add(reconcile.Request{NamespacedName: run.object.NamespacedName()})
	}
	return err
}

// Reconcile starts the workflow that an object requests, or sends it the changes of the object.
func (r *requests[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	id, err := r.identify(ctx, request.NamespacedName)
	if err != nil || id == "" {
		return reconcile.Result{}, err
	}
	last, err := runOf(ctx, r.temporal, id)
	if err != nil {
		return reconcile.Result{}, err
	}
	cached := r.new()
	switch err := r.cluster.Cache.Get(ctx, request.NamespacedName, cached); {
	case apierrors.IsNotFound(err) && r.follows:
		return reconcile.Result{}, nil
	case apierrors.IsNotFound(err):
		r.pace.forget(request.NamespacedName)
		if last.running && endsSoon(ctx, r.temporal, id) {
			return reconcile.Result{}, nil
		}
		return r.endIfGone(ctx, id, last)
	case err != nil:
		return reconcile.Result{}, err
	case r.follows && last.running && cached.GetDeletionTimestamp() == nil && controllerutil.ContainsFinalizer(cached, r.finalizer):
		return reconcile.Result{}, nil
	case r.follows && last.running: // the run has not taken the object yet, or is about to end, and may not see this change
		return reconcile.Result{RequeueAfter: occupiedPause}, nil
	}
	object := cached.DeepCopyObject().(T)
	of := temporal.Object{
		Cluster: clusterOf(r.cluster), APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
	switch deleted := object.GetDeletionTimestamp() != nil; {
	case last.running && last.isFor(of):
		if wait := r.pace.take(request.NamespacedName, time.Now()); wait > 0 && !deleted {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		result, err := r.signal(ctx, id, r.of.request(object))
		if err == nil && (deleted && r.of.over(object, false) || r.ended != nil && r.ended(object)) {
			result.RequeueAfter = occupiedPause // the run has shown its end, and may close without acting on the signal
		}
		return result, err
	case deleted && r.standing && !last.running && controllerutil.ContainsFinalizer(object, r.finalizer):
		current, err := (&objects.Activities{Clusters: r.clusters}).ReadRequest(ctx, of) // the cache may be behind
		if err != nil || current.Gone {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, r.start(ctx, of, id, object)
	case deleted:
		return reconcile.Result{}, objects.Release(ctx, r.cluster.Client, object)
	case last.running && r.of.adopts(last):
		if _, err := r.endIfGone(ctx, id, last); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: occupiedPause}, r.start(ctx, of, id, object) // until the workflow has the object in its memo
	case last.running && last.object == nil && r.of.over(object, false): // the request was served, and a person has started or retried it
		return reconcile.Result{}, nil
	case last.running && last.object == nil:
		message := fmt.Sprintf("workflow %s was started without an object and is running: end it with drydock, or use another name", id)
		return reconcile.Result{RequeueAfter: occupiedPause}, r.refuse(ctx, object, refusal(reasonNameInUse, message))
	case last.running && last.object.NamespacedName() != of.NamespacedName():
		message := fmt.Sprintf("workflow %s works for %s: delete one of the two objects", id, last.object)
		_, err := r.endIfGone(ctx, id, last)
		return reconcile.Result{RequeueAfter: occupiedPause}, errors.Join(err, r.refuse(ctx, object, refusal(reasonNameInUse, message)))
	case last.running:
		_, err := r.endIfGone(ctx, id, last)
		return reconcile.Result{RequeueAfter: occupiedPause}, err
	case r.of.over(object, last.isFor(of)):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.start(ctx, of, id, object)
}

// endTime is how long a workflow may take to end after it has released its object.
const endTime = time.Second

// endsSoon reports whether a workflow ends within endTime, as one does that has released its object. The request has no deadline: Temporal answers one that
// is near its deadline at once, and the client would send it again and again.
func endsSoon(ctx context.Context, server client.Client, id string) bool {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(endTime, cancel).Stop()
	err := server.GetWorkflow(waiting, id, "").Get(waiting, nil)
	_, failed := errors.AsType[*sdktemporal.WorkflowExecutionError](err)
	return err == nil || failed
}

// endIfGone tells a workflow that its object no longer exists: it lost its finalizer while no worker ran, for example.
func (r *requests[T]) endIfGone(ctx context.Context, id string, last run) (reconcile.Result, error) {
	if !last.running || last.object == nil {
		return reconcile.Result{}, nil
	}
	current, err := (&objects.Activities{Clusters: r.clusters}).ReadRequest(ctx, *last.object) // the cache may be behind
	if err != nil || !current.Gone {
		return reconcile.Result{}, err
	}
	return r.signal(ctx, id, r.of.gone(last.object.UID))
}

// signal sends the request of an object to its workflow. If that has just closed, the object is looked at again.
func (r *requests[T]) signal(ctx context.Context, id string, request any) (reconcile.Result, error) {
	err := r.temporal.SignalWorkflow(ctx, id, "", temporal.SignalObject, request)
	if _, closed := errors.AsType[*serviceerror.NotFound](err); closed {
		return reconcile.Result{RequeueAfter: occupiedPause}, nil
	}
	return reconcile.Result{}, describe("signal workflow "+id, err)
}

// start starts the workflow of an object. An object that Drydock cannot accept keeps the reason in its status, until it changes.
func (r *requests[T]) start(ctx context.Context, of temporal.Object, id string, object T) error {
	start, refused, err := r.of.prepare(ctx, of, object)
	if err != nil {
		return err
	}
	if refused != nil {
		return r.refuse(ctx, object, refused)
	}
	workflowType, _ := r.of.workflow(types.NamespacedName{})
	options := start.options
	options.ID, options.TaskQueue = id, temporal.TaskQueue
	options.Memo = map[string]any{temporal.MemoObject: of}
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	if r.follows {
		options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
		_, err = r.temporal.ExecuteWorkflow(ctx, options, workflowType, start.input)
		return describe("start workflow "+id, err)
	}
	request := r.of.request(object)
	if start.first != nil {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
		_, err = r.temporal.SignalWithStartWorkflow(ctx, id, temporal.SignalObject, request, options, workflowType, start.first)
		if _, ended := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !ended {
			return describe("start workflow "+id, err)
		}
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	_, err = r.temporal.SignalWithStartWorkflow(ctx, id, temporal.SignalObject, request, options, workflowType, start.input)
	return describe("start workflow "+id, err)
}

// refusal is a condition that says why an object starts no workflow.
func refusal(reason, message string) *metav1.Condition {
	return &metav1.Condition{Reason: reason, Message: message}
}

// refuse shows on an object why it starts no workflow.
func (r *requests[T]) refuse(ctx context.Context, object T, why *metav1.Condition) error {
	return refuseWith(ctx, r.cluster.Client, object, r.of.condition(), r.of.conditions(object), why)
}

// refuseWith shows a condition on an object, with the status False.
func refuseWith(ctx context.Context, c kubeclient.Client, object kubeclient.Object, condition string, conditions []metav1.Condition, why *metav1.Condition) error {
	why.Type, why.Status, why.ObservedGeneration, why.LastTransitionTime = condition, metav1.ConditionFalse, object.GetGeneration(), metav1.Now()
	if shown := meta.FindStatusCondition(conditions, why.Type); shown != nil {
		if shown.Reason == why.Reason && shown.Message == why.Message && shown.ObservedGeneration == why.ObservedGeneration {
			return nil
		}
		if shown.Status == why.Status {
			why.LastTransitionTime = shown.LastTransitionTime
		}
	}
	return objects.Publish(ctx, c, object, map[string]any{"conditions": []any{why}})
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/objects"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

// Reasons of the condition Ready of an object that no portal shows.
const (
	reasonInvalidSchedule = "InvalidSchedule"
	reasonNotShown        = "NotShown"
)

const (
	// declareTimeout limits the wait for the answer of a portal.
	declareTimeout = 10 * time.Second
	// refusedPause is the time until a portal is asked again to show an object: it may have become full, or the name free.
	refusedPause = 30 * time.Second
	// portalPause is how often the portal of an object is looked at: its workflow may have been terminated.
	portalPause = 5 * time.Minute
	// listAgainAfter is the time until the portals are listed a second time.
	listAgainAfter = time.Minute
)

// portalObject is an object that a status portal shows.
type portalObject interface {
	kubeclient.Object
	*sreportalv1.Component | *sreportalv1.Maintenance | *sreportalv1.Incident
}

// shownStatus is the part of an object's status that the controller reads.
type shownStatus struct {
	generation int64
	portalRun  string
	conditions []metav1.Condition
}

func (s shownStatus) equal(other shownStatus) bool {
	return s.generation == other.generation && s.portalRun == other.portalRun && equality.Semantic.DeepEqual(s.conditions, other.conditions)
}

// portalObjects reconciles the objects of a kind that status portals show. One workflow shows many objects, unlike those of requests.
type portalObjects[T portalObject] struct {
	kind     string
	cluster  *kube.Cluster
	temporal client.Client
	create   func() T
	// portal returns the portal that the spec names, declare the request to show the object, and status its status.
	portal  func(T) string
	declare func(T) portal.ObjectRequest
	status  func(T) shownStatus
	// past is the status of an object that ended too long ago for its portal; nil: a portal keeps all objects of the kind.
	past func(T) any
}

// components is the kind Component, maintenances the kind Maintenance, and incidents the kind Incident.
func components() kind   { return portalKind("components", newComponents) }
func maintenances() kind { return portalKind("maintenances", newMaintenances) }
func incidents() kind    { return portalKind("incidents", newIncidents) }

func newComponents(cluster *kube.Cluster, options Options) *portalObjects[*sreportalv1.Component] {
	return &portalObjects[*sreportalv1.Component]{
		kind: portal.KindComponent, cluster: cluster, temporal: options.Temporal,
		create: func() *sreportalv1.Component { return &sreportalv1.Component{} },
		portal: func(c *sreportalv1.Component) string { return c.Spec.PortalRef },
		declare: func(c *sreportalv1.Component) portal.ObjectRequest {
			return portal.ObjectRequest{Component: &sreportalv1.Component{ObjectMeta: identityOf(c), Spec: c.Spec}}
		},
		status: func(c *sreportalv1.Component) shownStatus {
			return shownStatus{c.Status.ObservedGeneration, c.Status.PortalRun, c.Status.Conditions}
		},
	}
}

func newMaintenances(cluster *kube.Cluster, options Options) *portalObjects[*sreportalv1.Maintenance] {
	return &portalObjects[*sreportalv1.Maintenance]{
		kind: portal.KindMaintenance, cluster: cluster, temporal: options.Temporal,
		create: func() *sreportalv1.Maintenance { return &sreportalv1.Maintenance{} },
		portal: func(m *sreportalv1.Maintenance) string { return m.Spec.PortalRef },
		declare: func(m *sreportalv1.Maintenance) portal.ObjectRequest {
			return portal.ObjectRequest{Maintenance: &sreportalv1.Maintenance{ObjectMeta: identityOf(m), Spec: m.Spec}}
		},
		status: func(m *sreportalv1.Maintenance) shownStatus {
			return shownStatus{m.Status.ObservedGeneration, m.Status.PortalRun, m.Status.Conditions}
		},
		past: func(m *sreportalv1.Maintenance) any { return portal.Completed(m.Generation, m.CreationTimestamp) },
	}
}

func newIncidents(cluster *kube.Cluster, options Options) *portalObjects[*sreportalv1.Incident] {
	return &portalObjects[*sreportalv1.Incident]{
		kind: portal.KindIncident, cluster: cluster, temporal: options.Temporal,
		create: func() *sreportalv1.Incident { return &sreportalv1.Incident{} },
		portal: func(i *sreportalv1.Incident) string { return i.Spec.PortalRef },
		declare: func(i *sreportalv1.Incident) portal.ObjectRequest {
			return portal.ObjectRequest{Incident: &sreportalv1.Incident{ObjectMeta: identityOf(i), Spec: i.Spec}}
		},
		status: func(i *sreportalv1.Incident) shownStatus {
			return shownStatus{i.Status.ObservedGeneration, i.Status.PortalRun, i.Status.Conditions}
		},
		past: func(i *sreportalv1.Incident) any {
			return portal.Resolved(i.Generation, i.CreationTimestamp, i.Spec.Updates)
		},
	}
}

func portalKind[T portalObject](resource string, of func(*kube.Cluster, Options) *portalObjects[T]) kind {
	name := of(nil, Options{}).kind
	return kind{
		name: name, resource: sreportalv1.GroupVersion.WithResource(resource).GroupResource(),
		gvk: sreportalv1.GroupVersion.WithKind(name),
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			return of(cluster, options).watch(options), nil
		},
	}
}

// identityOf returns the metadata by which a portal knows an object.
func identityOf(object kubeclient.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Generation: object.GetGeneration(),
		CreationTimestamp: object.GetCreationTimestamp(),
	}
}

// watch returns a controller of the kind.
func (r *portalObjects[T]) watch(options Options) *controller {
	objects := kindSource(r.cluster.Cache, r.create(), &handler.TypedEnqueueRequestForObject[T]{}, r.changes())
	return newController(r.kind, r, options, objects, source.Func(r.recheckAll))
}

// changes omits updates of metadata only, which the controller makes itself.
func (r *portalObjects[T]) changes() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		UpdateFunc: func(e event.TypedUpdateEvent[T]) bool {
			before, now := e.ObjectOld, e.ObjectNew
			return before.GetUID() != now.GetUID() || before.GetGeneration() != now.GetGeneration() ||
				now.GetDeletionTimestamp() != nil || !r.status(before).equal(r.status(now))
		},
	}
}

// recheckAll lets all portals check their objects when the controller starts: some may be gone. It asks twice, because the list of portals is eventually
// consistent.
func (r *portalObjects[T]) recheckAll(ctx context.Context, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for again := range 2 {
			if again > 0 {
				pause(ctx, listAgainAfter)
			}
			for ctx.Err() == nil && r.recheck(ctx, portal.ObjectName{Kind: r.kind}) != nil {
				pause(ctx, defaultInterval)
			}
		}
	}()
	return nil
}

// recheck lets all portals check whether objects still exist.
func (r *portalObjects[T]) recheck(ctx context.Context, of portal.ObjectName) error {
	running, err := observe.Executions(ctx, r.temporal, observe.WorkflowsOf(temporal.StatusPortal, true), 0)
	if err != nil {
		return fmt.Errorf("list the portals: %w", err)
	}
	for _, execution := range running {
		err := r.temporal.SignalWorkflow(ctx, execution.GetExecution().GetWorkflowId(), "", temporal.SignalObject, of)
		if _, closed := errors.AsType[*serviceerror.NotFound](err); err != nil && !closed {
			return err
		}
	}
	return nil
}

// Reconcile shows an object on its portal, or removes it there.
func (r *portalObjects[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cached := r.create()
	switch err := r.cluster.Cache.Get(ctx, request.NamespacedName, cached); {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, r.recheck(ctx, portal.ObjectName{Kind: r.kind, Namespace: request.Namespace, Name: request.Name})
	case err != nil:
		return reconcile.Result{}, err
	}
	object := cached.DeepCopyObject().(T)
	before, now := object.GetLabels()[sreportalv1.LabelPortal], r.portal(object)
	if object.GetDeletionTimestamp() != nil {
		for _, name := range []string{before, now} {
			if err := r.withdraw(ctx, name, object); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, objects.Release(ctx, r.cluster.Client, object)
	}
	complete := object.DeepCopyObject().(T)
	if invalid := manifest.Complete(complete); invalid != nil {
		if err := r.withdraw(ctx, before, object); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, r.refuse(ctx, object, invalidReason(invalid), invalid.Error())
	}
	last, err := runOf(ctx, r.temporal, temporal.StatusPortalID(now))
	if err != nil || r.shows(object, last) {
		return reconcile.Result{RequeueAfter: portalPause}, err
	}
	if before != "" && before != now {
		if err := r.withdraw(ctx, before, object); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.hold(ctx, object, now); err != nil {
		return reconcile.Result{}, err
	}
	return r.show(ctx, object, complete, now)
}

// invalidReason is the reason of the condition Ready of an object with an invalid spec.
func invalidReason(invalid error) string {
	if strings.Contains(invalid.Error(), "spec.scheduled") {
		return reasonInvalidSchedule
	}
	return reasonInvalidSpec
}

// shows reports whether the portal shows the current object.
func (r *portalObjects[T]) shows(object T, last run) bool {
	status := r.status(object)
	return last.running && status.portalRun == last.firstRunID && status.generation == object.GetGeneration() &&
		object.GetLabels()[sreportalv1.LabelPortal] == r.portal(object) && meta.IsStatusConditionTrue(status.conditions, sreportalv1.ConditionReady)
}

// hold adds the finalizer and the label of the portal.
func (r *portalObjects[T]) hold(ctx context.Context, object T, name string) error {
	before := object.DeepCopyObject().(T)
	controllerutil.AddFinalizer(object, objects.Finalizer)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[sreportalv1.LabelPortal] = name
	object.SetLabels(labels)
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	patch := kubeclient.MergeFromWithOptions(before, kubeclient.MergeFromWithOptimisticLock{})
	return describe("add the finalizer and the portal to "+r.kind+" "+object.GetName(), r.cluster.Client.Patch(ctx, object, patch))
}

// show asks a portal to show an object.
func (r *portalObjects[T]) show(ctx context.Context, object, complete T, name string) (reconcile.Result, error) {
	answer, err := r.update(ctx, name, r.declare(complete), true)
	if refused, is := errors.AsType[*sdktemporal.ApplicationError](err); is {
		return reconcile.Result{RequeueAfter: refusedPause}, r.refuse(ctx, object, reasonNotShown, "portal "+name+": "+refused.Message())
	}
	if err != nil {
		return reconcile.Result{}, describe("show "+r.kind+" "+object.GetName()+" on portal "+name, err)
	}
	r.warn(ctx, object, answer.Warnings)
	if answer.Forgotten && r.past != nil {
		return reconcile.Result{}, objects.Publish(ctx, r.cluster.Client, object, r.past(object))
	}
	return reconcile.Result{RequeueAfter: portalPause}, nil
}

// warn records Events on an object, once for each generation.
func (r *portalObjects[T]) warn(ctx context.Context, object T, warnings []string) {
	of := temporal.Object{
		APIVersion: sreportalv1.GroupVersion.String(), Kind: r.kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
	const mostWarnings = 10
	var warned []events.ObjectEvent
	for i, warning := range warnings[:min(len(warnings), mostWarnings)] {
		warned = append(warned, events.ObjectEvent{
			Number: int32(object.GetGeneration())*mostWarnings + int32(i), Warning: true, Reason: "MaintenanceWarning", Message: warning, At: time.Now(),
		})
	}
	events.RecordOn(ctx, r.cluster, of, warned)
}

// withdraw removes an object from a portal, if that runs.
func (r *portalObjects[T]) withdraw(ctx context.Context, name string, object T) error {
	if name == "" {
		return nil
	}
	request := r.declare(object)
	request.Withdrawn = true
	_, err := r.update(ctx, name, request, false)
	if _, closed := errors.AsType[*serviceerror.NotFound](err); closed {
		return nil
	}
	return describe("remove "+r.kind+" "+object.GetName()+" from portal "+name, err)
}

// update sends a request to a portal, and starts the portal if it has to.
func (r *portalObjects[T]) update(ctx context.Context, name string, request portal.ObjectRequest, start bool) (portal.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	options := temporal.StatusPortalOptions(name)
	update := client.UpdateWorkflowOptions{
		WorkflowID: options.ID, UpdateName: temporal.UpdateDeclare, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	var answer portal.Answer
	var sent client.WorkflowUpdateHandle
	var err error
	if start {
		sent, err = r.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: r.temporal.NewWithStartWorkflowOperation(options, temporal.StatusPortal), UpdateOptions: update,
		})
	} else {
		sent, err = r.temporal.UpdateWorkflow(ctx, update)
	}
	if err == nil {
		err = sent.Get(ctx, &answer)
	}
	return answer, err
}

// refuse shows on an object why no portal shows it.
func (r *portalObjects[T]) refuse(ctx context.Context, object T, reason, message string) error {
	return refuseWith(ctx, r.cluster.Client, object, sreportalv1.ConditionReady, r.status(object).conditions, refusal(reason, message))
}

// Package objects holds the activities that write to the objects from which workflows were started.
package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Finalizer keeps an object until the workflow that it started has cleaned up.
const Finalizer = "drydock.dev/cleanup"

// Activities write to objects.
type Activities struct {
	Clusters *kube.Clusters
	// Workflows is queried for statuses that are too large for an input.
	Workflows activitykit.Querier

	schemas schemas
}

// Request is the current state of an object that requests work.
type Request struct {
	// Gone: the object was deleted, or another one has its name.
	Gone bool `json:"gone,omitempty"`
	// Reasons are the reasons of its conditions, by type.
	Reasons map[string]string `json:"reasons,omitempty"`
}

// ReadRequest reads an object from the API server.
func (a *Activities) ReadRequest(ctx context.Context, of temporal.Object) (Request, error) {
	cluster, err := a.Clusters.ClusterOrHub(ctx, of.Cluster)
	if err != nil {
		return Request{}, err
	}
	object := identity(of)
	switch err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(err):
		return Request{Gone: true}, nil
	case err != nil:
		return Request{}, fmt.Errorf("read %s: %w", of, err)
	}
	return Request{Gone: object.GetUID() != of.UID, Reasons: reasonsOf(object)}, nil
}

// reasonsOf returns the reasons of the conditions of an object, by type.
func reasonsOf(object *unstructured.Unstructured) map[string]string {
	reasons := map[string]string{}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		fields, _ := entry.(map[string]any)
		conditionType, _ := fields["type"].(string)
		reasons[conditionType], _ = fields["reason"].(string)
	}
	return reasons
}

// PublishStatusInput is the status of an object.
type PublishStatusInput struct {
	Object temporal.Object `json:"object"`
	// Status has the fields that the workflow owns. Fields of earlier statuses that it lacks are removed. nil: the workflow is queried for it.
	Status any `json:"status,omitempty"`
	// Annotations to set.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Events to record on the object, and on nodes.
	Events  []events.ObjectEvent `json:"events,omitempty"`
	OnNodes []events.NodeEvent   `json:"onNodes,omitempty"`
	// Final: the workflow ends. A deleted object is released.
	Final bool `json:"final,omitempty"`
	// Delete the object after a final status.
	Delete bool `json:"delete,omitempty"`
}

// PublishStatusResult is the result of PublishStatus.
type PublishStatusResult struct {
	// Gone: the object was deleted, or another one has its name. There is nothing left to publish to.
	Gone bool `json:"gone,omitempty"`
}

// PublishStatus writes the status of an object, as field manager "drydock". Other writers keep their fields. The Events on nodes do not depend on the object.
func (a *Activities) PublishStatus(ctx context.Context, in PublishStatusInput) (PublishStatusResult, error) {
	cluster, err := a.Clusters.ClusterOrHub(ctx, in.Object.Cluster)
	if err != nil {
		return PublishStatusResult{}, err
	}
	written, err := a.writeTo(ctx, cluster, in)
	record(ctx, cluster, in, written != nil)
	switch {
	case err != nil:
		return PublishStatusResult{}, err
	case written == nil:
		return PublishStatusResult{Gone: true}, nil
	case !in.Final:
		return PublishStatusResult{}, nil
	}
	return PublishStatusResult{}, end(ctx, cluster, in, written)
}

// writeTo writes to the object, and returns it; nil: it does not exist.
func (a *Activities) writeTo(ctx context.Context, cluster *kube.Cluster, in PublishStatusInput) (*unstructured.Unstructured, error) {
	found, err := a.find(ctx, cluster, in.Object)
	if !found || err != nil {
		return nil, err
	}
	written, err := a.write(ctx, cluster, in)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("publish the status of %s: %w", in.Object, err)
	}
	return written, nil
}

// record records the Events on nodes, and those on the object if its status is written. They share a limit: the attempt must have an answer.
func record(ctx context.Context, cluster *kube.Cluster, in PublishStatusInput, written bool) {
	ctx, cancel := context.WithTimeout(ctx, events.Timeout)
	defer cancel()
	for _, event := range in.OnNodes {
		events.Record(ctx, cluster, event.NodeRef, event.Event)
	}
	if written {
		events.RecordOn(ctx, cluster, in.Object, in.Events)
	}
}

// PublishedStatus is the result of one write of PublishStatuses.
type PublishedStatus struct {
	// Gone is as in PublishStatusResult.
	Gone bool `json:"gone,omitempty"`
	// Error is why the status could not be written; empty: it was.
	Error string `json:"error,omitempty"`
}

// statusesInParallel limits the writes in progress of PublishStatuses.
const statusesInParallel = 10

// PublishStatuses writes the statuses of several objects. The failure of one does not affect the others.
func (a *Activities) PublishStatuses(ctx context.Context, all []PublishStatusInput) ([]PublishedStatus, error) {
	results := make([]PublishedStatus, len(all))
	var group errgroup.Group
	group.SetLimit(statusesInParallel)
	for i, in := range all {
		group.Go(func() error {
			result, err := a.PublishStatus(ctx, in)
			if results[i].Gone = result.Gone; err != nil {
				results[i].Error = err.Error()
			}
			return nil
		})
	}
	return results, errors.Join(group.Wait(), ctx.Err())
}

// find reports whether the object exists, and no other has its name. The API server does not compare the UID of a status that is applied.
func (a *Activities) find(ctx context.Context, cluster *kube.Cluster, of temporal.Object) (bool, error) {
	if cachedObject(ctx, cluster, of) != nil {
		return true, nil
	}
	current, err := a.ReadRequest(ctx, of) // the cache may be behind
	return !current.Gone, err
}

// cachedObject reads an object from the cache; nil: it does not have the object.
func cachedObject(ctx context.Context, cluster *kube.Cluster, of temporal.Object) client.Object {
	known, err := cluster.Client.Scheme().New(of.GroupVersionKind())
	if err != nil {
		return nil
	}
	cached := known.(client.Object)
	if cluster.Cache.Get(ctx, client.ObjectKeyFromObject(identity(of)), cached) != nil || cached.GetUID() != of.UID {
		return nil
	}
	return cached
}

// write writes the annotations and the status, and returns the object.
func (a *Activities) write(ctx context.Context, cluster *kube.Cluster, in PublishStatusInput) (*unstructured.Unstructured, error) {
	if len(in.Annotations) > 0 {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": in.Annotations}})
		if err != nil {
			return nil, err
		}
		if err := cluster.Client.Patch(ctx, identity(in.Object), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return nil, err
		}
	}
	status, err := a.statusOf(ctx, in)
	if err != nil {
		return nil, err
	}
	applied := identity(in.Object)
	applied.Object["status"] = status
	return applied, a.schemas.apply(ctx, cluster, applied)
}

// statusOf returns the fields of the status.
func (a *Activities) statusOf(ctx context.Context, in PublishStatusInput) (map[string]any, error) {
	if in.Status != nil {
		return fieldsOf(in.Status)
	}
	run := activity.GetInfo(ctx).WorkflowExecution
	answer, err := a.Workflows.QueryWorkflow(ctx, run.ID, run.RunID, temporal.QueryObjectStatus)
	if err != nil {
		return nil, fmt.Errorf("query %s of workflow %s: %w", temporal.QueryObjectStatus, run.ID, err)
	}
	var status map[string]any
	return status, answer.Get(&status)
}

// end releases an object whose workflow ends, if it is deleted or has to be. written is the object as the API server has answered.
func end(ctx context.Context, cluster *kube.Cluster, in PublishStatusInput, written *unstructured.Unstructured) error {
	if !in.Delete {
		return releaseDeleted(ctx, cluster, in.Object, written)
	}
	err := cluster.Client.Delete(ctx, identity(in.Object), client.Preconditions{UID: &in.Object.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", in.Object, err)
	}
	object := identity(in.Object)
	switch err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", in.Object, err)
	}
	return releaseDeleted(ctx, cluster, in.Object, object)
}

// Publish writes the status of an object. All CRDs of its kind must have the fields.
func Publish(ctx context.Context, c client.Client, object client.Object, status any) error {
	fields, err := fieldsOf(status)
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{}
	applied.SetGroupVersionKind(kind)
	applied.SetNamespace(object.GetNamespace())
	applied.SetName(object.GetName())
	applied.Object["status"] = fields
	return apply(ctx, c, applied)
}

// apply applies the status of an object.
func apply(ctx context.Context, c client.Client, applied *unstructured.Unstructured) error {
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership)
}

// fieldsOf returns a status as JSON fields.
func fieldsOf(status any) (map[string]any, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(text, &fields)
}

// identity returns the object without content.
func identity(o temporal.Object) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(o.GroupVersionKind())
	object.SetNamespace(o.Namespace)
	object.SetName(o.Name)
	return object
}

// releaseDeleted removes the finalizer of an object that was just read, if it is being deleted.
func releaseDeleted(ctx context.Context, cluster *kube.Cluster, of temporal.Object, object *unstructured.Unstructured) error {
	if object.GetUID() != of.UID || object.GetDeletionTimestamp() == nil {
		return nil
	}
	return Release(ctx, cluster.Client, object)
}

// ReleaseLast releases an object that is being deleted if only Drydock keeps it, and reports whether that was done: the object has no status to show then.
func ReleaseLast(ctx context.Context, cluster *kube.Cluster, of temporal.Object) (bool, error) {
	cached := cachedObject(ctx, cluster, of)
	if cached == nil || cached.GetDeletionTimestamp() == nil {
		return false, nil // or the cache is behind
	}
	ours := []string{Finalizer, originalFinalizers[of.Kind]}
	if slices.ContainsFunc(cached.GetFinalizers(), func(f string) bool { return !slices.Contains(ours, f) }) {
		return false, nil
	}
	err := Release(ctx, cluster.Client, cached.DeepCopyObject().(client.Object))
	return err == nil, err
}

// originalFinalizers are the finalizers of the original operators. An object that one of them had held is released together with Drydock's own.
var originalFinalizers = map[string]string{
	"NodeMaintenance":     "maintenance.nvidia.com/finalizer",
	"ClusterGroupUpgrade": "ran.openshift.io/cleanup-finalizer",
}

// Release removes the finalizers from an object.
func Release(ctx context.Context, c client.Client, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err
	}
	ours, theirs := controllerutil.RemoveFinalizer(object, Finalizer), controllerutil.RemoveFinalizer(object, originalFinalizers[kind.Kind])
	if !ours && !theirs {
		return nil
	}
	err = c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove the finalizer %s: %w", Finalizer, err)
	}
	return nil
}

// Hold adds the finalizer to an object, and makes owner, unless nil, one of its owners: it is deleted when that is. It reports whether it was the first
// to add the finalizer.
func Hold(ctx context.Context, c client.Client, object, owner client.Object) (first bool, err error) {
	before := object.DeepCopyObject().(client.Object)
	first = controllerutil.AddFinalizer(object, Finalizer)
	if owner != nil {
		if err := controllerutil.SetOwnerReference(owner, object, c.Scheme()); err != nil {
			return false, err
		}
	}
	if equality.Semantic.DeepEqual(before, object) {
		return false, nil
	}
	if err := c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("add the finalizer %s: %w", Finalizer, err)
	}
	return first, nil
}

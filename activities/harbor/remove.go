package harbor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"drydock.dev/drydock/activities/activitykit"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Finalizer keeps a deleted HarborCluster until its objects are gone.
const Finalizer = harbor.Finalizer

// appliedHarborCluster returns the object to apply: a person's HarborCluster with Drydock's finalizer.
func appliedHarborCluster(hc goharborv1.HarborCluster) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&hc)
	if err != nil {
		return nil, fmt.Errorf("HarborCluster %s/%s: %w", hc.Namespace, hc.Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields["spec"]}}
	object.SetGroupVersionKind(goharborv1.GroupVersion.WithKind("HarborCluster"))
	object.SetNamespace(hc.Namespace)
	object.SetName(hc.Name)
	object.SetLabels(hc.Labels)
	object.SetAnnotations(hc.Annotations)
	object.SetFinalizers([]string{Finalizer})
	return object, nil
}

// AddHarborFinalizer adds our finalizer to a HarborCluster. It returns no error if the object is gone or is being deleted.
func (h *Activities) AddHarborFinalizer(ctx context.Context, in Ref) error {
	return h.change(ctx, in, "hold", func(ctx context.Context, c client.Client, hc *goharborv1.HarborCluster) (bool, error) {
		if hc.DeletionTimestamp != nil || !controllerutil.AddFinalizer(hc, Finalizer) {
			return false, nil
		}
		change := map[string]any{"finalizers": hc.Finalizers}
		if hc.Annotations[harbor.AnnotationUnmanaged] != "" {
			change["annotations"] = map[string]any{harbor.AnnotationUnmanaged: nil}
		}
		return true, patchExactly(ctx, c, hc, change)
	})
}

// RemoveFinalizerInput names the HarborCluster from which the finalizer is removed.
type RemoveFinalizerInput struct {
	Ref
	// Removed: its objects are gone. If not, the finalizer stays on an object that is being deleted, and another is marked as no longer managed.
	Removed bool `json:"removed,omitempty"`
}

// RemoveHarborFinalizer removes our finalizer. It returns no error if the HarborCluster is gone.
func (h *Activities) RemoveHarborFinalizer(ctx context.Context, in RemoveFinalizerInput) error {
	return h.change(ctx, in.Ref, "release", func(ctx context.Context, c client.Client, hc *goharborv1.HarborCluster) (bool, error) {
		if hc.DeletionTimestamp != nil && !in.Removed || !controllerutil.RemoveFinalizer(hc, Finalizer) {
			return false, nil
		}
		change := map[string]any{"finalizers": hc.Finalizers}
		if hc.DeletionTimestamp == nil {
			change["annotations"] = map[string]any{harbor.AnnotationUnmanaged: strconv.FormatInt(hc.Generation, 10)}
		}
		return true, patchExactly(ctx, c, hc, change)
	})
}

// DeleteHarborCluster deletes a HarborCluster, which our finalizer keeps until the objects that belong to it are gone. If it has no finalizer yet, it gets
// one first: without it, the objects would stay or go without regard to the deletionPolicy. Errors: NotFound.
func (h *Activities) DeleteHarborCluster(ctx context.Context, in Ref) error {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	hc, err := readHarborCluster(ctx, cluster.Client, in)
	if err == nil && hc == nil {
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s has no %s", cluster.Name, in), nil)
	}
	if err == nil && hc.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(hc, Finalizer) {
		in.UID = hc.UID
		if err := h.AddHarborFinalizer(ctx, in); err != nil {
			return err
		}
	}
	if err == nil && hc.DeletionTimestamp == nil {
		err = kube.DeleteExactly(ctx, cluster.Client, hc)
	}
	return explainHarbor(cluster, in, "delete "+in.String(), err)
}

// change changes a HarborCluster if necessary, and retries after a conflict. It ignores a deleted object and a later one of the same name. It starts with
// the cache, because an outdated object causes a conflict; only the API server confirms that no change is necessary.
func (h *Activities) change(ctx context.Context, ref Ref, doing string,
	change func(context.Context, client.Client, *goharborv1.HarborCluster) (changed bool, err error),
) error {
	cluster, err := h.Clusters.Cluster(ctx, ref.Cluster)
	if err != nil {
		return err
	}
	attempt := func(reader client.Reader) (changed bool, err error) {
		hc, err := readHarborCluster(ctx, reader, ref)
		if err != nil || hc == nil || ref.UID != "" && hc.UID != ref.UID {
			return false, err
		}
		return change(ctx, cluster.Client, hc)
	}
	if changed, err := attempt(cluster.Cache); changed && err == nil {
		return nil
	}
	err = kube.RetryOnConflict(func() error {
		_, err := attempt(cluster.Client)
		return client.IgnoreNotFound(err)
	})
	return explainHarbor(cluster, ref, doing+" "+ref.String(), err)
}

// RemovePartInput names a part of a HarborCluster that is being deleted.
type RemovePartInput struct {
	Ref
	Part harbor.Part `json:"part"`
}

// RemovePartResult names objects that were not removed.
type RemovePartResult struct {
	// Foreign is an object with the name of one of the part's objects that does not belong to the HarborCluster; empty: none. Then the Secrets and
	// claims of the part stay, because that object may use them.
	Foreign string `json:"foreign,omitempty"`
	// Gone: the HarborCluster no longer exists. The part stays, because its objects are unknown.
	Gone bool `json:"gone,omitempty"`
}

// RemoveHarborPart deletes the objects of a part of a HarborCluster that is being deleted, and waits until they are gone. With deletionPolicy Retain,
// services with data stay: their operators would delete the data, too. Foreign objects stay. Claims are deleted without a wait, because pods may still
// use them. When Harbor is removed, a condition of the object records it. Errors: Held if the cluster is held.
func (h *Activities) RemoveHarborPart(ctx context.Context, in RemovePartInput) (RemovePartResult, error) {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return RemovePartResult{}, err
	}
	doing := fmt.Sprintf("remove the %s of %s", in.Part, in.Ref)
	hc, err := readHarborCluster(ctx, cluster.Client, in.Ref)
	if err != nil || hc == nil || hc.UID != in.UID || hc.DeletionTimestamp == nil {
		return RemovePartResult{Gone: err == nil}, explainHarbor(cluster, in.Ref, doing, err)
	}
	if err := h.Waits.UnlessHeld(ctx); err != nil {
		return RemovePartResult{}, err
	}
	if in.Part == harbor.PartHarbor {
		said := WriteStatusInput{Ref: in.Ref, Status: harbor.BeingRemoved(hc.Status, hc.Generation, time.Now())}
		if err := h.WriteHarborStatus(ctx, said); err != nil && activity.IsActivity(ctx) {
			activity.GetLogger(ctx).Warn("failed to write that a part is being removed", "error", err) // the removal continues
		}
	}
	r := removal{cluster: cluster, hc: hc, part: in.Part, waits: h.Waits}
	err = r.run(ctx, harbor.RemovalOf(hc, in.Part))
	return RemovePartResult{Foreign: r.foreign}, explainHarbor(cluster, in.Ref, doing, err)
}

// removal is one attempt at RemoveHarborPart.
type removal struct {
	cluster *kube.Cluster
	hc      *goharborv1.HarborCluster
	part    harbor.Part
	waits   activitykit.Waits
	// foreign is a found object that does not belong to the HarborCluster; empty: none.
	foreign string
}

// presence is the state of an object with the name of one of the part's.
type presence int

const (
	absent presence = iota
	ours
	foreign
)

// run continues only when objects are gone: a database that is still ending may need its passwords.
func (r *removal) run(ctx context.Context, removal harbor.Removal) error {
	for _, object := range removal.Kept {
		if err := r.keep(ctx, object); err != nil {
			return err
		}
	}
	for _, object := range removal.Objects {
		if err := r.removeObject(ctx, object); err != nil {
			return err
		}
	}
	if r.foreign != "" {
		return nil // claims are identified only by the name of that object
	}
	for _, name := range removal.Secrets {
		if _, err := r.remove(ctx, metadataOf(harbor.Secret, r.hc.Namespace, name)); err != nil {
			return err
		}
	}
	if len(removal.Claims) == 0 {
		return nil
	}
	return r.removeClaims(ctx, client.InNamespace(r.hc.Namespace), client.MatchingLabels(removal.Claims))
}

// removeClaims deletes the claims of a part. They have only labels of their operator, with the name of the deleted object.
func (r *removal) removeClaims(ctx context.Context, namespace client.InNamespace, picked client.MatchingLabels) error {
	claims := &metav1.PartialObjectMetadataList{}
	claims.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := r.cluster.Client.List(ctx, claims, namespace, picked); err != nil {
		return err
	}
	if !slices.ContainsFunc(claims.Items, func(claim metav1.PartialObjectMetadata) bool { return claim.DeletionTimestamp == nil }) {
		return nil
	}
	return r.cluster.Client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, namespace, picked)
}

// keep detaches an object from the HarborCluster, so that it stays. It returns no error if there is none.
func (r *removal) keep(ctx context.Context, named harbor.Object) error {
	err := ownByLabel(ctx, r.cluster.Client, r.hc, metadataOf(named.Kind, r.hc.Namespace, named.Name))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// removeObject deletes an object and waits until it is gone.
func (r *removal) removeObject(ctx context.Context, named harbor.Object) error {
	object := metadataOf(named.Kind, r.hc.Namespace, named.Name)
	found, err := r.remove(ctx, object)
	if found == foreign {
		r.foreign = named.Kind.Kind + " " + r.hc.Namespace + "/" + named.Name
	}
	if err != nil || found != ours || named.Kind == harbor.Job {
		return err
	}
	watched := &unstructured.Unstructured{}
	watched.SetGroupVersionKind(named.Kind)
	watched.SetNamespace(r.hc.Namespace)
	watched.SetName(named.Name)
	return r.waits.Await(ctx, r.cluster, []client.Object{kube.SingleObject(watched)}, func(ctx context.Context) (temporal.Observation, bool, error) {
		there := object.DeepCopy()
		err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), there)
		gone := apierrors.IsNotFound(err) || err == nil && there.UID != object.UID
		return temporal.Observation{Part: string(r.part), Wait: harbor.DeletionWait(there)}, gone, client.IgnoreNotFound(err)
	})
}

// remove deletes an object if it belongs to the HarborCluster and is not being deleted, and returns what it found.
func (r *removal) remove(ctx context.Context, object *metav1.PartialObjectMetadata) (presence, error) {
	err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return absent, nil
	case err != nil:
		return absent, err
	case !harbor.Belongs(object, r.hc.Name):
		return foreign, nil
	case object.DeletionTimestamp != nil:
		return ours, nil
	}
	return ours, kube.DeleteExactly(ctx, r.cluster.Client, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

package harbor

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// ApplyClusterInput is a HarborCluster to apply.
type ApplyClusterInput struct {
	Cluster string                   `json:"cluster"`
	Object  goharborv1.HarborCluster `json:"object"`
}

// ApplyClusterResult is the object that was applied.
type ApplyClusterResult struct {
	Ref
	Generation int64 `json:"generation"`
}

// ApplyHarborCluster applies a HarborCluster with Drydock's finalizer. Errors: InvalidSpec when the API server refuses it, its namespace is
// missing, or the CRD is not ours; NotFound when the cluster does not serve the kind, or it is being deleted.
func (h *Activities) ApplyHarborCluster(ctx context.Context, in ApplyClusterInput) (ApplyClusterResult, error) {
	ref := Ref{Cluster: in.Cluster, Namespace: in.Object.Namespace, Name: in.Object.Name}
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return ApplyClusterResult{}, err
	}
	there, err := readHarborCluster(ctx, cluster.Client, ref)
	if err == nil && there != nil && there.DeletionTimestamp != nil {
		return ApplyClusterResult{}, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s: %s is being deleted: apply it again when it is gone", cluster.Name, ref), nil)
	}
	object, convertErr := appliedHarborCluster(in.Object)
	if convertErr != nil {
		return ApplyClusterResult{}, convertErr
	}
	if err == nil {
		err = cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership)
	}
	if apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return ApplyClusterResult{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s has no namespace %s: create it", cluster.Name, ref.Namespace), err)
	}
	if undeclared(err) {
		return ApplyClusterResult{}, otherCRD(ref, "apply", err)
	}
	if err == nil && object.GetAnnotations()[harbor.AnnotationUnmanaged] != "" {
		err = patchExactly(ctx, cluster.Client, object, map[string]any{"annotations": map[string]any{harbor.AnnotationUnmanaged: nil}})
	}
	ref.UID = object.GetUID()
	return ApplyClusterResult{Ref: ref, Generation: object.GetGeneration()}, explainHarbor(cluster, ref, "apply "+ref.String(), err)
}

// WriteStatusInput is the status of a HarborCluster.
type WriteStatusInput struct {
	Ref
	Status goharborv1.HarborClusterStatus `json:"status"`
}

// WriteHarborStatus writes the status of a HarborCluster; conditions of other types stay. It returns no error if the object is gone. Errors: InvalidSpec if
// the CRD is not Drydock's: it requires other fields, or drops ours.
func (h *Activities) WriteHarborStatus(ctx context.Context, in WriteStatusInput) error {
	const doing = "write the status of"
	var before, written *goharborv1.HarborCluster
	err := h.change(ctx, in.Ref, doing, func(ctx context.Context, c client.Client, hc *goharborv1.HarborCluster) (bool, error) {
		before, written = hc.DeepCopy(), nil
		if harbor.SameStatus(hc.Status, in.Status) {
			return false, nil
		}
		hc.Status = harbor.WithOthers(in.Status, hc.Status)
		hc.Status.Revision = time.Now().UnixNano()
		hc.Status.Operator = goharborv1.OperatorStatus{ControllerName: kube.FieldManager, ControllerVersion: h.Build.Version, ControllerGitCommit: h.Build.Commit}
		err := c.Status().Update(ctx, hc)
		switch {
		case apierrors.IsInvalid(err):
			err = otherCRD(in.Ref, doing, err)
		case err == nil && !harbor.SameStatus(hc.Status, in.Status):
			err = otherCRD(in.Ref, doing, errors.New("it does not keep all of it"))
		case err == nil:
			written = hc
		}
		return true, err
	})
	if err != nil || written == nil {
		return err
	}
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err == nil {
		announce(ctx, cluster, before, written)
	}
	return nil // the status is written
}

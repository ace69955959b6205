package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

// harborClusters is the kind HarborCluster. Its workflow watches the object; the controller starts it, and starts it again if it ended.
func harborClusters() kind {
	gvk := goharborv1.GroupVersion.WithKind("HarborCluster")
	return kind{
		name:     gvk.Kind,
		resource: goharborv1.GroupVersion.WithResource("harborclusters").GroupResource(),
		gvk:      gvk,
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			if err := hasDrydocksHarborCRD(cluster); err != nil {
				return nil, err
			}
			reconciler := newRequests(&harborCluster{cluster}, gvk, cluster, options)
			reconciler.standing, reconciler.finalizer, reconciler.follows = true, harbor.Finalizer, true
			return reconciler.watch(options), nil
		},
	}
}

// definitionTimeout limits the read of a CRD.
const definitionTimeout = 10 * time.Second

// errOtherHarborCRD: HarborClusters are those of the Harbor operator, and a status of Drydock's could not be stored.
var errOtherHarborCRD = errors.New("the cluster's CRD of HarborCluster is not Drydock's: HarborClusters are left to the Harbor operator; " +
	"to move them to Drydock, see docs/how-to/migrate-from-the-harbor-operator.md")

// hasDrydocksHarborCRD checks that the CRD of HarborCluster has Drydock's fields.
func hasDrydocksHarborCRD(cluster *kube.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), definitionTimeout)
	defer cancel()
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	if err := cluster.Client.Get(ctx, kubeclient.ObjectKey{Name: "harborclusters.goharbor.io"}, definition); err != nil {
		return fmt.Errorf("read the CRD of HarborCluster: %w", err)
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		_, ours, _ := unstructured.NestedFieldNoCopy(fields, "schema", "openAPIV3Schema", "properties", "spec", "properties", "progressDeadlineSeconds")
		if ours && fields["name"] == goharborv1.GroupVersion.Version {
			return nil
		}
	}
	return errOtherHarborCRD
}

// harborCluster is how HarborClusters of one cluster start their workflows.
type harborCluster struct{ cluster *kube.Cluster }

func (h *harborCluster) workflow(name types.NamespacedName) (workflowType, id string) {
	return temporal.HarborCluster, temporal.HarborClusterID(h.cluster.Name, name.Namespace, name.Name)
}

func (h *harborCluster) running() string {
	return fmt.Sprintf("%s AND %s = '%s'", observe.WorkflowsOf(temporal.HarborCluster, true), temporal.AttributeCluster.GetName(), h.cluster.Name)
}

// harborRequest is what starts the workflow of a HarborCluster again when it changes.
type harborRequest struct {
	UID        types.UID
	Generation int64
	Unmanaged  string
	Deleted    bool
}

func (h *harborCluster) request(object *goharborv1.HarborCluster) any {
	return harborRequest{object.UID, object.Generation, object.Annotations[harbor.AnnotationUnmanaged], object.DeletionTimestamp != nil}
}

func (h *harborCluster) besideSpec(object *goharborv1.HarborCluster) any {
	return object.Annotations[harbor.AnnotationUnmanaged]
}

// gone is never sent: the workflow sees it.
func (h *harborCluster) gone(uid types.UID) any { return harborRequest{UID: uid, Deleted: true} }

// over: a person stopped the management of the object, and it has not been edited since.
func (h *harborCluster) over(object *goharborv1.HarborCluster, _ bool) bool {
	return harbor.Unmanaged(object)
}

func (h *harborCluster) adopts(run) bool { return false }

func (h *harborCluster) condition() string { return string(goharborv1.ConfigurationReady) }

func (h *harborCluster) conditions(*goharborv1.HarborCluster) []metav1.Condition { return nil }

func (h *harborCluster) prepare(_ context.Context, of temporal.Object, _ *goharborv1.HarborCluster) (*start, *metav1.Condition, error) {
	return &start{
		options: temporal.HarborClusterOptions(of.Cluster, of.Namespace, of.Name),
		input:   harborworkflow.Input{Cluster: of.Cluster, Namespace: of.Namespace, Name: of.Name},
	}, nil, nil
}

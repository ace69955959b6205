package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drydock.dev/drydock/activities/objects"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// reasonNodeNotFound is the reason of the condition Ready of a request for a node that does not exist.
const reasonNodeNotFound = "NodeNotFound"

// nodeMaintenances is the kind NodeMaintenance.
func nodeMaintenances() kind {
	gvk := maintenancev1.GroupVersion.WithKind("NodeMaintenance")
	return kind{
		name:     gvk.Kind,
		resource: maintenancev1.GroupVersion.WithResource("nodemaintenances").GroupResource(),
		gvk:      gvk,
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			of := &nodeMaintenance{cluster: cluster}
			nodes := kindSource(cluster.Cache, &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(of.requestsForNode), appeared[*corev1.Node]())
			return newRequests(of, gvk, cluster, options).watch(options, nodes), nil
		},
	}
}

// nodeMaintenance is how NodeMaintenances of one cluster request maintenances.
type nodeMaintenance struct{ cluster *kube.Cluster }

// requestsForNode returns the requests for a new node.
func (n *nodeMaintenance) requestsForNode(ctx context.Context, node *corev1.Node) []reconcile.Request {
	var all maintenancev1.NodeMaintenanceList
	if err := n.cluster.Cache.List(ctx, &all); err != nil {
		return nil // the first list of the requests reconciles them all
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if all.Items[i].Spec.NodeName == node.Name && phase(&all.Items[i]) == reasonNodeNotFound {
			requests = append(requests, reconcile.Request{NamespacedName: kubeclient.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// phase returns the reason of the condition Ready; "" if the object has none.
func phase(object *maintenancev1.NodeMaintenance) string {
	if ready := meta.FindStatusCondition(object.Status.Conditions, maintenancev1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

func (n *nodeMaintenance) workflow(name types.NamespacedName) (workflowType, id string) {
	return temporal.NodeMaintenance, temporal.NodeMaintenanceID(n.cluster.Name, name.Namespace, name.Name)
}

func (n *nodeMaintenance) running() string {
	return fmt.Sprintf("%s AND %s = '%s'", observe.WorkflowsOf(temporal.NodeMaintenance, true), temporal.AttributeCluster.GetName(), n.cluster.Name)
}

func (n *nodeMaintenance) condition() string { return maintenancev1.ConditionReady }

func (n *nodeMaintenance) conditions(object *maintenancev1.NodeMaintenance) []metav1.Condition {
	return object.Status.Conditions
}

func (n *nodeMaintenance) over(object *maintenancev1.NodeMaintenance, served bool) bool {
	return served || maintenancev1.NodeState(phase(object)).Over()
}

func (n *nodeMaintenance) adopts(run) bool { return false }

func (n *nodeMaintenance) gone(uid types.UID) any {
	request := nodemaintenance.ObjectRequest{Gone: true}
	request.UID, request.Deleted = uid, true
	return request
}

func (n *nodeMaintenance) request(object *maintenancev1.NodeMaintenance) any {
	request := nodemaintenance.ObjectRequestOf(object)
	complete, err := completed(object)
	request.Spec = complete.Spec
	if err != nil {
		request.InvalidSpec = err.Error()
	}
	return request
}

func (n *nodeMaintenance) besideSpec(object *maintenancev1.NodeMaintenance) any {
	request := nodemaintenance.ObjectRequestOf(object)
	request.Spec = maintenancev1.NodeMaintenanceSpec{}
	return request
}

func (n *nodeMaintenance) prepare(ctx context.Context, of temporal.Object, object *maintenancev1.NodeMaintenance) (*start, *metav1.Condition, error) {
	complete, err := completed(object)
	if err != nil {
		return nil, refusal(reasonInvalidSpec, err.Error()), nil
	}
	node := &corev1.Node{}
	switch err := n.cluster.Cache.Get(ctx, kubeclient.ObjectKey{Name: object.Spec.NodeName}, node); {
	case apierrors.IsNotFound(err):
		return nil, refusal(reasonNodeNotFound, fmt.Sprintf("spec.nodeName: cluster %s has no node %s", of.Cluster, object.Spec.NodeName)), nil
	case err != nil:
		return nil, nil, err
	}
	first, err := objects.Hold(ctx, n.cluster.Client, object, node)
	if err != nil {
		return nil, nil, err
	}
	complete.Status, complete.ManagedFields = maintenancev1.NodeMaintenanceStatus{}, nil
	begin := &start{options: temporal.NodeMaintenanceOptions(of.Cluster, object.Spec.NodeName, object.Spec.RequestorID)}
	input := nodemaintenance.Input{Cluster: of.Cluster, Object: *complete, Source: &of}
	begin.input = input
	if first {
		input.Unserved = true
		begin.first = input
	}
	return begin, nil, nil
}

// completed returns an object with its defaults, or why its spec is invalid.
func completed(object *maintenancev1.NodeMaintenance) (*maintenancev1.NodeMaintenance, error) {
	complete := object.DeepCopy()
	if complete.Spec.DrainSpec != nil && complete.Spec.OnDrainTimeout == "" {
		complete.Spec.OnDrainTimeout = maintenancev1.DrainTimeoutRetry // as the original operator: its requestors know no drain that fails
	}
	return complete, manifest.Complete(complete)
}

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/safename"
)

// Annotations of a node by which its maintenance is requested without an object.
const (
	// AnnotationMaintain has the requestor. Its removal ends the maintenance.
	AnnotationMaintain = "drydock.dev/maintain"
	// The others show the state of the maintenance, why it has that state, and since when.
	AnnotationMaintainState  = "drydock.dev/maintain-state"
	AnnotationMaintainReason = "drydock.dev/maintain-reason"
	AnnotationMaintainSince  = "drydock.dev/maintain-since"
)

// labelNodeAnnotation marks the NodeMaintenances that annotations of nodes request.
const labelNodeAnnotation = "drydock.dev/node-annotation"

// nodeAnnotations is the controller that keeps a NodeMaintenance for each annotated node.
func nodeAnnotations() kind {
	gvk := maintenancev1.GroupVersion.WithKind("NodeMaintenance")
	return kind{
		name:     "node annotations",
		resource: maintenancev1.GroupVersion.WithResource("nodemaintenances").GroupResource(),
		gvk:      gvk,
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			nodes := kindSource(cluster.Cache, &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{}, annotationChanges())
			requests := kindSource(cluster.Cache, &maintenancev1.NodeMaintenance{}, handler.TypedEnqueueRequestsFromMapFunc(annotatedNode))
			return newController("node-annotations", &nodeAnnotation{cluster: cluster}, options, nodes, requests), nil
		},
	}
}

// annotationChanges omits updates of nodes that do not change the annotations of this controller.
func annotationChanges() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return e.ObjectOld.UID != e.ObjectNew.UID || !maps.Equal(maintainAnnotations(e.ObjectOld), maintainAnnotations(e.ObjectNew))
		},
	}
}

// maintainAnnotations returns the annotations of a node that this controller reads and writes; "": the node lacks it.
func maintainAnnotations(node *corev1.Node) map[string]string {
	found := map[string]string{}
	for _, key := range []string{AnnotationMaintain, AnnotationMaintainState, AnnotationMaintainReason, AnnotationMaintainSince} {
		found[key] = node.Annotations[key]
	}
	return found
}

// annotatedNode returns the node whose annotation requests a maintenance.
func annotatedNode(_ context.Context, object *maintenancev1.NodeMaintenance) []reconcile.Request {
	if _, ours := object.Labels[labelNodeAnnotation]; !ours {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.Spec.NodeName}}}
}

// nodeAnnotation reconciles the annotations of the nodes of one cluster.
type nodeAnnotation struct{ cluster *kube.Cluster }

// Reconcile creates the NodeMaintenance that a node requests, deletes those that it no longer requests, and shows the state on the node.
func (n *nodeAnnotation) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := n.cluster.Cache.Get(ctx, request.NamespacedName, node); kubeclient.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	var all maintenancev1.NodeMaintenanceList
	if err := n.cluster.Cache.List(ctx, &all, kubeclient.HasLabels{labelNodeAnnotation}); err != nil {
		return reconcile.Result{}, err
	}
	wanted := node.Annotations[AnnotationMaintain]
	var current, ending *maintenancev1.NodeMaintenance
	for i := range all.Items {
		object := &all.Items[i]
		if object.Spec.NodeName != request.Name {
			continue
		}
		if object.Spec.RequestorID == wanted && object.Labels[labelNodeAnnotation] == string(node.UID) && object.DeletionTimestamp == nil {
			current = object
			continue
		}
		ending = object
		if err := n.delete(ctx, object); err != nil {
			return reconcile.Result{}, err
		}
	}
	if node.UID == "" {
		return reconcile.Result{}, nil
	}
	state := stateOf(current, ending)
	if wanted != "" && state == nil { // a former requestor leaves first
		refused, err := n.create(ctx, node, wanted)
		if err != nil {
			return reconcile.Result{}, err
		}
		state = refused
	}
	again := reconcile.Result{}
	if state[AnnotationMaintainState] == reasonNameInUse {
		again.RequeueAfter = occupiedPause
	}
	return again, n.show(ctx, node, state)
}

// create creates the NodeMaintenance of a node. If it cannot, it returns the annotations that say why.
func (n *nodeAnnotation) create(ctx context.Context, node *corev1.Node, requestor string) (map[string]string, error) {
	object := &maintenancev1.NodeMaintenance{
		TypeMeta: metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: safename.Join("-", node.Name, requestor),
			Labels:      map[string]string{labelNodeAnnotation: string(node.UID)},
			Annotations: map[string]string{maintenancev1.AnnotationKeepStale: "true"}, // the node requests it for as long as it has the annotation
		},
		Spec: maintenancev1.NodeMaintenanceSpec{RequestorID: requestor, NodeName: node.Name, DrainSpec: &maintenancev1.DrainSpec{}},
	}
	if err := manifest.Complete(object.DeepCopy()); err != nil {
		return refusedState(node, reasonInvalidSpec, fmt.Sprintf("annotation %s: %s", AnnotationMaintain, err)), nil
	}
	err := n.cluster.Client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return nil, describe("create a NodeMaintenance for annotation "+AnnotationMaintain, err)
	}
	existing := &maintenancev1.NodeMaintenance{}
	if err := n.cluster.Client.Get(ctx, kubeclient.ObjectKeyFromObject(object), existing); err != nil {
		return nil, kubeclient.IgnoreNotFound(err)
	}
	if existing.Labels[labelNodeAnnotation] != "" {
		return nil, nil // the cache is behind; its event follows
	}
	return refusedState(node, reasonNameInUse, fmt.Sprintf("NodeMaintenance %s/%s exists: delete it, or use another requestor", object.Namespace, object.Name)), nil
}

// delete deletes a NodeMaintenance, unless it is being deleted already.
func (n *nodeAnnotation) delete(ctx context.Context, object *maintenancev1.NodeMaintenance) error {
	if object.DeletionTimestamp != nil {
		return nil
	}
	err := n.cluster.Client.Delete(ctx, object, kubeclient.Preconditions{UID: &object.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return describe("delete NodeMaintenance "+object.Namespace+"/"+object.Name, err)
}

// stateOf returns the annotations that show the state of the maintenance; nil: there is none.
func stateOf(current, ending *maintenancev1.NodeMaintenance) map[string]string {
	object := current
	if object == nil {
		object = ending
	}
	if object == nil {
		return nil
	}
	since := object.CreationTimestamp
	state := map[string]string{AnnotationMaintainState: string(maintenancev1.NodePending), AnnotationMaintainReason: ""}
	if ready := meta.FindStatusCondition(object.Status.Conditions, maintenancev1.ConditionReady); ready != nil {
		state[AnnotationMaintainState], state[AnnotationMaintainReason] = ready.Reason, ready.Message
		since = ready.LastTransitionTime
	}
	if entered := object.Status.States; len(entered) > 0 {
		since = entered[len(entered)-1].At
	}
	state[AnnotationMaintainSince] = since.UTC().Format(time.RFC3339)
	return state
}

// refusedState returns the annotations that show why a node gets no maintenance.
func refusedState(node *corev1.Node, state, reason string) map[string]string {
	since := node.Annotations[AnnotationMaintainSince]
	if node.Annotations[AnnotationMaintainState] != state || since == "" {
		since = time.Now().UTC().Format(time.RFC3339)
	}
	return map[string]string{AnnotationMaintainState: state, AnnotationMaintainReason: reason, AnnotationMaintainSince: since}
}

// show writes the annotations of the state on a node; nil removes them.
func (n *nodeAnnotation) show(ctx context.Context, node *corev1.Node, state map[string]string) error {
	changes := map[string]any{}
	for _, key := range []string{AnnotationMaintainState, AnnotationMaintainReason, AnnotationMaintainSince} {
		shown, exists := node.Annotations[key]
		switch value, wanted := state[key]; {
		case wanted && (!exists || shown != value):
			changes[key] = value
		case !wanted && exists:
			changes[key] = nil
		}
	}
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "annotations": changes}})
	if err != nil {
		return err
	}
	err = n.cluster.Client.Patch(ctx, node.DeepCopy(), kubeclient.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the node was deleted, or created again
		return nil
	}
	return describe("show the maintenance on node "+node.Name, err)
}

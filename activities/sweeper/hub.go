package sweeper

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/views"
)

// hubKinds are the kinds of objects on the hub that rollouts mark.
var hubKinds = map[MarkKind]schema.GroupVersionKind{MarkAction: views.Actions, MarkView: views.Views}

// onHub reports whether the object is on the hub.
func (m Mark) onHub() bool {
	_, is := hubKinds[m.Kind]
	return is
}

// watchedKinds are the kinds to watch for marks of a cluster or the hub.
func watchedKinds(cluster *kube.Cluster) []client.Object {
	if !cluster.Hub {
		return markedKinds()
	}
	return []client.Object{kube.IfServed(newHubObject(MarkAction)), kube.IfServed(newHubObject(MarkView))}
}

func newHubObject(kind MarkKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(hubKinds[kind])
	return object
}

// findAll is findMarks for a cluster or the hub.
func findAll(ctx context.Context, cluster *kube.Cluster, reader client.Reader, allowed allow.List) (marks []Mark, ignored int, err error) {
	if !cluster.Hub {
		return findMarks(ctx, reader, allowed)
	}
	for _, kind := range []MarkKind{MarkAction, MarkView} {
		var list client.ObjectList = &unstructured.UnstructuredList{}
		if reader == client.Reader(cluster.Client) { // a view has a whole object
			list = &metav1.PartialObjectMetadataList{}
		}
		list.GetObjectKind().SetGroupVersionKind(hubKinds[kind].GroupVersion().WithKind(string(kind) + "List"))
		err := activitykit.ListIfServed(ctx, labelled{reader}, list)
		if err != nil && !apierrors.IsForbidden(err) { // without the right to them, Drydock has created none
			return nil, 0, err
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			marks = append(marks, hubMarks(kind, object.(metav1.Object))...)
			return nil
		})
	}
	marks, ignored = onlyPlausible(marks, allowed)
	return marks, ignored, nil
}

// labelled lists only objects of rollouts.
type labelled struct{ client.Reader }

func (l labelled) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return l.Reader.List(ctx, list, append(options, client.MatchingLabels{policies.LabelManagedBy: policies.ManagedBy})...)
}

// hubMarks: an object that is being deleted takes no effect.
func hubMarks(kind MarkKind, object metav1.Object) []Mark {
	owner := kube.Owner(object)
	if owner == "" || object.GetDeletionTimestamp() != nil {
		return nil
	}
	return []Mark{{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Owner: owner}}
}

// OrphanedObject is an object on the hub whose owner is closed.
type OrphanedObject struct {
	Kind      MarkKind `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Owner     string   `json:"owner"`
}

// RemoveOrphanedObject deletes an object on the hub, if it still has the mark of its owner.
func (s *Activities) RemoveOrphanedObject(ctx context.Context, in OrphanedObject) error {
	hub, err := s.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	object := newHubObject(in.Kind)
	object.SetNamespace(in.Namespace)
	object.SetName(in.Name)
	object.SetAnnotations(map[string]string{kube.AnnotationOwner: in.Owner})
	return activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(object), object)
}

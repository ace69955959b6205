package policies

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// sourcesOf are the ConfigMaps that the copy of a policy needs a copy of.
func (r Rollout) sourcesOf(number int) []string {
	if number >= len(r.Sources) {
		return nil
	}
	return r.Sources[number]
}

// copySource copies a ConfigMap that hub templates read, unless the copy has this version of it and its data. It reports whether it wrote the copy. The copy of a
// ConfigMap that does not exist stays: the hub then reports that the policy itself cannot be resolved.
func copySource(ctx context.Context, hub *kube.Cluster, in Rollout, namespace, name string) (written bool, err error) {
	source := &corev1.ConfigMap{}
	switch err := hub.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, source); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, activitykit.Explain(hub, "read ConfigMap "+namespace+"/"+name, err)
	}
	made := policies.SourceCopy(in.name(), source)
	existing := &corev1.ConfigMap{}
	err = hub.Client.Get(ctx, client.ObjectKeyFromObject(made), existing)
	if err == nil && kube.Owner(existing) == in.Owner && isCopyOf(existing, source) && sameData(existing, source) {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, activitykit.Explain(hub, "read ConfigMap "+client.ObjectKeyFromObject(made).String(), err)
	}
	if err := remediation.CreateOrAdopt(ctx, hub, made, in.Owner); err != nil {
		return true, err
	}
	return true, removeKeys(ctx, hub, made, source)
}

// removeKeys removes the keys that another user added to the copy of a ConfigMap.
func removeKeys(ctx context.Context, hub *kube.Cluster, made *unstructured.Unstructured, source *corev1.ConfigMap) error {
	written := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, written); err != nil || sameData(written, source) {
		return err
	}
	before := written.DeepCopy()
	written.Data, written.BinaryData = source.Data, source.BinaryData
	return activitykit.Explain(hub, "restore "+activitykit.ObjectName(made), hub.Client.Patch(ctx, written, client.MergeFrom(before)))
}

// sameData reports whether two ConfigMaps have the same content.
func sameData(one, other *corev1.ConfigMap) bool {
	return equality.Semantic.DeepEqual(one.Data, other.Data) && equality.Semantic.DeepEqual(one.BinaryData, other.BinaryData)
}

// isCopyOf reports whether a ConfigMap is the copy of that version of another one.
func isCopyOf(made, source metav1.Object) bool {
	return made.GetDeletionTimestamp() == nil && made.GetAnnotations()[policies.AnnotationSource] == policies.SourceVersion(source)
}

// configMap is a ConfigMap, to read its metadata.
func configMap(namespace, name string) *metav1.PartialObjectMetadata {
	named := &metav1.PartialObjectMetadata{}
	named.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	named.Namespace, named.Name = namespace, name
	return named
}

// cleanUpSources deletes the copies of ConfigMaps of a rollout. It finds them by their labels: the attempt that made them may have failed later.
func cleanUpSources(ctx context.Context, hub *kube.Cluster, in Rollout) error {
	prepared := len(in.Pins) > 0
	if in.Enforcement.By != ranv1.EnforceCopy || prepared && len(in.Sources) == 0 {
		return nil
	}
	made := &metav1.PartialObjectMetadataList{}
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := hub.Client.List(ctx, made, client.InNamespace(in.Namespace), client.MatchingLabels(policies.RolloutLabels(in.name())))
	if apierrors.IsForbidden(err) && !prepared {
		return nil // without that right there is none
	}
	if err != nil {
		return activitykit.Explain(hub, "list ConfigMaps of namespace "+in.Namespace, err)
	}
	for i := range made.Items {
		object := configMap(in.Namespace, made.Items[i].Name)
		object.SetAnnotations(map[string]string{kube.AnnotationOwner: in.Owner})
		if err := activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(object), object); err != nil {
			return err
		}
	}
	return nil
}

// sourceWatch watches a ConfigMap that hub templates read, and its copy.
type sourceWatch struct {
	source, made *kube.CachedMetadata
	// same are the versions of both that have the same content.
	same string
}

// current reports whether the copy has the content of its source. It reads them only after a change. Without the source, its copy stays.
func (w *sourceWatch) current(ctx context.Context, hub *kube.Cluster) (bool, error) {
	source, made := w.source.List(), w.made.List()
	switch {
	case len(source) == 0:
		return true, nil
	case len(made) == 0 || !isCopyOf(made[0], source[0]):
		return false, nil
	}
	versions := source[0].GetResourceVersion() + "/" + made[0].GetResourceVersion()
	if w.same == versions {
		return true, nil
	}
	var read [2]corev1.ConfigMap
	for i, object := range []client.Object{source[0], made[0]} {
		if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), &read[i]); err != nil {
			return false, client.IgnoreNotFound(err)
		}
	}
	if !sameData(&read[0], &read[1]) {
		return false, nil
	}
	w.same = versions
	return true, nil
}

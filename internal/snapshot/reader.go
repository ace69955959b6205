package snapshot

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var _ client.Reader = (*File)(nil)

// Get returns an object of the file, or a NotFound error. Without a CRD, a file does not tell whether its cluster serves the kind: a NoMatch error.
func (f *File) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(object, f.scheme)
	if err != nil {
		return err
	}
	if found := f.named[gvk][key]; found != nil {
		return convert(found, object)
	}
	if gvk == CRDs {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}, key.Name)
}

// List returns the objects of the file that match the options, in the order of the file. A field selector may name any text field.
func (f *File) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, f.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	picked := (&client.ListOptions{}).ApplyOptions(options)
	var items []any
	for _, object := range f.objects[gvk] {
		if matches(object, picked) {
			items = append(items, object.DeepCopy().Object)
		}
	}
	content := map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind + "List", "items": items}
	if untyped, ok := list.(*unstructured.UnstructuredList); ok {
		untyped.SetUnstructuredContent(content)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, list); err != nil {
		return fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(gvk)
		return nil
	})
}

func matches(object *unstructured.Unstructured, options *client.ListOptions) bool {
	if options.Namespace != "" && options.Namespace != object.GetNamespace() {
		return false
	}
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	return options.FieldSelector == nil || options.FieldSelector.Matches(fieldsOf(object, options.FieldSelector))
}

// fieldsOf returns the fields of the object that the selector names.
func fieldsOf(object *unstructured.Unstructured, selector fields.Selector) fields.Set {
	set := fields.Set{}
	for _, requirement := range selector.Requirements() {
		value, _, _ := unstructured.NestedString(object.Object, strings.Split(requirement.Field, ".")...)
		set[requirement.Field] = value
	}
	return set
}

func convert(from *unstructured.Unstructured, to client.Object) error {
	if untyped, ok := to.(*unstructured.Unstructured); ok {
		untyped.SetUnstructuredContent(from.DeepCopy().Object)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from.DeepCopy().Object, to)
}

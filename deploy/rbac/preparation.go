package rbac

import (
	"errors"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// preparationFile has what Jobs that prepare clusters need.
const preparationFile = "preparation.yaml"

// Preparation returns what preparation.yaml creates for the pods of the Jobs in a namespace, in that order: the namespace, their accounts, and the bindings of
// these accounts.
func Preparation(namespace string) ([]*unstructured.Unstructured, error) {
	opened, err := Files.Open(preparationFile)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(opened, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", preparationFile, err)
		}
		if forPods(object, namespace) {
			objects = append(objects, object)
		}
	}
}

// forPods reports whether an object of preparation.yaml is for the pods of a namespace, and not for Drydock itself.
func forPods(object *unstructured.Unstructured, namespace string) bool {
	switch object.GetKind() {
	case "Namespace":
		return object.GetName() == namespace
	case "RoleBinding":
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		return object.GetNamespace() == namespace && !slices.ContainsFunc(subjects, func(subject any) bool {
			fields, _ := subject.(map[string]any)
			return fields["kind"] != rbacv1.ServiceAccountKind || fields["namespace"] != namespace
		})
	}
	return object.GetNamespace() == namespace
}

// Package manifest reads the files of users. It validates objects with the schema and rules of their CRDs, and with rules that no schema can
// express. It reports all problems at once, each with the path of its field.
package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	kjson "sigs.k8s.io/json"
)

// Stdin is the path of standard input.
const Stdin = "-"

// Load reads the objects of one kind from a file, or from stdin if the path is "-". Any other kind in it is refused. An error is an
// Invalid unless the file could not be read.
func Load[T client.Object](path string, stdin io.Reader) ([]T, error) {
	text, err := read(path, stdin)
	if err != nil {
		return nil, err
	}
	file := fileName(path)
	objects, err := decode(file, text, kindOf[T]())
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, Invalid{{File: file, Message: "holds no objects"}}
	}
	wanted := make([]T, len(objects))
	for i, object := range objects {
		wanted[i] = object.(T)
	}
	return wanted, nil
}

// LoadOne reads a file that holds exactly one object.
func LoadOne[T client.Object](path string, stdin io.Reader) (T, error) {
	var none T
	objects, err := Load[T](path, stdin)
	if err != nil {
		return none, err
	}
	if len(objects) > 1 {
		return none, Invalid{{File: fileName(path), Message: fmt.Sprintf("holds %d objects; give one", len(objects))}}
	}
	return objects[0], nil
}

// kindOf is the kind of a type parameter; empty: any kind.
func kindOf[T client.Object]() string {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return t.Elem().Name()
	}
	return ""
}

// typeName is the kind of a Go type.
func typeName(object any) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndex(name, ".")+1:]
}

// fileName is the name of the file in messages.
func fileName(path string) string {
	if path == Stdin {
		return "stdin"
	}
	return path
}

func read(path string, stdin io.Reader) ([]byte, error) {
	if path == Stdin {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(path)
}

// Decode reads the objects in a text, sets defaults and validates them. An error is an Invalid with all problems; file is its name in messages.
func Decode(file string, text []byte) ([]client.Object, error) { return decode(file, text, "") }

// decode reads the objects in a text. If a kind is given, all must be of that kind, and problems of other objects do not matter.
func decode(file string, text []byte, wanted string) ([]client.Object, error) {
	parsed, err := Parse(file, text)
	invalid, unreadable := errors.AsType[Invalid](err)
	if err != nil && !unreadable {
		return nil, err
	}
	kinds, err := allKinds()
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, object := range parsed {
		if wanted != "" && object.GetKind() != wanted {
			invalid = append(invalid, Problem{File: file, Object: describe(object), Message: "is not a " + wanted})
			continue
		}
		// The status is not the user's to write. It is dropped, as the API server drops it.
		delete(object.Object, "status")
		typed, problems := kinds.complete(object)
		for _, problem := range problems {
			problem.File, problem.Object = file, describe(object)
			invalid = append(invalid, problem)
		}
		objects = append(objects, typed)
	}
	if len(invalid) > 0 {
		return nil, invalid
	}
	return objects, nil
}

// Complete sets defaults on an object that was made in code, e.g. from flags, and validates it. An error is an Invalid with all problems.
func Complete(object client.Object) error {
	kinds, err := allKinds()
	if err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(object, kinds.scheme)
	if err != nil {
		return fmt.Errorf("complete %s: %w", describe(object), err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("complete %s: %w", describe(object), err)
	}
	untyped := &unstructured.Unstructured{Object: fields}
	untyped.SetGroupVersionKind(gvk)
	typed, problems := kinds.complete(untyped)
	var invalid Invalid
	for _, problem := range problems {
		problem.Object = describe(object)
		invalid = append(invalid, problem)
	}
	if len(invalid) > 0 {
		return invalid
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(typed).Elem())
	return nil
}

// Check returns the problems of an object of a known kind from a cluster, by the rules for files. It ignores the status.
func Check(object *unstructured.Unstructured) []Problem {
	kinds, err := allKinds()
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	written := object.DeepCopy() // complete removes unknown fields
	delete(written.Object, "status")
	_, problems := kinds.complete(written)
	return problems
}

// complete sets defaults, validates, and returns the object in its Go type.
func (k *kinds) complete(object *unstructured.Unstructured) (client.Object, []Problem) {
	kind, err := k.find(object.GroupVersionKind())
	if err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	problems := validateMetadata(object.Object, kind.namespaced)
	unknown := kind.unknownFields(object.Object)
	kind.setDefaults(object.Object)
	typed, err := k.scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, append(problems, Problem{Message: err.Error()})
	}
	// Fields of the right type are validated even if others are invalid.
	wrong := Convert(object.Object, typed)
	shape, rules := kind.validate(object.Object)
	if wrong != nil {
		rules = kind.broken(rules)
	}
	problems = append(problems, clearest(advise(wrongTypes(shape), object.Object), problemsOf(shape), unknown, problemsOf(validateMeaning(typed)), problemsOf(rules))...)
	problems = append(problems, validateJobTemplates(object.Object)...)
	if wrong != nil && len(problems) == 0 {
		problems = append(problems, *wrong)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	return typed.(client.Object), problems
}

// Convert fills in a Go type from the fields of an object that have the right type, and returns the first one with a wrong type. It ignores fields
// that the type does not have.
func Convert(fields map[string]any, typed any) *Problem {
	text, err := json.Marshal(fields)
	if err != nil {
		return &Problem{Message: err.Error()}
	}
	err = kjson.UnmarshalCaseSensitivePreserveInts(text, typed)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &Problem{Field: wrong.Field + wrongKey(fields, wrong), Message: wrongType(wrong)}
	}
	if unreadable, ok := errors.AsType[*time.ParseError](err); ok {
		return &Problem{Field: fieldOf(unreadable.Value, fields, ""), Message: fmt.Sprintf("%q is not a time such as 2026-11-20T22:00:00Z", unreadable.Value)}
	}
	if err != nil {
		return &Problem{Message: err.Error()}
	}
	return nil
}

// wrongKey returns the key of a map, e.g. of labels, whose value has the wrong type; the error does not name it. Empty: it is not a map.
func wrongKey(fields map[string]any, wrong *json.UnmarshalTypeError) string {
	found, _, err := unstructured.NestedFieldNoCopy(fields, strings.Split(wrong.Field, ".")...)
	at, isMap := found.(map[string]any)
	if err != nil || !isMap || wrong.Value == "object" {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(at)) {
		text, err := json.Marshal(at[key])
		if err == nil && json.Unmarshal(text, reflect.New(wrong.Type).Interface()) != nil {
			return "[" + key + "]"
		}
	}
	return ""
}

// fieldOf returns the path of a field with that text, because an error about a time does not name it; empty: there is none.
func fieldOf(text string, value any, path string) string {
	switch value := value.(type) {
	case string:
		if value == text {
			return strings.TrimPrefix(path, ".")
		}
	case []any:
		for i, element := range value {
			if found := fieldOf(text, element, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if found := fieldOf(text, value[name], path+"."+name); found != "" {
				return found
			}
		}
	}
	return ""
}

// validateMetadata validates the metadata as the API server does. The namespace is optional: the caller sets the default.
func validateMetadata(object map[string]any, namespaced bool) []Problem {
	metadata, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return []Problem{{Field: "metadata", Message: err.Error()}}
	}
	var problems []Problem
	for _, path := range unknown {
		problems = append(problems, Problem{Field: path, Message: "unknown field"})
	}
	if metadata == nil || metadata.Name == "" {
		return append(problems, Problem{Field: "metadata.name", Message: "must be set"})
	}
	if namespaced && metadata.Namespace == "" {
		metadata.Namespace = metav1.NamespaceDefault
	}
	path := field.NewPath("metadata")
	for _, err := range apivalidation.ValidateObjectMeta(metadata, namespaced, apivalidation.NameIsDNSSubdomain, path) {
		problems = append(problems, problemOf(err))
	}
	return problems
}

// describe names an object: Kind namespace/name.
func describe(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = typeName(object)
	}
	name := object.GetName()
	if object.GetNamespace() != "" {
		name = object.GetNamespace() + "/" + name
	}
	return strings.TrimSuffix(kind+" "+name, " ")
}

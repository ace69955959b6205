package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is one thing that is wrong with what a user wrote.
type Problem struct {
	// File it is in; empty for an object that did not come from a file.
	File string
	// Object says which, e.g. "ClusterGroupUpgrade prod/os-update", or "document 2" when it has no name.
	Object string
	// Field is the path to the field; empty when the whole object is meant.
	Field string
	// Message says what was found and what is allowed.
	Message string
}

// String is the problem in one line.
func (p Problem) String() string {
	var parts []string
	for _, part := range []string{p.File, p.Object, p.Field, p.Message} {
		if strings.Contains(part, "\n") {
			part = strings.Join(strings.Fields(part), " ")
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Invalid is everything that is wrong with what a user wrote. Nothing may be started with it.
type Invalid []Problem

// Error prints one line a problem.
func (i Invalid) Error() string {
	lines := make([]string, len(i))
	for n, problem := range i {
		lines[n] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// orNil returns no error when there are no problems.
func (i Invalid) orNil() error {
	if len(i) == 0 {
		return nil
	}
	return i
}

// problemOf turns a field error into a problem. The validators repeat the path within the message, and the type they found; once is
// enough. For a number that does not fit its format they give the path at the end of the message only.
func problemOf(err *field.Error) Problem {
	if err.Field == "<nil>" {
		message, path, _ := strings.Cut(err.Detail, " in ")
		return Problem{Field: path, Message: strings.TrimPrefix(message, "Checked value ")}
	}
	shorter := *err
	shorter.Detail = strings.TrimPrefix(err.Detail, err.Field+" in body ")
	if want, _, found := strings.Cut(shorter.Detail, ":"); found && err.Type == field.ErrorTypeTypeInvalid {
		return Problem{Field: err.Field, Message: fmt.Sprintf("%s, not %v", want, err.BadValue)}
	}
	return Problem{Field: err.Field, Message: shorter.ErrorBody()}
}

// wrongType says what was found and what is wanted, in the words of a file.
func wrongType(err *json.UnmarshalTypeError) string {
	return fmt.Sprintf("must be of type %s, not %s", typeWord(err.Type), err.Value)
}

// typeWord is what a person calls a Go type in a file.
func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Pointer:
		return typeWord(t.Elem())
	}
	return "integer"
}

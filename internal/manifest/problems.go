package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is one problem in an object.
type Problem struct {
	// File is empty for an object that did not come from a file.
	File string
	// Object names the object, e.g. "ClusterGroupUpgrade prod/os-update", or "document 2" when it has no name.
	Object string
	// Field is the path to the field; empty for the whole object.
	Field string
	// Message states the problem and the allowed values.
	Message string

	// wrongType: the value has another type than the field.
	wrongType bool
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

// Invalid lists all problems of an input, which must not be used.
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

// clearest joins the problems from several validators. For each field it keeps those of the first validator, which has the best messages. It
// drops problems within a value of the wrong type.
func clearest(validators ...[]Problem) []Problem {
	var reported []Problem
	for _, found := range validators {
		before := reported
		for _, problem := range found {
			known := slices.ContainsFunc(before, func(earlier Problem) bool {
				return earlier.Field == problem.Field || earlier.wrongType && beneath(problem.Field, earlier.Field)
			})
			if !known {
				reported = append(reported, problem)
			}
		}
	}
	return reported
}

// beneath reports whether a field is part of another.
func beneath(path, parent string) bool {
	rest, found := strings.CutPrefix(path, parent)
	return found && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// wrongTypes are the values of another type than their fields, one problem a field: for a field that allows two types, the validator also reports
// each type.
func wrongTypes(errs field.ErrorList) []Problem {
	wrong := slices.DeleteFunc(problemsOf(errs), func(problem Problem) bool { return !problem.wrongType })
	slices.SortStableFunc(wrong, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(len(b.Message), len(a.Message)))
	})
	return slices.CompactFunc(wrong, func(a, b Problem) bool { return a.Field == b.Field })
}

// problemsOf turns field errors into problems.
func problemsOf(errs field.ErrorList) []Problem {
	var problems []Problem
	for _, err := range errs {
		problems = append(problems, problemOf(err))
	}
	return problems
}

// problemOf turns a field error into a problem. The validators repeat the path and the type within the message; once is enough.
func problemOf(err *field.Error) Problem {
	if err.Field == "<nil>" {
		return problemWithin(err.Detail)
	}
	shorter := *err
	shorter.Detail = strings.TrimPrefix(err.Detail, err.Field+" in body ")
	if want, _, found := strings.Cut(shorter.Detail, ":"); found && err.Type == field.ErrorTypeTypeInvalid {
		return Problem{Field: err.Field, Message: wordsOfTypes.Replace(fmt.Sprintf("%s, not %v", want, err.BadValue)), wrongType: true}
	}
	return Problem{Field: err.Field, Message: shorter.ErrorBody()}
}

// wordsOfTypes replaces the type names of the validators by plain ones.
var wordsOfTypes = strings.NewReplacer("int32", "integer", "int64", "integer", "float64", "number", "integer,string", "integer or string")

// problemWithin reads the path from a message. The validators state it nowhere else for a number that does not fit its field, and for a value that
// none of several schemas allows.
func problemWithin(detail string) Problem {
	if path, message, found := strings.Cut(strings.TrimPrefix(detail, `"`), `" `); found {
		return Problem{Field: path, Message: message}
	}
	message, path, _ := strings.Cut(detail, " in ")
	message = strings.TrimPrefix(message, "Checked value ")
	if strings.HasSuffix(message, "format int32") {
		message = fmt.Sprintf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	}
	return Problem{Field: path, Message: message}
}

// wrongType names the expected and the actual type, in the words of a file.
func wrongType(err *json.UnmarshalTypeError) string {
	return fmt.Sprintf("must be of type %s, not %s", typeWord(err.Type), err.Value)
}

// typeWord is the name of a Go type in a file.
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

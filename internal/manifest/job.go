package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// validateJobTemplates reads the template of an action's Job strictly. The CRD leaves it open, because its schema is that of Kubernetes and very
// large; a cluster would refuse the Job only after the node is drained.
func validateJobTemplates(object map[string]any) []Problem {
	var problems []Problem
	for _, path := range [][]string{
		{"spec", "action", "job", "template"},
		{"spec", "nodeMaintenance", "action", "job", "template"},
	} {
		template, found, err := unstructured.NestedMap(object, path...)
		if err != nil || !found {
			continue
		}
		for _, problem := range validateJobTemplate(template) {
			problem.Field = strings.TrimSuffix(strings.Join(path, ".")+"."+problem.Field, ".")
			problems = append(problems, problem)
		}
	}
	return problems
}

// validateJobTemplate returns the problems of a template. The decoder stops at the first value of a wrong type, so it continues without that field
// until it finds no more.
func validateJobTemplate(template map[string]any) []Problem {
	problems := removeBadQuantities(template)
	for {
		text, err := json.Marshal(template)
		if err != nil {
			return append(problems, Problem{Message: err.Error()})
		}
		var job batchv1.JobTemplateSpec
		strict, err := kjson.UnmarshalStrict(text, &job)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && remove(template, strings.Split(wrong.Field, ".")) {
			problems = append(problems, Problem{Field: wrong.Field, Message: wrongType(wrong)})
			continue
		}
		if err != nil {
			return append(problems, Problem{Message: err.Error()})
		}
		for _, err := range strict {
			problems = append(problems, strictProblem(err))
		}
		if len(problems) > 0 {
			return problems // a removed or unnamed field would be reported as missing
		}
		for _, err := range validateJob(job) {
			problems = append(problems, problemOf(err))
		}
		return problems
	}
}

// remove removes the field at path, in every element of the lists on the way, and reports whether it was there.
func remove(value any, path []string) bool {
	switch value := value.(type) {
	case []any:
		removed := false
		for _, element := range value {
			removed = remove(element, path) || removed
		}
		return removed
	case map[string]any:
		child, found := value[path[0]]
		if found && len(path) > 1 {
			return remove(child, path[1:])
		}
		delete(value, path[0])
		return found
	}
	return false
}

// removeBadQuantities removes invalid quantities of containers, because the decoder does not name them.
func removeBadQuantities(template map[string]any) []Problem {
	var problems []Problem
	for _, list := range []string{"initContainers", "containers"} {
		path := []string{"spec", "template", "spec", list}
		value, _, _ := unstructured.NestedFieldNoCopy(template, path...)
		containers, _ := value.([]any)
		for i, value := range containers {
			container, _ := value.(map[string]any)
			for _, side := range []string{"requests", "limits"} {
				value, _, _ := unstructured.NestedFieldNoCopy(container, "resources", side)
				quantities, _ := value.(map[string]any)
				problems = append(problems, removeBad(quantities, field.NewPath(path[0], path[1:]...).Index(i).Child("resources", side))...)
			}
		}
	}
	return problems
}

func removeBad(quantities map[string]any, path *field.Path) []Problem {
	var problems []Problem
	for name, value := range quantities {
		if _, err := resource.ParseQuantity(fmt.Sprint(value)); err != nil {
			problems = append(problems, problemOf(field.Invalid(path.Key(name), value, "must be a quantity, e.g. 500m or 2Gi")))
			delete(quantities, name)
		}
	}
	return problems
}

func strictProblem(err error) Problem {
	if at, ok := errors.AsType[kjson.FieldError](err); ok {
		return Problem{Field: at.FieldPath(), Message: "unknown field"}
	}
	return Problem{Message: err.Error()}
}

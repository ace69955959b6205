package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// validateJobTemplates reads the template of an action's Job strictly. The CRD leaves it open, because its schema is Kubernetes' own and
// larger than everything else; a cluster would refuse the Job only when the node is already drained.
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

// validateJobTemplate returns what is wrong with a template. The decoder stops at the first value of a wrong type, so it goes on without
// that field until it finds no more.
func validateJobTemplate(template map[string]any) []Problem {
	var problems []Problem
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
		if len(problems) == 0 {
			problems = validatePod(job.Spec.Template.Spec)
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

func strictProblem(err error) Problem {
	if at, ok := errors.AsType[kjson.FieldError](err); ok {
		return Problem{Field: at.FieldPath(), Message: "unknown field"}
	}
	return Problem{Message: err.Error()}
}

// validatePod checks what a cluster, or the maintenance itself, would refuse in the pod of a Job.
func validatePod(pod corev1.PodSpec) []Problem {
	var problems []Problem
	if len(pod.Containers) == 0 {
		problems = append(problems, Problem{Field: "spec.template.spec.containers", Message: "must have at least one container"})
	}
	for i, container := range pod.Containers {
		path := fmt.Sprintf("spec.template.spec.containers[%d]", i)
		if container.Name == "" {
			problems = append(problems, Problem{Field: path + ".name", Message: "must be set"})
		}
		if container.Image == "" {
			problems = append(problems, Problem{Field: path + ".image", Message: "must be set"})
		}
	}
	if pod.NodeName != "" {
		problems = append(problems, Problem{Field: "spec.template.spec.nodeName", Message: "must not be set: the Job runs on the node under maintenance"})
	}
	switch pod.RestartPolicy {
	case "", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	default:
		problems = append(problems, Problem{Field: "spec.template.spec.restartPolicy", Message: "must be Never, which is the default, or OnFailure"})
	}
	return problems
}

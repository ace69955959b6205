package manifest

import (
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// healthChecksKey is the field of an object that has health checks.
const healthChecksKey = "healthChecks"

// LoadHealthChecks reads health checks from a file, or from stdin if the path is "-": a list of them, or the field healthChecks with such a list, as
// in a NodeMaintenance. An error is an Invalid unless the file could not be read.
func LoadHealthChecks(path string, stdin io.Reader) ([]drydockv1.HealthCheck, error) {
	text, err := read(path, stdin)
	if err != nil {
		return nil, err
	}
	wrong := func(message string) error { return Invalid{{File: fileName(path), Message: message}} }
	documents := split(text)
	if len(documents) != 1 {
		return nil, wrong("must be one document with a list of health checks")
	}
	content, err := values(documents[0])
	if err != nil {
		return nil, wrong(err.Error())
	}
	list := content[0]
	if fields, ok := list.(map[string]any); ok && len(fields) == 1 {
		list = fields[healthChecksKey]
	}
	checks, ok := list.([]any)
	if !ok || len(checks) == 0 {
		return nil, wrong("must be a list of health checks, or hold one in the field " + healthChecksKey + " and nothing else")
	}
	return completeHealthChecks(fileName(path), checks)
}

// completeHealthChecks applies the rules for checks within an object, by putting them into one.
func completeHealthChecks(file string, checks []any) ([]drydockv1.HealthCheck, error) {
	kinds, err := allKinds()
	if err != nil {
		return nil, err
	}
	holder := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "checks"},
		"spec":     map[string]any{"requestorID": "checks", "nodeName": "checks", healthChecksKey: checks},
	}}
	holder.SetGroupVersionKind(maintenancev1.GroupVersion.WithKind("NodeMaintenance"))
	typed, problems := kinds.complete(holder)
	var invalid Invalid
	for _, problem := range problems {
		problem.File, problem.Field = file, strings.TrimPrefix(problem.Field, "spec.")
		invalid = append(invalid, problem)
	}
	if len(invalid) > 0 {
		return nil, invalid
	}
	return typed.(*maintenancev1.NodeMaintenance).Spec.HealthChecks, nil
}

func validateCEL(check *drydockv1.CELCheck, path *field.Path) field.ErrorList {
	invalid := validateSelector(check.Selector, path.Child("selector"))
	if _, err := schema.ParseGroupVersion(check.APIVersion); err != nil {
		invalid = append(invalid, field.Invalid(path.Child("apiVersion"), check.APIVersion, err.Error()))
	}
	if err := health.CheckExpression(check.Expression); err != nil {
		invalid = append(invalid, field.Invalid(path.Child("expression"), check.Expression, err.Error()))
	}
	return invalid
}

package health

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// choice selects the objects of a check, of any kind: one by name, or all that match a selector.
type choice struct {
	check, apiVersion, kind, namespace, name string
	selector                                 *metav1.LabelSelector
}

func conditionChoice(check drydockv1.ConditionCheck) choice {
	return choice{"condition", check.APIVersion, check.Kind, check.Namespace, check.Name, check.Selector}
}

func celChoice(check drydockv1.CELCheck) choice {
	return choice{"cel", check.APIVersion, check.Kind, check.Namespace, check.Name, check.Selector}
}

func (c choice) gvk() (schema.GroupVersionKind, error) {
	version, err := schema.ParseGroupVersion(c.apiVersion)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("%w: %s.apiVersion: %w", ErrInvalid, c.check, err)
	}
	return version.WithKind(c.kind), nil
}

func (c choice) watch() (Watch, error) {
	kind, err := c.gvk()
	return Watch{Kind: kind, Namespace: c.namespace, Name: c.name}, err
}

// of returns the selected objects, at least one; or the message when none can be read.
func (c choice) of(objects Objects) ([]Object, *Result, error) {
	kind, err := c.gvk()
	if err != nil {
		return nil, nil, err
	}
	listed, err := objects.List(kind, c.namespace)
	switch {
	case errors.Is(err, ErrNotServed):
		return nil, &Result{Reason: ReasonKindNotServed, Message: fmt.Sprintf("the cluster does not serve %s of %s", c.kind, c.apiVersion)}, nil
	case errors.Is(err, ErrForbidden):
		return nil, &Result{Reason: ReasonForbidden, Message: fmt.Sprintf("may not list and watch %s of %s: grant it to the worker", c.kind, c.apiVersion)}, nil
	case err != nil:
		return nil, nil, err
	}
	selected, err := c.among(listed)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.check, err)
	}
	if len(selected) == 0 {
		return nil, &Result{Reason: ReasonNothingFound, Message: "found no " + c.String()}, nil
	}
	return selected, nil, nil
}

func (c choice) among(listed []Object) ([]Object, error) {
	if c.name == "" {
		return selected(listed, c.selector)
	}
	var named []Object
	for _, object := range listed {
		if object.GetName() == c.name {
			named = append(named, object)
		}
	}
	return selected(named, nil)
}

// String describes the selection.
func (c choice) String() string {
	description := c.kind
	if c.name != "" {
		description += " " + c.name
	} else {
		description += " with labels " + metav1.FormatLabelSelector(c.selector)
	}
	if c.namespace != "" {
		description += " in namespace " + c.namespace
	}
	return description
}

func orNone(result *Result) Result {
	if result == nil {
		return Result{}
	}
	return *result
}

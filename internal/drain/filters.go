package drain

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// filters select the pods that a drain specification applies to. They come before kubectl's filters, so that a pod outside of the specification
// cannot block the node.
type filters struct {
	selector  labels.Selector
	resources []*regexp.Regexp
	order     []place
}

// parseSpec reads the filters of a drain specification, and reports every invalid field: an invalid selector or regular expression, an empty filter,
// a negative number. An invalid filter must never result in a drain that evicts nothing.
func parseSpec(spec maintenancev1.DrainSpec, path *field.Path) (filters, field.ErrorList) {
	found, problems := parseFilters(spec, path)
	return found, slices.Concat(problems,
		atLeastZero(spec.TimeoutSeconds, path.Child("timeoutSeconds")),
		atLeastZero(spec.SkipWaitForDeleteSeconds, path.Child("skipWaitForDeleteSeconds")))
}

// CheckFilters returns the errors of a drain specification's selector and filters that a schema cannot express.
func CheckFilters(spec maintenancev1.DrainSpec, path *field.Path) field.ErrorList {
	_, problems := parseFilters(spec, path)
	return problems
}

func parseFilters(spec maintenancev1.DrainSpec, path *field.Path) (filters, field.ErrorList) {
	selector, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	resources, invalid := parseResourceFilters(spec.PodEvictionFilters, path.Child("podEvictionFilters"))
	order, misplaced := parseOrder(spec.PodOrder, path.Child("podOrder"))
	return filters{selector: selector, resources: resources, order: order}, slices.Concat(problems, invalid, misplaced)
}

func parseResourceFilters(entries []maintenancev1.PodEvictionFilter, path *field.Path) (expressions []*regexp.Regexp, problems field.ErrorList) {
	for i, entry := range entries {
		at := path.Index(i).Child("byResourceNameRegex")
		if entry.ByResourceNameRegex == nil || *entry.ByResourceNameRegex == "" {
			problems = append(problems, field.Required(at, "a filter that names nothing picks no pod, or every one: name a resource, or remove the filter"))
			continue
		}
		expression, err := regexp.Compile(*entry.ByResourceNameRegex)
		if err != nil {
			problems = append(problems, field.Invalid(at, *entry.ByResourceNameRegex, err.Error()))
			continue
		}
		expressions = append(expressions, expression)
	}
	return expressions, problems
}

func parseSelector(selector string, path *field.Path) (labels.Selector, field.ErrorList) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return labels.Nothing(), field.ErrorList{field.Invalid(path, selector, err.Error())}
	}
	return parsed, nil
}

func atLeastZero(value *int32, path *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, "must be at least 0")}
	}
	return nil
}

// invalid turns problems into an InvalidSpec error; nil: no problems.
func invalid(problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return temporal.Error(temporal.ErrInvalidSpec, problems.ToAggregate().Error(), nil)
}

func (f filters) selects(pod *corev1.Pod) bool {
	return f.selector.Matches(labels.Set(pod.Labels))
}

// picks reports whether a container of the pod, including init and sidecar containers, requests a resource that one of the filters names. Without
// filters, every pod matches.
func (f filters) picks(pod *corev1.Pod) bool {
	if len(f.resources) == 0 {
		return true
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range container.Resources.Requests {
			if slices.ContainsFunc(f.resources, func(r *regexp.Regexp) bool { return r.MatchString(string(name)) }) {
				return true
			}
		}
	}
	return false
}

package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSelector refuses an invalid selector, and one that can never match.
func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	invalid := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	if len(invalid) > 0 || selector == nil {
		return invalid
	}
	return validateMatches(metav1.FormatLabelSelector(selector), path)
}

// validateMatches refuses a selector that can never match: a drain without pods would report the node as ready. An invalid selector is refused
// elsewhere.
func validateMatches(selector string, path *field.Path) field.ErrorList {
	requirements, err := labels.ParseToRequirements(selector)
	if err != nil {
		return nil
	}
	byKey := map[string]labels.Requirements{}
	for _, requirement := range requirements {
		byKey[requirement.Key()] = append(byKey[requirement.Key()], requirement)
	}
	var invalid field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if !satisfiable(key, byKey[key]) {
			invalid = append(invalid, field.Invalid(path, selector, fmt.Sprintf("can never match: its requirements for label %s contradict each other", key)))
		}
	}
	return invalid
}

// satisfiable reports whether an object can meet all requirements for one label. It tries every distinct case: an object without the label, with a
// named value, with a number next to a named one, and with any other value.
func satisfiable(key string, requirements labels.Requirements) bool {
	named := map[string]bool{}
	for _, requirement := range requirements {
		for _, value := range requirement.ValuesUnsorted() {
			named[value] = true
		}
	}
	other := "v"
	for named[other] {
		other += "v"
	}
	objects := []labels.Set{{}, {key: other}}
	for value := range named {
		objects = append(objects, labels.Set{key: value})
		if n, err := strconv.ParseUint(value, 10, 63); err == nil {
			objects = append(objects, number(key, n+1), number(key, n-min(n, 1)))
		}
	}
	return slices.ContainsFunc(objects, func(object labels.Set) bool {
		return !slices.ContainsFunc(requirements, func(requirement labels.Requirement) bool { return !requirement.Matches(object) })
	})
}

// number is a label with that number, in a form that selectors do not use: comparisons read it as a number, other operators as text.
func number(key string, n uint64) labels.Set {
	digits := strconv.FormatUint(n, 10)
	return labels.Set{key: strings.Repeat("0", validation.LabelValueMaxLength-len(digits)) + digits}
}

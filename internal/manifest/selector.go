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

// validateSelector refuses a selector that cannot be read, and one that can never pick anything.
func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	invalid := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	if len(invalid) > 0 || selector == nil {
		return invalid
	}
	return validatePicks(metav1.FormatLabelSelector(selector), path)
}

// validatePicks refuses a selector that can never pick anything: a drain of nothing would end in "the node is ready". One that cannot be
// read is refused elsewhere.
func validatePicks(selector string, path *field.Path) field.ErrorList {
	requirements, err := labels.ParseToRequirements(selector)
	if err != nil {
		return nil
	}
	asked := map[string]labels.Requirements{}
	for _, requirement := range requirements {
		asked[requirement.Key()] = append(asked[requirement.Key()], requirement)
	}
	var invalid field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if !satisfiable(key, asked[key]) {
			invalid = append(invalid, field.Invalid(path, selector, fmt.Sprintf("can never match: its requirements for label %s contradict each other", key)))
		}
	}
	return invalid
}

// satisfiable reports whether an object can meet all that is asked of one label, by trying what objects can be told apart by: those
// without the label, with a value that is named, with a number next to one that is named, and with any other value.
func satisfiable(key string, asked labels.Requirements) bool {
	named := map[string]bool{}
	for _, requirement := range asked {
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
		return !slices.ContainsFunc(asked, func(requirement labels.Requirement) bool { return !requirement.Matches(object) })
	})
}

// number is a label with that number, in a form that hardly a selector names: comparisons read it as a number, all others as a text.
func number(key string, n uint64) labels.Set {
	digits := strconv.FormatUint(n, 10)
	return labels.Set{key: strings.Repeat("0", validation.LabelValueMaxLength-len(digits)) + digits}
}

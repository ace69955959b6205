package scheduling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// allowance is how many may be out of service at once, and who is.
type allowance struct {
	// limit is nil when there is none.
	limit *int
	// invalid is what the limit is that allows nothing because it is neither a number nor a percentage that there can be; empty: it is one.
	invalid string
	holders []string
	// named and told are cached texts, until there is another holder: many requests wait for the same.
	named, told string
}

// allowed is a limit: a number, or a percentage of the nodes. What is neither allows nothing: a cluster may have been given its budgets under another CRD,
// which does not refuse that.
func allowed(value *intstr.IntOrString, nodes int, roundUp bool) allowance {
	if value == nil {
		return allowance{}
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, nodes, roundUp)
	if err != nil || number < 0 {
		return allowance{limit: new(int), invalid: written(value)}
	}
	return allowance{limit: &number}
}

// written is the value as it is written.
func written(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// allowsNothing is the message for a field with an invalid value.
func allowsNothing(field, value, must string) string {
	return fmt.Sprintf("%s is %s, so nothing may start: it must be %s", field, value, must)
}

// take counts one more; it may be more than allowed, since nodes fail and limits change.
func (a *allowance) take(holder string) {
	a.holders, a.named, a.told = append(a.holders, holder), "", ""
}

// left is how many more there may be, never below 0; nil when there is no limit.
func (a *allowance) left() *int {
	if a.limit == nil {
		return nil
	}
	return new(max(*a.limit-len(a.holders), 0))
}

func (a *allowance) spent() bool { return a.limit != nil && len(a.holders) >= *a.limit }

// names names the first two holders as the end of a sentence. It is short: many requests may wait for the same.
func (a *allowance) names() string {
	const most = 2
	if a.named != "" || len(a.holders) == 0 {
		return a.named
	}
	sorted := slices.Sorted(slices.Values(a.holders))
	a.named = strings.Join(sorted[:min(len(sorted), most)], ", ")
	if len(sorted) > most {
		a.named += fmt.Sprintf(" and %d more", len(sorted)-most)
	}
	a.named = " (" + a.named + ")"
	return a.named
}

package scheduling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// allowance is a limit of nodes out of service, with the nodes that count against it.
type allowance struct {
	// limit is nil without a limit.
	limit *int
	// invalid is the text of an invalid limit, which allows nothing; empty: the limit is valid.
	invalid string
	// percentage is the limit as its author wrote it, if that is no number; empty: it is one.
	percentage string
	holders    []string
	// cachedNames and cachedMessage are valid until the next holder: many requests wait for the same limit.
	cachedNames, cachedMessage string
}

// allowed evaluates a limit: a number, or a percentage of the nodes. An invalid limit allows nothing. A cluster may have one if its budgets were created
// under another CRD, which accepts it.
func allowed(value *intstr.IntOrString, nodes int, roundUp bool) allowance {
	if value == nil {
		return allowance{}
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, nodes, roundUp)
	if err != nil || number < 0 {
		return allowance{limit: new(int), invalid: quoted(value)}
	}
	a := allowance{limit: &number}
	if value.Type == intstr.String {
		a.percentage = value.StrVal
	}
	return a
}

// quoted returns the value as the user wrote it.
func quoted(value *intstr.IntOrString) string {
	if value.Type == intstr.String {
		return strconv.Quote(value.StrVal)
	}
	return value.String()
}

// allowsNothing returns the message for a field with an invalid value.
func allowsNothing(field, value, must string) string {
	return fmt.Sprintf("%s is %s, so nothing may start: it must be %s", field, value, must)
}

// add counts a holder. There may be more than allowed, since nodes fail and limits change.
func (a *allowance) add(holder string) {
	a.holders, a.cachedNames, a.cachedMessage = append(a.holders, holder), "", ""
}

// left returns how many more are allowed; nil: no limit.
func (a *allowance) left() *int {
	if a.limit == nil {
		return nil
	}
	return new(max(*a.limit-len(a.holders), 0))
}

func (a *allowance) spent() bool { return a.limit != nil && len(a.holders) >= *a.limit }

// names names the first two holders, as the end of a sentence. It is short, because many requests may have it in their messages.
func (a *allowance) names() string {
	const limit = 2
	if a.cachedNames != "" || len(a.holders) == 0 {
		return a.cachedNames
	}
	sorted := slices.Sorted(slices.Values(a.holders))
	a.cachedNames = strings.Join(sorted[:min(len(sorted), limit)], ", ")
	if len(sorted) > limit {
		a.cachedNames += fmt.Sprintf(" and %d more", len(sorted)-limit)
	}
	a.cachedNames = " (" + a.cachedNames + ")"
	return a.cachedNames
}

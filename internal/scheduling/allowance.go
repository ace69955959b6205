package scheduling

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// allowance is how many may be out of service at once, and who is.
type allowance struct {
	// limit is nil when there is none.
	limit   *int
	holders []string
	// named and told are what is said of it, until there is another holder: many requests wait for the same.
	named, told string
}

// allowed is a limit: a number, or a percentage of the nodes.
func allowed(value *intstr.IntOrString, nodes int, roundUp bool) allowance {
	if value == nil {
		return allowance{}
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, nodes, roundUp)
	if err != nil {
		number = 0 // what is neither a number nor a percentage allows nothing
	}
	return allowance{limit: &number}
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

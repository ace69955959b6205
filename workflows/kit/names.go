package kit

import (
	"fmt"
	"slices"
	"strings"
)

// Without returns the names without one of them.
func Without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// JoinNames joins at most ten names for a message.
func JoinNames(names []string) string {
	const limit = 10
	if len(names) > limit {
		return strings.Join(names[:limit], ", ") + fmt.Sprintf(" and %d more", len(names)-limit)
	}
	return strings.Join(names, ", ")
}

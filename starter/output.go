package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// age renders the time since then as kubectl does.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}

// plural renders a count with its noun.
func plural(n int, word string) string { return pluralOf(n, word, word+"s") }

func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

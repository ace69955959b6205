package main

import (
	"regexp"
	"strings"
	"unicode"

	"drydock.dev/drydock/internal/temporal"
)

// colour matches the escape sequences of paint: a foreground colour, or the end of it.
var colour = regexp.MustCompile(`^\x1b\[(?:3[0-7]|0)m`)

// visible replaces what a terminal would act on instead of showing it, except line breaks, tabs and the colours of paint. Much of the output is text that
// others wrote, such as the message of a lock. It could move the cursor over other lines, hide text, or reverse its direction.
func visible(text string) string {
	if !strings.ContainsFunc(text, temporal.Invisible) {
		return text
	}
	var shown strings.Builder
	for i, r := range text {
		if temporal.Invisible(r) && !colour.MatchString(text[i:]) {
			r = unicode.ReplacementChar
		}
		shown.WriteRune(r)
	}
	return shown.String()
}

package main

import (
	"regexp"
	"strings"
	"unicode"
)

// colour matches the escape sequences of paint: a foreground colour, or the end of it.
var colour = regexp.MustCompile(`^\x1b\[(?:3[0-7]|0)m`)

// visible replaces what a terminal would act on instead of showing it, except line breaks, tabs and the colours of paint. Much of the output is text that
// others wrote, such as the message of a lock. It could move the cursor over other lines, hide text, or reverse its direction.
func visible(text string) string {
	if !strings.ContainsFunc(text, invisible) {
		return text
	}
	var shown strings.Builder
	for i, r := range text {
		if invisible(r) && !colour.MatchString(text[i:]) {
			r = unicode.ReplacementChar
		}
		shown.WriteRune(r)
	}
	return shown.String()
}

// invisible reports control characters and those that change the direction of text.
func invisible(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

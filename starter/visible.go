package main

import (
	"regexp"
	"strings"

	"drydock.dev/drydock/internal/temporal"
)

// painted matches a state in a colour of paint. No other colours are shown: text of others in black could hide what follows.
var painted = regexp.MustCompile(`\x1b\[3[1236]m[A-Za-z -]{1,40}\x1b\[0m`)

// visible replaces what a terminal would act on instead of showing it, except line breaks, tabs and painted states. Much of the output is text that others wrote,
// such as the message of a lock. It could move the cursor over other lines, hide text, or reverse its direction.
func visible(text string) string {
	if !strings.ContainsFunc(text, temporal.Invisible) {
		return text
	}
	var shown strings.Builder
	for at := 0; at < len(text); {
		state := painted.FindStringIndex(text[at:])
		if state == nil {
			state = []int{len(text) - at, len(text) - at}
		}
		shown.WriteString(temporal.Visible(text[at : at+state[0]]))
		shown.WriteString(text[at+state[0] : at+state[1]])
		at += state[1]
	}
	return shown.String()
}

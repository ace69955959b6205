package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"
)

// screen redraws a block of lines at the end of a terminal's output.
type screen struct {
	out   io.Writer
	lines int
}

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = text.EscapeStart + "J"

// draw replaces the block by a new one in a single write, so that it does not flicker. Lines are cut at width: one that wraps would be two.
func (s *screen) draw(block string, width int) {
	var frame strings.Builder
	if s.lines > 0 {
		frame.WriteString("\r" + text.CursorUp.Sprintn(s.lines))
	}
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	for _, line := range lines {
		frame.WriteString(fit(line, width) + text.EraseLine.Sprint() + "\n")
	}
	frame.WriteString(eraseBelow)
	s.lines = len(lines)
	fmt.Fprint(s.out, frame.String())
}

// fit cuts a line at width; 0 is no limit.
func fit(line string, width int) string {
	if width <= 0 {
		return line
	}
	return text.Snip(line, width, "~")
}

// bar draws a progress bar of so many characters.
func bar(percentage, width int) string {
	style := progress.StyleCharsDefault
	done := width * percentage / 100
	return style.BoxLeft + strings.Repeat(style.Finished, done) + strings.Repeat(style.Unfinished, width-done) + style.BoxRight
}

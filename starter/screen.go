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
	drawn string
}

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = text.EscapeStart + "J"

// draw replaces the block in a single write, so that it does not flicker. It cuts lines at width, so that none wraps.
func (s *screen) draw(block string, width int) {
	var lines []string
	for line := range strings.Lines(strings.TrimRight(block, "\n")) {
		lines = append(lines, fit(strings.TrimRight(line, "\n"), width)+text.EraseLine.Sprint()+"\n")
	}
	drawn := strings.Join(lines, "")
	if drawn == s.drawn {
		return
	}
	back := ""
	if s.lines > 0 {
		back = "\r" + text.CursorUp.Sprintn(s.lines)
	}
	s.lines, s.drawn = len(lines), drawn
	fmt.Fprint(s.out, back+drawn+eraseBelow)
}

// fit cuts a line at width; 0 is no limit.
func fit(line string, width int) string {
	if width <= 0 {
		return line
	}
	return text.Snip(line, width, "…")
}

// bar draws a progress bar with the given width.
func bar(percentage, width int) string {
	style := progress.StyleCharsDefault
	done := width * percentage / 100
	return style.BoxLeft + strings.Repeat(style.Finished, done) + strings.Repeat(style.Unfinished, width-done) + style.BoxRight
}

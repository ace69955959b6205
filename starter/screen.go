package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"
)

// screen redraws a block of lines at the end of a terminal's output.
type screen struct {
	out   io.Writer
	rows  int
	drawn string
}

// eraseBelow erases from the cursor to the end of the screen.
const eraseBelow = text.EscapeStart + "J"

// draw replaces the block in a single write, so that it does not flicker. The terminal breaks lines that are wider; draw counts the rows that they
// take, and leaves out the lines that are below its end.
func (s *screen) draw(block string, width, height int) {
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	if height > 1 {
		lines = fitting(lines, width, height-1) // the last row is the cursor's
	}
	drawn, taken := "", 0
	for _, line := range lines {
		drawn, taken = drawn+line, taken+rows(line, width)
		if last := text.StringWidthWithoutEscSequences(line); width <= 0 || last == 0 || last%width > 0 { // a full row has nothing to erase
			drawn += text.EraseLine.Sprint()
		}
		drawn += "\n"
	}
	if drawn == s.drawn {
		return
	}
	back := ""
	if s.rows > 0 {
		back = "\r" + text.CursorUp.Sprintn(s.rows)
	}
	s.rows, s.drawn = taken, drawn
	fmt.Fprint(s.out, back+drawn+eraseBelow)
}

// fitting returns the lines that fit into that many rows; the last one counts the others.
func fitting(lines []string, width, most int) []string {
	taken, fit := 0, 0 // fit leaves a row for the count
	for i, line := range lines {
		if taken += rows(line, width); taken < most {
			fit = i + 1
		}
	}
	if taken <= most {
		return lines
	}
	return append(slices.Clone(lines[:fit]), fmt.Sprintf("and %s more", plural(len(lines)-fit, "line")))
}

// rows is the number of rows that a line takes on a terminal; width 0 is no limit.
func rows(line string, width int) int {
	if width <= 0 {
		return 1
	}
	return max(1, (text.StringWidthWithoutEscSequences(line)+width-1)/width)
}

// bar draws a progress bar with the given width.
func bar(percentage, width int) string {
	style := progress.StyleCharsDefault
	done := width * percentage / 100
	return style.BoxLeft + strings.Repeat(style.Finished, done) + strings.Repeat(style.Unfinished, width-done) + style.BoxRight
}

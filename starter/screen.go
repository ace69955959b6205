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

// draw replaces the block in a single write, so that it does not flicker. It breaks the lines that are wider than the terminal, so that it knows how
// many there are, and leaves out those that are below its end.
func (s *screen) draw(block string, width, height int) {
	lines := strings.Split(fold(strings.TrimRight(block, "\n"), width), "\n")
	if most := height - 1; height > 1 && len(lines) > most { // the last line is the cursor's
		lines = append(lines[:most-1], fmt.Sprintf("and %s more", plural(len(lines)-most+1, "line")))
	}
	for i := range lines {
		lines[i] += text.EraseLine.Sprint() + "\n"
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

// fold breaks lines at width; 0 is no limit.
func fold(block string, width int) string {
	if width <= 0 {
		return block
	}
	return text.WrapHard(block, width)
}

// bar draws a progress bar with the given width.
func bar(percentage, width int) string {
	style := progress.StyleCharsDefault
	done := width * percentage / 100
	return style.BoxLeft + strings.Repeat(style.Finished, done) + strings.Repeat(style.Unfinished, width-done) + style.BoxRight
}

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// page is what a command prints for people: text and tables in the style of the output.
type page struct {
	bytes.Buffer
	frameStyle
	// now is in the time zone of the output.
	now time.Time
}

// frameStyle is how text for people is drawn. The zero value is plain and unlimited.
type frameStyle struct {
	// width and height of the terminal; 0 is no limit.
	width, height int
	colours       bool
	// wide shows all columns of a table; bare leaves out headers and counts.
	wide, bare bool
	// zone is the time zone of times in texts that workflows wrote; nil leaves them in UTC.
	zone *time.Location
}

// now is the current time in the time zone of the output.
func (c *cli) now() time.Time {
	if c.utc {
		return time.Now().UTC()
	}
	return time.Now()
}

// style is the style of the output: plain unless it is a terminal.
func (c *cli) style() frameStyle {
	style := frameStyle{wide: c.output == formatWide, bare: c.noHeaders, zone: c.now().Location()}
	if width, _, ok := c.terminal(); ok {
		style.width, style.colours = width, coloured(true)
	}
	return style
}

// coloured reports whether output has colours: only on a terminal, and not with NO_COLOR (https://no-color.org).
func coloured(terminal bool) bool { return terminal && os.Getenv("NO_COLOR") == "" }

// printPage prints what people writes. Lines that are longer than the terminal is wide are wrapped.
func (c *cli) printPage(people func(*page)) error {
	p := &page{frameStyle: c.style(), now: c.now()}
	people(p)
	_, err := c.Out.Write([]byte(p.wrap(c.shown(p.String()))))
	return err
}

// continued indents the rest of a wrapped line.
const continued = "  "

// gap divides the columns of a table, and the parts of a headline.
const gap = "   "

// headline joins the parts of a headline, on as many lines as they need.
func (s frameStyle) headline(parts []string) string {
	line, lines := "", ""
	for _, part := range parts {
		switch {
		case line == "":
			line = part
		case s.width > 0 && text.LongestLineLen(line+gap+part) > s.width:
			lines, line = lines+line+"\n", continued+part
		default:
			line += gap + part
		}
	}
	return lines + line
}

// wrap breaks sentences that are longer than the width between words. It leaves tables alone, and commands, so that they can be copied: the terminal
// breaks a command that is longer than a line.
func (s frameStyle) wrap(block string) string {
	if s.width <= 0 {
		return block
	}
	var wrapped strings.Builder
	for line := range strings.Lines(block) {
		content := strings.TrimRight(line, "\n")
		if text.LongestLineLen(content) > s.width && !strings.Contains(content, gap) {
			content = strings.Join(folded(content, max(s.width-len(continued), 1)), "\n"+continued)
		}
		wrapped.WriteString(content + line[len(strings.TrimRight(line, "\n")):])
	}
	return wrapped.String()
}

// unbroken matches what stays whole in a sentence: words, and commands in backquotes.
var unbroken = regexp.MustCompile("(?:`[^`]*`|\\S)+")

// folded divides a sentence into lines of at most width, between words. A word that is longer has its own line.
func folded(sentence string, width int) []string {
	lines := []string{""}
	end := 0
	for _, at := range unbroken.FindAllStringIndex(sentence, -1) {
		last := len(lines) - 1
		longer := lines[last] + sentence[end:at[1]]
		if lines[last] != "" && text.StringWidthWithoutEscSequences(longer) > width {
			lines = append(lines, sentence[at[0]:at[1]])
		} else {
			lines[last] = longer
		}
		end = at[1]
	}
	return lines
}

// stamp renders a time: the one form of a time in the output, with the offset of the time zone of now.
func stamp(at, now time.Time) string { return at.In(now.Location()).Format(time.RFC3339) }

// stampOf is stamp of a time that may be unknown.
func stampOf(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return stamp(*at, now)
}

// clock is a stamp without the date, if that is today.
func clock(at, now time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly + "Z07:00")
	}
	return stamp(at, now)
}

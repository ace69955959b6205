package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
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

// wide is the header of a column that only -o wide shows.
type wide string

// grid is a table as kubectl prints them: columns divided by spaces only.
type grid struct {
	table.Writer
	style   frameStyle
	columns []table.ColumnConfig
	rows    []table.Row
}

func (s frameStyle) newTable(header ...any) *grid {
	g := &grid{Writer: table.NewWriter(), style: s}
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
	g.SetStyle(style)
	g.SuppressTrailingSpaces()
	for i, title := range header {
		if name, ok := title.(wide); ok {
			header[i] = string(name)
			if !s.wide {
				g.columns = append(g.columns, table.ColumnConfig{Number: i + 1, Hidden: true})
			}
		}
	}
	if len(header) > 0 && !s.bare {
		g.AppendHeader(table.Row(header))
	}
	return g
}

// hide leaves out a column, which counts from 1.
func (g *grid) hide(column int) {
	g.columns = append(g.columns, table.ColumnConfig{Number: column, Hidden: true})
}

// AppendRow adds a row. It keeps the row, too, to measure its cells.
func (g *grid) AppendRow(row table.Row, _ ...table.RowConfig) {
	for i, cell := range row {
		if content, ok := cell.(string); ok { // before the widths are measured
			row[i] = localTimes(content, g.style.zone)
		}
	}
	g.rows = append(g.rows, row)
	g.Writer.AppendRow(row)
}

// narrowest is the smallest width of a wrapped column.
const narrowest = 20

// Render draws the table. If it is wider than the terminal, the widest columns with sentences are wrapped between words. Names are never broken: a
// table that does not fit without that is left to the terminal. Commands that are longer than their column follow the table.
func (g *grid) Render() string {
	g.SetColumnConfigs(g.columns)
	whole := g.Writer.Render()
	fitted := whole
	for limits := map[int]int{}; ; {
		over := text.LongestLineLen(fitted) - g.style.width
		if g.style.width <= 0 || over <= 0 {
			return fitted + g.broken(limits)
		}
		column, width := g.widest(limits)
		if width <= narrowest {
			return whole
		}
		limits[column] = max(width-over, narrowest)
		configs := append([]table.ColumnConfig{}, g.columns...)
		for number, limit := range limits {
			configs = append(configs, table.ColumnConfig{Number: number, WidthMax: limit, WidthMaxEnforcer: foldedCell})
		}
		g.SetColumnConfigs(configs)
		fitted = g.Writer.Render()
	}
}

// foldedCell wraps a cell between words, and breaks what is longer than the column.
func foldedCell(cell string, width int) string {
	lines := folded(cell, width)
	for i, line := range lines {
		if text.LongestLineLen(line) > width {
			lines[i] = text.WrapSoft(line, width)
		}
	}
	return strings.Join(lines, "\n")
}

// command matches a command in a sentence.
var command = regexp.MustCompile("`[^`]* [^`]*`")

// broken returns lines with the commands that their columns broke, each once.
func (g *grid) broken(limits map[int]int) string {
	var lines string
	for _, row := range g.rows {
		for i, cell := range row {
			for _, command := range command.FindAllString(fmt.Sprint(cell), -1) {
				if limit := limits[i+1]; limit > 0 && text.LongestLineLen(command) > limit && !strings.Contains(lines, command) {
					lines += "\nto copy: " + command
				}
			}
		}
	}
	return lines
}

// widest returns the column with the longest sentence, as it is limited already.
func (g *grid) widest(limits map[int]int) (column, width int) {
	for _, row := range g.rows {
		for i, cell := range row {
			content := fmt.Sprint(cell)
			if g.hidden(i+1) || !strings.Contains(content, " ") {
				continue
			}
			length := text.LongestLineLen(content)
			if limit := cmp.Or(limits[i+1], length); min(length, limit) > width {
				column, width = i+1, min(length, limit)
			}
		}
	}
	return column, width
}

func (g *grid) hidden(column int) bool {
	for _, config := range g.columns {
		if config.Number == column && config.Hidden {
			return true
		}
	}
	return false
}

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

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

// Render draws the table. If it is wider than the terminal, the widest columns with sentences are wrapped between words. Names are never broken: if
// the table does not fit without that, the sentences are below their rows. Commands that are longer than their column follow the table.
func (g *grid) Render() string {
	g.SetColumnConfigs(g.columns)
	fitted := g.Writer.Render()
	for limits := map[int]int{}; ; {
		over := text.LongestLineLen(fitted) - g.style.width
		if g.style.width <= 0 || over <= 0 {
			return fitted + g.broken(limits)
		}
		column, width := g.widest(limits)
		if width == 0 {
			return g.sentencesBelow(limits)
		}
		limits[column] = max(width-over, g.least(column))
		configs := slices.Clone(g.columns)
		for number, limit := range limits {
			configs = append(configs, table.ColumnConfig{Number: number, WidthMax: limit, WidthMaxEnforcer: foldedCell})
		}
		g.SetColumnConfigs(configs)
		fitted = g.Writer.Render()
	}
}

// below is the indentation of sentences below their rows.
const below = "      "

// sentencesBelow draws the table with each sentence of the columns below its row.
func (g *grid) sentencesBelow(columns map[int]int) string {
	if len(columns) == 0 {
		g.SetColumnConfigs(g.columns)
		return g.Writer.Render()
	}
	configs := slices.Clone(g.columns)
	for number := range columns {
		configs = append(configs, table.ColumnConfig{Number: number, Hidden: true})
	}
	g.SetColumnConfigs(configs)
	lines := strings.Split(g.Writer.Render(), "\n")
	header := len(lines) - len(g.rows)
	drawn := slices.Clone(lines[:header])
	for i, line := range lines[header:] {
		drawn = append(drawn, line)
		for j, cell := range g.rows[i] {
			if _, moved := columns[j+1]; !moved || cell == "" {
				continue
			}
			for _, text := range folded(fmt.Sprint(cell), max(g.style.width-len(below), narrowest)) {
				drawn = append(drawn, below+text)
			}
		}
	}
	return strings.Join(drawn, "\n")
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

// widest returns the column with the longest sentence, as it is limited already; 0: no column can be narrower.
func (g *grid) widest(limits map[int]int) (column, width int) {
	for _, row := range g.rows {
		for i, cell := range row {
			content := fmt.Sprint(cell)
			if g.hidden(i+1) || !isSentence(content) {
				continue
			}
			length := text.LongestLineLen(content)
			if limit := cmp.Or(limits[i+1], length); min(length, limit) > max(width, g.least(i+1)) {
				column, width = i+1, min(length, limit)
			}
		}
	}
	return column, width
}

// isSentence reports whether a cell has more than names.
func isSentence(cell string) bool { return strings.Count(cell, " ") >= 3 }

// least is the smallest width of a column that breaks no word in it.
func (g *grid) least(column int) int {
	least := narrowest
	for _, row := range g.rows {
		if column > len(row) {
			continue
		}
		for _, word := range unbroken.FindAllString(fmt.Sprint(row[column-1]), -1) {
			if !strings.Contains(word, " ") { // a command follows the table
				least = max(least, text.StringWidthWithoutEscSequences(word))
			}
		}
	}
	return least
}

func (g *grid) hidden(column int) bool {
	for _, config := range g.columns {
		if config.Number == column && config.Hidden {
			return true
		}
	}
	return false
}

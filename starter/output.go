package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// addOutputFlag adds -o. The value is checked before the command does anything.
func (c *cli) addOutputFlag(cmd *cobra.Command) {
	formats := []string{formatTable, formatJSON, formatYAML, formatName}
	cmd.Flags().StringVarP(&c.output, "output", "o", formatTable, "output format: "+strings.Join(formats, ", "))
	// An error is impossible: the flag exists.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, c.output) {
			return usagef("output format %q is not one of %s", c.output, strings.Join(formats, ", "))
		}
		for _, following := range []string{"watch", "wait"} {
			if flag := cmd.Flags().Lookup(following); c.output == formatName && flag != nil && flag.Value.String() == "true" {
				return usagef("-o %s cannot show the changes of --%s: use only one of them", formatName, following)
			}
		}
		return nil
	}
}

// print writes a result in the requested format: object as JSON or YAML, names one per line, or the output of people.
func (c *cli) print(object any, people func(io.Writer), names ...string) error {
	switch c.output {
	case formatJSON:
		encoder := json.NewEncoder(c.Out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(object)
	case formatYAML:
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		_, err = c.Out.Write(text)
		return err
	case formatName:
		for _, name := range names {
			fmt.Fprintln(c.Out, name)
		}
		return nil
	}
	people(c.Out)
	return nil
}

// newTable returns a table as kubectl prints them: columns divided by spaces only.
func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	if len(header) > 0 {
		t.AppendHeader(table.Row(header))
	}
	return t
}

// age renders the time since then as kubectl does.
func age(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}

// plural renders a count with its noun.
func plural(n int, word string) string { return pluralOf(n, word, word+"s") }

func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

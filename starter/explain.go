package main

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"drydock.dev/drydock/docs"
)

// explanation says what to do about a reason to wait.
type explanation struct {
	Reason string `json:"reason"`
	// When is the heading of its part of the page, such as "Waiting for a slot".
	When     string `json:"when"`
	WhatToDo string `json:"whatToDo"`
}

func newExplain(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [REASON]",
		Short: "Say what to do about a reason to wait",
		Long: `Say what to do about a reason to wait, such as NoSlot, as the status of rollouts and maintenances names it. Without REASON it lists all reasons.
It needs no server.`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var reasons []cobra.Completion
			for _, known := range explanations(docs.Troubleshoot) {
				if len(args) == 0 {
					reasons = append(reasons, known.Reason)
				}
			}
			return reasons, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: c.plainVerb(func(_ context.Context, args []string) error {
			known := explanations(docs.Troubleshoot)
			if len(args) == 0 {
				return c.print(known, func(w *page) { printExplanations(w, known) })
			}
			at := slices.IndexFunc(known, func(e explanation) bool {
				return strings.EqualFold(e.Reason, args[0]) || matchesBudget(e.Reason, args[0])
			})
			if at < 0 {
				return usagef("REASON %q: `drydock explain` lists the reasons", args[0])
			}
			return c.print(known[at], func(w *page) { fmt.Fprintf(w, "%s (%s)\n%s\n", known[at].Reason, known[at].When, known[at].WhatToDo) })
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

// matchesBudget reports whether a reason is that of a budget, which has the name of the budget.
func matchesBudget(reason, asked string) bool {
	prefix, named := strings.CutSuffix(reason, "NAME")
	return named && strings.HasPrefix(strings.ToLower(asked), strings.ToLower(prefix))
}

func printExplanations(w *page, known []explanation) {
	t := w.newTable("REASON", "WHAT TO DO")
	for _, e := range known {
		t.AppendRow(table.Row{e.Reason, e.WhatToDo})
	}
	fmt.Fprintln(w, t.Render())
}

var (
	// reasonRow is a row of a table of reasons: `A`, `B` | what to do.
	reasonRow = regexp.MustCompile("^\\| (`[A-Z][A-Za-z/]+`(?:, `[A-Z][A-Za-z/]+`)*) \\| (.*) \\|$")
	link      = regexp.MustCompile(`\[([^\]]*)\]\(([^)#]*)[^)]*\)`)
)

// withoutLinks writes the path of the page behind the text of each link.
func withoutLinks(text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		return parts[1] + " (" + path.Join("docs/how-to", parts[2]) + ")"
	})
}

// explanations reads the tables of the page. A link becomes its text and the path of its page.
func explanations(page string) []explanation {
	var found []explanation
	when := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if heading, is := strings.CutPrefix(line, "## "); is {
			when = heading
		}
		row := reasonRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		for reason := range strings.SplitSeq(row[1], ", ") {
			found = append(found, explanation{Reason: strings.Trim(reason, "`"), When: when, WhatToDo: withoutLinks(row[2])})
		}
	}
	return found
}

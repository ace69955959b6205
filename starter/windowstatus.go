package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// window parses the name of a window: NAME, NAMESPACE/NAME, or its workflow id.
func (c *cli) window(name string) (subject, error) {
	parts := strings.Split(strings.TrimPrefix(name, temporal.MaintenanceWindowPrefix), "/")
	switch len(parts) {
	case 1:
	case 2:
		if err := c.inNamespace(parts[0]); err != nil {
			return subject{}, err
		}
	default:
		return subject{}, usagef("%q is not the name of a window: give NAME, NAMESPACE/NAME or window/NAMESPACE/NAME", name)
	}
	return windowSubject(c.objectNamespace(), parts[len(parts)-1]), nil
}

func windowSubject(namespace, name string) subject {
	full := namespace + "/" + name
	return subject{
		noun: "window", name: full, workflowID: temporal.MaintenanceWindowID(namespace, name),
		show: "drydock window status " + full, list: "drydock window list",
	}
}

// completeWindows completes the names of windows.
func (c *cli) completeWindows(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeWorkflows(cmd.Context(), temporal.MaintenanceWindow, true, func(row workflowRow) string { return row.Namespace + "/" + row.Name })
}

func newWindowStatus(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show the status of a window, its next openings, and its recent events",
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeWindows,
		RunE:              c.subjectVerb(c.window, c.showWindow),
	}
	c.addNamespaceFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) showWindow(ctx context.Context, s *server, target subject) error {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return err
	}
	if err := s.cutOff(ctx, target, execution); err != nil {
		return err
	}
	var status windows.Status
	if err := s.query(ctx, target, "", &status); err != nil {
		return err
	}
	status = status.At(time.Now())
	return c.print(status, func(w io.Writer) { renderWindow(w, status) }, target.workflowID)
}

// windowText describes the status of a window in one line.
func windowText(s windows.Status) string {
	text := string(s.Phase)
	switch {
	case s.Override != nil:
		text += fmt.Sprintf(" until %s by %s: %s", s.Override.Until.UTC().Format(time.RFC3339), s.Override.By, s.Override.Reason)
	case s.ExcludedUntil != nil:
		text += " until " + s.ExcludedUntil.UTC().Format(time.RFC3339)
	case s.Opening != nil:
		text += " until " + s.Opening.End.UTC().Format(time.RFC3339)
	case len(s.Upcoming) > 0:
		text += ", opens " + s.Upcoming[0].Start.UTC().Format(time.RFC3339)
	case s.Phase == windows.PhaseUndefined:
		text += ": create it with `drydock window create -f FILE`"
	}
	if s.Trouble != "" {
		text += "; its calendar is invalid: " + s.Trouble
	}
	return text
}

func renderWindow(w io.Writer, s windows.Status) {
	fmt.Fprintf(w, "window %s: %s\n", s.Window, windowText(s))
	if s.Source != "" {
		fmt.Fprintf(w, "defined by %s on the hub\n", s.Source)
	}
	if s.Selector != nil {
		fmt.Fprintf(w, "only for clusters with %s\n", metav1.FormatLabelSelector(s.Selector))
	}
	if len(s.Subscribers) > 0 {
		fmt.Fprintf(w, "used by %s\n", strings.Join(s.Subscribers, ", "))
	}
	if len(s.Upcoming) > 0 {
		t := newTable("OPENS", "CLOSES")
		for _, o := range s.Upcoming {
			t.AppendRow(table.Row{o.Start.UTC().Format(time.RFC3339), o.End.UTC().Format(time.RFC3339)})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
	if len(s.Events) > 0 {
		t := newTable("WHEN", "EVENT", "MESSAGE", "BY")
		for _, e := range s.Events {
			t.AppendRow(table.Row{e.At.UTC().Truncate(time.Second).Format(time.RFC3339), e.Kind, e.Message, strings.TrimSuffix(e.By+": "+e.Reason, ": ")})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
}

func newWindowList(c *cli) *cobra.Command {
	return c.newList("List the windows with their status", "only windows that have not ended", workflowsOf(temporal.MaintenanceWindow), func(w io.Writer, list listing) {
		t := newTable("NAMESPACE", "NAME", "STATUS")
		for _, row := range list.Items {
			t.AppendRow(table.Row{row.Namespace, row.Name, row.phase()})
		}
		list.printTable(w, t, "window")
	})
}

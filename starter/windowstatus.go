package main

import (
	"context"
	"fmt"
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
func (c *cli) completeWindows(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeNamed(temporal.MaintenanceWindow, true)(cmd, args, typed)
}

func newWindowStatus(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status NAME",
		Short:             "Show the status of a window, its next openings, and its recent events",
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeWindows,
		RunE:              c.subjectVerb(c.window, c.showStatus(c.windowReport)),
	}
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// windowReport reads the status once.
func (c *cli) windowReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	if err := s.cutOff(ctx, target, execution); err != nil {
		return report{}, err
	}
	var status windows.Status
	if err := s.query(ctx, target, "", &status); err != nil {
		return report{}, err
	}
	status = status.At(time.Now())
	return report{status, func(w *page) { renderWindow(w, status) }, target.workflowID}, nil
}

// windowText describes the status of a window in one line.
func windowText(s windows.Status, now time.Time) string {
	text := string(s.Phase)
	switch {
	case s.Override != nil:
		text += fmt.Sprintf(" until %s by %s: %s", stamp(s.Override.Until, now), s.Override.By, s.Override.Reason)
	case s.ExcludedUntil != nil:
		text += " until " + stamp(*s.ExcludedUntil, now)
	case s.Opening != nil:
		text += " until " + stamp(s.Opening.End, now)
	case len(s.Upcoming) > 0:
		text += ", opens " + stamp(s.Upcoming[0].Start, now)
	case s.Phase == windows.PhaseUndefined:
		text += ": create it with `drydock window create -f FILE`"
	}
	if s.Trouble != "" {
		text += "; its calendar is invalid: " + s.Trouble
	}
	return text
}

func renderWindow(w *page, s windows.Status) {
	fmt.Fprintf(w, "window %s: %s\n", s.Window, windowText(s, w.now))
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
		t := w.newTable("OPENS", "CLOSES")
		for _, o := range s.Upcoming {
			t.AppendRow(table.Row{stamp(o.Start, w.now), stamp(o.End, w.now)})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
	if len(s.Events) > 0 {
		t := w.newTable("WHEN", "EVENT", "MESSAGE", "BY")
		for _, e := range s.Events {
			t.AppendRow(table.Row{stamp(e.At, w.now), e.Kind, e.Message, strings.TrimSuffix(e.By+": "+e.Reason, ": ")})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
}

func newWindowDescribe(c *cli) *cobra.Command {
	cmd := c.newDescribe("window", "NAME", byName(c.window), c.windowReport)
	cmd.ValidArgsFunction = c.completeWindows
	c.addNamespaceFlag(cmd)
	return cmd
}

func newWindowList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.MaintenanceWindow, prefix: temporal.MaintenanceWindowPrefix, namespaced: true,
		short: "List the windows with their status", runningHelp: "only windows that have not ended",
		word: "window", none: "no windows; create one with `drydock window create -f FILE`", noneRunning: "every window has ended",
		header: []any{"NAMESPACE", "NAME", "STATUS"},
		row:    func(row workflowRow, _ time.Time) table.Row { return table.Row{row.Namespace, row.Name, row.phase()} },
	})
}

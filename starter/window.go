package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/windows"
)

func newWindow(c *cli) *cobra.Command {
	cmd := noun("window", "Maintenance windows: when disruption is allowed")
	cmd.AddCommand(newWindowCreate(c), newWindowApply(c), newWindowEdit(c), newWindowExtend(c), newWindowEnd(c), newWindowCancel(c), newWindowDelete(c), newWindowOverride(c),
		newWindowStatus(c), newWindowDescribe(c), newWindowList(c), newWindowPhase(c), newWindowPreview(c), newWindowAllows(c))
	return cmd
}

func addAtFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "", "answer for this time, e.g. 2026-11-20T22:00:00Z (default: now)")
}

func newWindowPhase(c *cli) *cobra.Command {
	var file, at string
	cmd := &cobra.Command{
		Use:   "phase -f FILE",
		Short: "Show the phase of an announced maintenance, and when it changes",
		Args:  operands(),
		RunE: c.verb(func(context.Context, []string) error {
			maintenance, err := manifest.LoadOne[*sreportalv1.Maintenance](file, c.In)
			if err != nil {
				return inputError(err)
			}
			now, err := timeOf("--at", at, time.Now())
			if err != nil {
				return err
			}
			state, err := windows.StateAt(now, maintenance.Spec.ScheduledStart.Time, maintenance.Spec.ScheduledEnd.Time)
			if err != nil {
				return inputError(err)
			}
			return c.print(state, func(w *page) { renderPhase(w, maintenance, state, now) }, string(state.Phase))
		}),
	}
	addFileFlag(cmd, &file, "file with the Maintenance")
	addAtFlag(cmd, &at)
	c.addOutputFlag(cmd)
	return cmd
}

func renderPhase(w *page, maintenance *sreportalv1.Maintenance, state windows.MaintenanceState, now time.Time) {
	fmt.Fprintf(w, "%s: %s", maintenance.Spec.Title, state.Phase)
	if next := state.NextTransition; next != nil {
		fmt.Fprintf(w, " until %s, for %s", stamp(*next, w.now), duration.HumanDuration(next.Sub(now)))
	}
	fmt.Fprintln(w)
}

func newWindowPreview(c *cli) *cobra.Command {
	var file, from, to string
	cmd := &cobra.Command{
		Use:   "preview -f FILE",
		Short: "Show when a window opens and closes, across daylight saving time",
		Args:  operands(),
		RunE: c.verb(func(context.Context, []string) error {
			object, err := manifest.LoadOne[*drydockv1.MaintenanceWindow](file, c.In)
			if err != nil {
				return inputError(err)
			}
			return c.previewWindow(object, from, to)
		}),
	}
	addFileFlag(cmd, &file, "file with the MaintenanceWindow")
	cmd.Flags().StringVar(&from, "from", "", "show openings from this time, e.g. 2026-11-20T22:00:00Z (default: now)")
	cmd.Flags().StringVar(&to, "to", "", "show openings that start before this time (default: 90 days after --from)")
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) previewWindow(object *drydockv1.MaintenanceWindow, from, to string) error {
	window, err := windows.New(object)
	if err != nil {
		return inputError(err)
	}
	start, err := timeOf("--from", from, time.Now())
	if err != nil {
		return err
	}
	end, err := timeOf("--to", to, start.AddDate(0, 0, 90))
	if err != nil {
		return err
	}
	preview, err := window.Preview(start, end)
	if errors.Is(err, windows.ErrInvalidRange) || errors.Is(err, windows.ErrTooMany) {
		return usagef("%w; set another --from and --to", err)
	}
	if err != nil {
		return err
	}
	starts := make([]string, len(preview.Occurrences))
	for i, o := range preview.Occurrences {
		starts[i] = o.Start.Format(time.RFC3339)
	}
	return c.print(preview, func(w *page) { renderWindowPreview(w, window.Name(), preview) }, starts...)
}

func renderWindowPreview(w *page, name string, preview windows.Preview) {
	if len(preview.Occurrences) == 0 {
		fmt.Fprintf(w, "window %s does not open in this period\n", name)
	} else {
		t := w.newTable("OPENS", "CLOSES", "FOR", "NOTE")
		for _, o := range preview.Occurrences {
			closes := o.End.In(o.LocalStart.Location()).Format(clockAndOffset)
			t.AppendRow(table.Row{o.LocalStart.Format(clockAndOffset), closes, o.End.Sub(o.Start).String(), o.Note})
		}
		fmt.Fprintln(w, t.Render())
	}
	for _, d := range preview.Dropped {
		because := string(d.Reason)
		if d.Note != "" {
			because += " by " + d.Note
		}
		fmt.Fprintf(w, "not at %s: %s\n", stamp(d.Start, w.now), because)
	}
}

// clockAndOffset is a local time with its offset from UTC.
const clockAndOffset = "Mon 2006-01-02 15:04:05 -07:00"

func newWindowAllows(c *cli) *cobra.Command {
	var file, at, clusterLabels string
	var needs time.Duration
	cmd := &cobra.Command{
		Use:   "allows -f FILE",
		Short: "Show whether windows allow something to start",
		Long: `Show whether windows allow something to start: at least one is open, none of their exclusions applies, and enough time
is left. The exit status is 1 if they do not allow it.

With --cluster-labels the command decides for a cluster with these labels, and ignores windows that do not select it.`,
		Args: operands(),
		RunE: c.verb(func(context.Context, []string) error {
			objects, err := manifest.Load[*drydockv1.MaintenanceWindow](file, c.In)
			if err != nil {
				return inputError(err)
			}
			question, err := newQuestion(at, needs, clusterLabels)
			if err != nil {
				return err
			}
			return c.askWindows(objects, question)
		}),
	}
	addFileFlag(cmd, &file, "file with the MaintenanceWindows")
	addAtFlag(cmd, &at)
	cmd.Flags().DurationVar(&needs, "needs", 0, "duration of the work, e.g. 2h: it must fit before the windows close")
	cmd.Flags().StringVar(&clusterLabels, "cluster-labels", "", "labels of the cluster, e.g. env=prod,site=a (default: all windows apply)")
	c.addOutputFlag(cmd)
	return cmd
}

func newQuestion(at string, needs time.Duration, clusterLabels string) (windows.Question, error) {
	now, err := timeOf("--at", at, time.Now())
	if err != nil {
		return windows.Question{}, err
	}
	if needs < 0 {
		return windows.Question{}, usagef("--needs %s: must not be negative", needs)
	}
	question := windows.Question{Now: now, Need: needs}
	if clusterLabels != "" {
		set, err := labels.ConvertSelectorToLabelsMap(clusterLabels)
		if err != nil {
			return windows.Question{}, usagef("--cluster-labels %q are not labels such as env=prod,site=a", clusterLabels)
		}
		question.Cluster = set
	}
	return question, nil
}

func (c *cli) askWindows(objects []*drydockv1.MaintenanceWindow, question windows.Question) error {
	var asked []*windows.Window
	for _, object := range objects {
		window, err := windows.New(object)
		if err != nil {
			return inputError(err)
		}
		asked = append(asked, window)
	}
	verdict, err := windows.Allows(asked, question)
	if errors.Is(err, windows.ErrInvalidRange) {
		return usagef("%w; set --at to another time", err)
	}
	if err != nil {
		return err
	}
	if err := c.print(verdict, func(w *page) { renderVerdict(w, verdict) }, string(verdict.Reason)); err != nil {
		return err
	}
	if !verdict.Allowed {
		return errPrinted
	}
	return nil
}

func renderVerdict(w *page, verdict windows.Verdict) {
	answer := "not allowed"
	if verdict.Allowed {
		answer = "allowed"
	}
	fmt.Fprintf(w, "%s: %s\n", answer, verdict.Reason)
	switch {
	case verdict.Until != nil:
		fmt.Fprintf(w, "window %s closes at %s\n", verdict.Window, stamp(*verdict.Until, w.now))
	case verdict.NextOpen != nil:
		fmt.Fprintf(w, "window %s opens at %s\n", verdict.Window, stamp(*verdict.NextOpen, w.now))
	}
}

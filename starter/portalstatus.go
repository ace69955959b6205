package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
)

func newPortalStatus(c *cli) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the status of the components of a portal, its incidents and maintenances",
		Long: `Show the status of the components of a portal, its incidents and maintenances: in progress, upcoming, and the last five that
ended.

With --watch the command shows every change: a live view on a terminal, otherwise one line per change (with -o json one status per line).`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completePortals,
		RunE: c.subjectVerb(namedPortal, func(ctx context.Context, s *server, target subject) error {
			if watch {
				get := func(ctx context.Context, execution *client.WorkflowExecutionDescription, _ int) (followed, error) {
					return s.portalStatus(ctx, target, execution)
				}
				return c.watch(ctx, s, target, get, func() bool { return false })
			}
			return c.showStatus(c.portalReport)(ctx, s, target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep running and show every change")
	c.addOutputFlag(cmd)
	return cmd
}

// portalStatus is the output of -o json: the content of a portal.
type portalStatus struct{ portal.View }

// portalStatus gets the current content of a portal. With errFromResult the status is valid.
func (s *server) portalStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription) (portalStatus, error) {
	var view portal.View
	err := s.status(ctx, target, execution, &view)
	return portalStatus{view.At(time.Now().UTC())}, err
}

// portalReport reads the content once.
func (c *cli) portalReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	status, err := s.portalStatus(ctx, target, execution)
	return c.reportOf(status, target, err)
}

// completedShown is the number of ended maintenances, and of resolved incidents, in the output.
const completedShown = 5

// incidents are those that are not resolved, and the last that were.
func (s portalStatus) incidents() []portal.IncidentView {
	active := slices.IndexFunc(s.Incidents, func(i portal.IncidentView) bool { return i.ResolvedAt != nil })
	if active < 0 {
		return s.Incidents
	}
	return s.Incidents[:min(len(s.Incidents), active+completedShown)]
}

func (s portalStatus) maintenances() []portal.MaintenanceView {
	all := append(append([]portal.MaintenanceView{}, s.InProgress...), s.Upcoming...)
	return append(all, s.Completed[:min(len(s.Completed), completedShown)]...)
}

func (s portalStatus) lines(now time.Time) []statusLine {
	lines := []statusLine{{"portal", fmt.Sprintf("portal %s is %s", s.Name, s.Status)}}
	for _, c := range s.Components {
		text := fmt.Sprintf("component %s is %s", c.Name, c.Status)
		if len(c.Because) > 0 {
			text += " because of " + c.BecauseOf()
		}
		lines = append(lines, statusLine{"component " + c.Name, text})
	}
	for _, incident := range s.incidents() {
		lines = append(lines, statusLine{"incident " + incident.Name, fmt.Sprintf("incident %s, %s, is %s: %s", incident.Name, incident.Title, incident.Phase, incident.Message)})
	}
	for _, m := range s.maintenances() {
		lines = append(lines, statusLine{"maintenance " + m.Name, fmt.Sprintf("maintenance %s, %s, is %s", m.Name, m.Title, maintenanceTimes(m, now))})
	}
	for _, problem := range s.Problems {
		lines = append(lines, statusLine{problem, problem})
	}
	return lines
}

// maintenanceTimes describes the phase of a maintenance with its next time.
func maintenanceTimes(m portal.MaintenanceView, now time.Time) string {
	switch {
	case m.Phase == sreportalv1.PhaseUpcoming:
		return "upcoming, starts " + stamp(m.Start, now)
	case m.Phase == sreportalv1.PhaseInProgress:
		return "in progress until " + stamp(m.End, now)
	case m.Cancelled:
		return "over since " + stamp(m.End, now) + ", ended early"
	}
	return "completed"
}

func (s portalStatus) frame(now time.Time, style frameStyle) string {
	var text strings.Builder
	fmt.Fprintf(&text, "portal %s: %s", s.Name, s.Status)
	for _, problem := range s.Problems {
		fmt.Fprintf(&text, "\nproblem: %s", problem)
	}
	if len(s.Components) > 0 {
		t := style.newTable("GROUP", "COMPONENT", "STATUS", "FOR", "BECAUSE OF", "OPERATIONAL IN 30 DAYS")
		for _, c := range s.Components {
			t.AppendRow(table.Row{c.Group, c.Name, c.Status, age(now, c.Since), c.BecauseOf(), operationalShare(c.Days)})
		}
		text.WriteString("\n\n" + t.Render())
	}
	if incidents := s.incidents(); len(incidents) > 0 {
		t := style.newTable("INCIDENT", "TITLE", "SEVERITY", "PHASE", "STARTED", "RESOLVED", "COMPONENTS")
		for _, i := range incidents {
			resolved := ""
			if i.ResolvedAt != nil {
				resolved = stamp(*i.ResolvedAt, now)
			}
			t.AppendRow(table.Row{i.Name, i.Title, i.Severity, i.Phase, stamp(i.StartedAt, now), resolved, strings.Join(i.Components, ", ")})
		}
		text.WriteString("\n\n" + t.Render())
	}
	if maintenances := s.maintenances(); len(maintenances) > 0 {
		t := style.newTable("MAINTENANCE", "TITLE", "PHASE", "STARTS", "ENDS", "COMPONENTS")
		for _, m := range maintenances {
			t.AppendRow(table.Row{
				m.Name, m.Title, m.Phase, stamp(m.Start, now), stamp(m.End, now), strings.Join(m.Components, ", "),
			})
		}
		text.WriteString("\n\n" + t.Render())
	}
	return text.String()
}

// operationalShare is the share of the known time in which a component was operational.
func operationalShare(days []portal.Day) string {
	var known, operational int64
	for _, day := range days {
		known += day.KnownSeconds
		operational += day.StatusSeconds[sreportalv1.StatusOperational]
	}
	if known == 0 {
		return ""
	}
	// Rounded down, so that 100% means always operational.
	hundredths := operational * 10000 / known
	return fmt.Sprintf("%d.%02d%%", hundredths/100, hundredths%100)
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/harbor"
)

// harborStatus is the output of -o json: the status of a HarborCluster.
type harborStatus struct {
	Metadata workflowRef   `json:"metadata"`
	Status   harbor.Status `json:"status"`
}

func newHarborStatus(c *cli) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the health of a Harbor and its services, with the reasons",
		Long: `Show the health of a Harbor and its services, with the reasons. The exit status is 1 if Harbor is unhealthy or not managed, or if the status
may be stale.

With --watch the command shows every change: a live view on a terminal, otherwise one line per change (with -o json one status per line).`,
		Args: operands("NAME"), ValidArgsFunction: c.completeNamed(temporal.HarborCluster, false),
		RunE: c.subjectVerb(c.namedHarborCluster, func(ctx context.Context, s *server, target subject) error {
			if watch {
				_, err := c.watchHarbor(ctx, s, target, func(harborStatus) bool { return false })
				return err
			}
			return c.showHarbor(ctx, s, target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep running and show every change")
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// harborStatus gets the status of a HarborCluster. With errFromResult the status is valid.
func (s *server) harborStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription) (harborStatus, error) {
	status := harborStatus{Metadata: observe.RefOfExecution(target.workflowID, execution)}
	return status, s.status(ctx, target, execution, &status.Status)
}

func (c *cli) showHarbor(ctx context.Context, s *server, target subject) error {
	shown, err := c.harborReport(ctx, s, target)
	if err != nil {
		return err
	}
	if err := c.printReport(shown); err != nil {
		return err
	}
	return shown.object.(harborStatus).verdict(target)
}

// harborReport reads the status once.
func (c *cli) harborReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	status, err := s.harborStatus(ctx, target, execution)
	return c.reportOf(status, target, err)
}

// verdict is an error if Harbor is unhealthy or not managed, or if its status may be stale.
func (s harborStatus) verdict(target subject) error {
	switch {
	case s.Status.State == harbor.Unmanaged || s.Status.State == harbor.Failed:
		return fmt.Errorf("%s is not managed: apply it again", target)
	case s.unseen():
		return fmt.Errorf("%s: the status may be stale: %s", target, s.Status.Wait.Message)
	case s.Status.State == harbor.Managed && s.Status.Harbor.Status == goharborv1.StatusUnhealthy:
		return fmt.Errorf("%s is unhealthy", target)
	}
	return nil
}

// unseen reports whether the services cannot be observed now, so that their status may be stale. A hold does not prevent that.
func (s harborStatus) unseen() bool {
	return s.Status.State == harbor.Managed && s.Status.Wait != nil && s.Status.Wait.Reason != emergency.ReasonUnknown
}

// watchHarbor shows a HarborCluster until enough returns true or its workflow closes, and returns its last status.
func (c *cli) watchHarbor(ctx context.Context, s *server, target subject, enough func(harborStatus) bool) (harborStatus, error) {
	var last harborStatus
	get := func(ctx context.Context, execution *client.WorkflowExecutionDescription, _ int) (followed, error) {
		var err error
		last, err = s.harborStatus(ctx, target, execution)
		return last, err
	}
	err := c.watch(ctx, s, target, get, func() bool { return enough(last) })
	return last, err
}

// awaitHarbor shows a HarborCluster until a generation of it is healthy.
func (c *cli) awaitHarbor(ctx context.Context, s *server, target subject, generation int64) error {
	healthy := func(s harborStatus) bool {
		return s.Status.Wait == nil && s.Status.Harbor.Status == goharborv1.StatusHealthy && s.Status.Harbor.ObservedGeneration >= generation
	}
	last, err := c.watchHarbor(ctx, s, target, healthy)
	if err == nil && !healthy(last) {
		err = fmt.Errorf("%s did not become healthy: it is %s", target, strings.ToLower(string(last.Status.State)))
	}
	return err
}

func (s harborStatus) lines(time.Time) []statusLine {
	var lines []statusLine
	for _, condition := range s.Status.Harbor.Conditions {
		lines = append(lines, statusLine{string(condition.Type), fmt.Sprintf("%s is %s: %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)})
	}
	whole := "HarborCluster " + s.Status.Namespace + "/" + s.Status.Name + ": " + s.word()
	if wait := s.Status.Wait; wait != nil {
		whole += "; waiting: " + wait.Reason + ": " + wait.Message
	}
	if held := holdLine(s.Status.Held, reasonOf(s.Status.Wait)); held != "" {
		whole += "; " + held
	}
	return append(lines, statusLine{"whole", whole})
}

// word is the health of Harbor, or whether it is being deleted.
func (s harborStatus) word() string {
	if s.Status.State == harbor.Managed && s.Status.Harbor.Status != "" {
		return string(s.Status.Harbor.Status)
	}
	return strings.ToLower(string(s.Status.State))
}

func (s harborStatus) frame(now time.Time, style frameStyle) string {
	var text strings.Builder
	fmt.Fprintf(&text, "HarborCluster %s/%s in cluster %s: %s", s.Status.Namespace, s.Status.Name, s.Status.Cluster, s.word())
	if s.Status.Harbor.Status != "" {
		fmt.Fprintf(&text, " for %s", age(now, s.Status.Since.Time))
	}
	if held := holdLine(s.Status.Held, reasonOf(s.Status.Wait)); held != "" {
		text.WriteString("\n" + held)
	}
	if wait := s.Status.Wait; wait != nil {
		fmt.Fprintf(&text, "\nwaiting: %s", waitText(*wait, now))
	}
	if s.unseen() {
		text.WriteString("\nthe following may be stale")
	}
	if s.Status.Failures != "" {
		fmt.Fprintf(&text, "\ncould not be applied: %s", s.Status.Failures)
	}
	for _, note := range s.Status.Notes {
		fmt.Fprintf(&text, "\nnote: %s", note)
	}
	if len(s.Status.Harbor.Conditions) == 0 {
		return text.String()
	}
	t := style.newTable("CONDITION", "STATUS", "FOR", "REASON", "MESSAGE")
	for _, condition := range s.Status.Harbor.Conditions {
		since := ""
		if condition.LastTransitionTime != nil {
			since = age(now, condition.LastTransitionTime.Time)
		}
		t.AppendRow(table.Row{condition.Type, condition.Status, since, condition.Reason, condition.Message})
	}
	return text.String() + "\n\n" + t.Render()
}

func newHarborDescribe(c *cli) *cobra.Command {
	cmd := c.newDescribe("HarborCluster", "NAME", byName(c.namedHarborCluster), c.harborReport)
	cmd.ValidArgsFunction = c.completeNamed(temporal.HarborCluster, false)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	return cmd
}

func newHarborList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.HarborCluster, prefix: "harbor/", clustered: true, namespaced: true,
		short: "List the HarborClusters with their health", runningHelp: "only managed ones",
		word: "HarborCluster", none: "no HarborClusters; create one with `drydock harbor apply -f FILE --cluster CLUSTER`", noneRunning: "no HarborCluster is managed",
		header: []any{"CLUSTER", "NAMESPACE", "NAME", "STATUS", "STARTED", "REASON"},
		row: func(row workflowRow, now time.Time) table.Row {
			return table.Row{row.Cluster, row.Namespace, row.Name, row.phase(), age(now, row.StartedAt) + " ago", row.Reason}
		},
	})
}

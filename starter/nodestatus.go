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
	"k8s.io/apimachinery/pkg/util/duration"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// maintenanceStatus is the output of -o json: the status of a maintenance.
type maintenanceStatus struct {
	Metadata maintenanceRef                      `json:"metadata"`
	Status   maintenancev1.NodeMaintenanceStatus `json:"status"`
	// Object is the one that requests the maintenance; nil: there is none.
	Object *temporal.Object `json:"object,omitempty"`
	// QueuePosition is its position among the requests that wait for a slot; nil if it does not wait for one.
	QueuePosition *queuePosition `json:"queuePosition,omitempty"`
	// Queued are the maintenances of the node that wait for a slot and have not started.
	Queued []queuedMaintenance `json:"queued,omitempty"`
	// Others are the other maintenances of the node that Temporal retains, the newest first.
	Others []workflowRow `json:"otherMaintenances,omitempty"`
}

// maintenanceRef names a maintenance.
type maintenanceRef struct {
	workflowRef
	Node      string `json:"node,omitempty"`
	Requestor string `json:"requestor,omitempty"`
}

func newNodeStatus(c *cli) *cobra.Command {
	var watch bool
	var until string
	cmd := &cobra.Command{
		Use:   "status NAME|NODE",
		Short: "Show the status of a maintenance, and what it waits for",
		Long: `Show the status of a maintenance, and what it waits for. For a node without a running maintenance it shows the last one.
The other maintenances of the node follow, of all requestors: those that wait for a slot, and those that have ended.

With --watch the command follows the maintenance until it ends: a live view on a terminal, otherwise one line per change (with -o json one
status per line). It exits with status 0 only if the maintenance completed. With --for it exits with status 0 when the maintenance reaches
that state.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeMaintenances,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			if err := checkAwaitedState(until, watch); err != nil {
				return err
			}
			s, err := c.dial(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			target, err := c.maintenanceOf(ctx, s, args[0], "", true)
			if err != nil {
				return err
			}
			if watch {
				return c.awaitState(ctx, s, target, maintenancev1.NodeState(until))
			}
			return c.showStatus(c.maintenanceReport)(ctx, s, target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow it until it ends")
	cmd.Flags().StringVar(&until, "for", "", "with --watch: only until the maintenance reaches this state, e.g. Ready")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(nodeStates(), cobra.ShellCompDirectiveNoFileComp))
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// maintenanceReport reads the status once.
func (c *cli) maintenanceReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	status, err := s.maintenanceStatus(ctx, target, execution)
	if status.Metadata.Node != "" {
		status.Others = s.otherMaintenances(ctx, status.Metadata)
		status.Queued = s.queuedMaintenances(ctx, status)
	}
	return c.reportOf(status, target, err)
}

// otherMaintenances are the other maintenances of the node. They are an addition to a status, which is shown without them if Temporal does not list them.
func (s *server) otherMaintenances(ctx context.Context, of maintenanceRef) []workflowRow {
	rows, err := s.list(ctx, maintenancesOf(of.Cluster, of.Node, false))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(rows, func(row workflowRow) bool { return row.WorkflowID == of.WorkflowID })
}

// queuedMaintenances are those of the node of a status that have not started. It is none if the scheduler does not answer.
func (s *server) queuedMaintenances(ctx context.Context, status maintenanceStatus) []queuedMaintenance {
	known := []workflowRef{status.Metadata.workflowRef}
	for _, other := range status.Others {
		known = append(known, other.Ref)
	}
	return s.queue(ctx, status.Metadata.Cluster, temporal.StatusRequest{Filter: status.Metadata.Node}).queuedFor(status.Metadata.Node, known...)
}

// maintenanceStatus gets the status of a maintenance. With errFromResult the status is valid.
func (s *server) maintenanceStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription) (maintenanceStatus, error) {
	status := maintenanceStatus{
		Metadata: maintenanceRef{workflowRef: observe.RefOfExecution(target.workflowID, execution)}, Object: sourceOf(execution),
	}
	status.Metadata.Node, _ = execution.TypedSearchAttributes.GetKeyword(temporal.AttributeNode)
	status.Metadata.Requestor, _ = execution.TypedSearchAttributes.GetKeyword(temporal.AttributeRequestor)
	err := s.status(ctx, target, execution, &status.Status)
	if err == nil && status.Status.State == maintenancev1.NodePending {
		status.QueuePosition = s.queuePosition(ctx, status.Metadata).with(status.Status.Wait)
	}
	return status, err
}

// checkAwaitedState validates --for.
func checkAwaitedState(state string, watch bool) error {
	switch {
	case state == "":
		return nil
	case !watch:
		return usagef("--for needs --watch")
	case !slices.Contains(nodeStates(), state):
		return usagef("--for %q is not a state of a maintenance: give one of %s", state, joined(nodeStates()))
	}
	return nil
}

func nodeStates() []string {
	var states []string
	for _, state := range maintenancev1.NodeStates() {
		states = append(states, string(state))
	}
	return states
}

// awaitState shows a maintenance until it reaches a state, or until it ends. It returns nil only if it saw the state, or if the maintenance
// completed.
func (c *cli) awaitState(ctx context.Context, s *server, target subject, state maintenancev1.NodeState) error {
	last, err := c.watchMaintenance(ctx, s, target, func(now maintenancev1.NodeState) bool { return now == state })
	if err == nil && state != "" && last.State != state {
		return fmt.Errorf("%s has ended (%s) and was never seen in state %s", target, last.State, state)
	}
	return err
}

// watchMaintenance shows a maintenance until it ends or enough returns true, and returns its last status. The error is nil only if enough
// returned true, or if the maintenance completed.
func (c *cli) watchMaintenance(
	ctx context.Context, s *server, target subject, enough func(maintenancev1.NodeState) bool,
) (maintenancev1.NodeMaintenanceStatus, error) {
	var last maintenanceStatus
	get := func(ctx context.Context, execution *client.WorkflowExecutionDescription, _ int) (followed, error) {
		var err error
		last, err = s.maintenanceStatus(ctx, target, execution)
		return last, err
	}
	err := c.watch(ctx, s, target, get, func() bool { return enough(last.Status.State) })
	if state := last.Status.State; err == nil && state != maintenancev1.NodeCompleted && !enough(state) {
		err = fmt.Errorf("%s ended as %s", target, endText(last.Status))
	}
	return last.Status, err
}

// endText is the final state of a maintenance and the reason. NodeGone is both, and appears once.
func endText(status maintenancev1.NodeMaintenanceStatus) string {
	return string(status.State) + strings.TrimPrefix(failureText(status.Failure), ": "+string(status.State))
}

func failureText(failure *maintenancev1.Failure) string {
	if failure == nil {
		return ""
	}
	return ": " + failure.Reason + ": " + failure.Message
}

func (s maintenanceStatus) frame(now time.Time, style frameStyle) string {
	status := s.Status
	lines := []string{style.headline([]string{
		fmt.Sprintf("node %s in cluster %s", s.Metadata.Node, s.Metadata.Cluster), style.paint(string(status.State)),
		fmt.Sprintf("maintenance %s/%s for %s", s.Metadata.Namespace, s.Metadata.Name, s.Metadata.Requestor),
	})}
	if s.Object != nil {
		lines = append(lines, sourceLine(s.Object, status.State.Over(), "delete it when the work is done, or to cancel"))
	}
	if text := startText(s.Metadata.workflowRef, "", ""); text != "" {
		lines = append(lines, text)
	}
	switch wait := status.Wait; {
	case s.QueuePosition != nil:
		lines = append(lines, "waiting: "+s.QueuePosition.text(now))
	case wait != nil:
		lines = append(lines, "waiting: "+waitText(*wait, now))
		for _, blocker := range wait.Blockers {
			lines = append(lines, "  "+reasonFor(blocker.String(), blocker.Message, blocker.Since, now))
		}
	}
	for _, r := range status.Requestors {
		line := "requestor " + r.RequestorID + ": " + string(r.State)
		lines = append(lines, strings.TrimSuffix(line+", "+r.Message, ", "))
	}
	if line := holdLine(status.Held, reasonOf(status.Wait)); line != "" {
		lines = append(lines, line)
	}
	if status.Failure != nil {
		lines = append(lines, "failed"+failureText(status.Failure))
		for _, blocker := range status.Failure.Blockers { // their clocks have stopped
			lines = append(lines, "  "+reasonFor(blocker.String(), blocker.Message, nil, now))
		}
	}
	if drain := status.Drain; drain != nil && status.State == maintenancev1.NodeDraining {
		lines = append(lines, fmt.Sprintf("%s %3d%%  %s", bar(int(drain.DrainProgress), barWidth), drain.DrainProgress, drainText(drain)))
	}
	for _, note := range status.Notes {
		lines = append(lines, "note: "+note)
	}
	if len(status.States) > 0 {
		lines = append(lines, "", s.states(now, style))
	}
	for i, queued := range s.Queued {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, queued.text(now))
	}
	if len(s.Others) > 0 {
		lines = append(lines, "", s.others(now, style))
	}
	return strings.Join(lines, "\n")
}

// othersShown is the number of other maintenances in the output for people.
const othersShown = 10

// others is the table of the other maintenances of the node.
func (s maintenanceStatus) others(now time.Time, style frameStyle) string {
	t := style.newTable("OTHER MAINTENANCE", "REQUESTOR", "STATE", "STARTED", "ENDED", "REASON")
	for _, row := range s.Others[:min(len(s.Others), othersShown)] {
		t.AppendRow(table.Row{row.Namespace + "/" + row.Name, row.Requestor, style.paint(row.phase()), stamp(row.StartedAt, now), stampOf(row.CompletedAt, now), row.Reason})
	}
	text := t.Render()
	if rest := len(s.Others) - othersShown; rest > 0 {
		text += fmt.Sprintf("\nand %d more", rest)
	}
	return text
}

// states is the table of states with the duration of each.
func (s maintenanceStatus) states(now time.Time, style frameStyle) string {
	t := style.newTable("STATE", "ENTERED", "TOOK")
	for i, state := range s.Status.States {
		left := now
		switch {
		case i+1 < len(s.Status.States):
			left = s.Status.States[i+1].At.Time
		case s.Status.CompletedAt != nil:
			left = s.Status.CompletedAt.Time
		}
		t.AppendRow([]any{state.State, clock(state.At.Time, now), duration.HumanDuration(left.Sub(state.At.Time))})
	}
	return t.Render()
}

func drainText(drain *maintenancev1.DrainStatus) string {
	return fmt.Sprintf("%d of %s gone", drain.Evicted, plural(int(drain.EvictionPods), "pod"))
}

func (s maintenanceStatus) lines(time.Time) []statusLine {
	return []statusLine{{"maintenance", s.line()}}
}

// line describes a maintenance in one line without times.
func (s maintenanceStatus) line() string {
	status := s.Status
	line := fmt.Sprintf("%s: %s", s.Metadata.Node, status.State)
	if status.Drain != nil && status.State == maintenancev1.NodeDraining {
		line += ": " + drainText(status.Drain)
	}
	if wait := status.Wait; wait != nil {
		line += "; " + strings.Trim(wait.Reason+": "+wait.Message, ": ")
	}
	if held := holdLine(status.Held, reasonOf(status.Wait)); held != "" {
		line += "; " + held
	}
	if status.Failure != nil {
		line += "; failed" + failureText(status.Failure)
	}
	return line
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/util/duration"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// maintenanceStatus is the status of a maintenance as programs read it.
type maintenanceStatus struct {
	Metadata maintenanceRef                      `json:"metadata"`
	Status   maintenancev1.NodeMaintenanceStatus `json:"status"`
	// Standing is where it stands among those that wait for a slot; nil when it does not.
	Standing *standing `json:"standing,omitempty"`
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
		Short: "Show where a maintenance stands, and what it waits for",
		Long: `Show where a maintenance stands, and what it waits for. Of a node that none is at work on, it shows the last one.

With --watch it follows the maintenance to its end, on a terminal as a live view, elsewhere with one line a change (with -o json one
status a line), and ends with status 0 only if it completed. With --for it ends with status 0 as soon as the maintenance is in that state.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeMaintenances,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			if err := checkAwaited(until, watch); err != nil {
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
			return c.showMaintenance(ctx, s, target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow it to its end")
	cmd.Flags().StringVar(&until, "for", "", "with --watch: only until it is in this state, e.g. Ready")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(nodeStates(), cobra.ShellCompDirectiveNoFileComp))
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addTimeoutFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// showMaintenance prints the status once.
func (c *cli) showMaintenance(ctx context.Context, s *server, target subject) error {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return err
	}
	status, err := s.maintenanceStatus(ctx, target, execution)
	if errors.Is(err, errFromResult) {
		fmt.Fprintln(c.ErrOut, err)
	} else if err != nil {
		return err
	}
	return c.print(status, func(w io.Writer) { fmt.Fprintln(w, status.frame(time.Now(), frameStyle{})) }, status.Metadata.WorkflowID)
}

// maintenanceStatus gets the status of a maintenance. The error may be errFromResult, a remark.
func (s *server) maintenanceStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription) (maintenanceStatus, error) {
	status := maintenanceStatus{Metadata: maintenanceRef{workflowRef: observe.RefOf(target.workflowID, execution.WorkflowExecution.RunID)}}
	status.Metadata.Node, _ = execution.TypedSearchAttributes.GetKeyword(temporal.AttributeNode)
	status.Metadata.Requestor, _ = execution.TypedSearchAttributes.GetKeyword(temporal.AttributeRequestor)
	err := s.status(ctx, target, execution, &status.Status)
	if err == nil && status.Status.State == maintenancev1.NodePending {
		status.Standing = s.standing(ctx, status.Metadata).with(status.Status.Wait)
	}
	return status, err
}

// checkAwaited refuses a state that there is none to wait for.
func checkAwaited(state string, watch bool) error {
	switch {
	case state == "":
		return nil
	case !watch:
		return usagef("--for needs --watch")
	case !slices.Contains(nodeStates(), state):
		return usagef("--for %q is no state of a maintenance: give one of %s", state, listed(nodeStates()))
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

// awaitState shows a maintenance until it is in that state; without one, to its end. It returns nil only if the state was seen, or the end was a good one.
func (c *cli) awaitState(ctx context.Context, s *server, target subject, state maintenancev1.NodeState) error {
	last, err := c.watchMaintenance(ctx, s, target, func(now maintenancev1.NodeState) bool { return now == state })
	if err == nil && state != "" && last.State != state {
		return fmt.Errorf("%s is over (%s), and was not seen %s", target, last.State, state)
	}
	return err
}

// watchMaintenance shows a maintenance until it is over, or until enough says so, and returns its last status. The error is nil only if enough did, or if
// it completed.
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

// endText is the state a maintenance has ended in, and why. NodeGone is both, and is said once.
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
	lines := []string{strings.Join([]string{
		fmt.Sprintf("node %s in cluster %s", s.Metadata.Node, s.Metadata.Cluster), style.paint(string(status.State)),
		fmt.Sprintf("maintenance %s/%s for %s", s.Metadata.Namespace, s.Metadata.Name, s.Metadata.Requestor),
	}, "   ")}
	switch wait := status.Wait; {
	case s.Standing != nil:
		lines = append(lines, "waiting: "+s.Standing.text(now))
	case wait != nil:
		lines = append(lines, "waiting: "+waitText(*wait, now))
		for _, blocker := range wait.Blockers {
			lines = append(lines, "  "+reasonFor(blocker.String(), blocker.Message, blocker.Since, now))
		}
	}
	if status.JoinedTo != "" {
		lines = append(lines, shares(status)+" the node of "+status.JoinedTo)
	}
	for _, r := range status.Requestors {
		line := "requestor " + r.RequestorID + ": " + string(r.State)
		if r.Maintenance != "" {
			line = "requestor " + r.RequestorID + " (" + r.Maintenance + "): " + string(r.State)
		}
		lines = append(lines, strings.TrimSuffix(line+", "+r.Message, ", "))
	}
	if line := holdLine(status.Held, reasonOf(status.Wait)); line != "" {
		lines = append(lines, line)
	}
	if status.Failure != nil {
		lines = append(lines, "failed"+failureText(status.Failure))
		for _, blocker := range status.Failure.Blockers {
			lines = append(lines, "  "+reasonFor(blocker.String(), blocker.Message, blocker.Since, now))
		}
	}
	if drain := status.Drain; drain != nil && status.State == maintenancev1.NodeDraining {
		lines = append(lines, fmt.Sprintf("%s %3d%%  %s", bar(int(drain.DrainProgress), barWidth), drain.DrainProgress, drainText(drain)))
	}
	for _, note := range status.Notes {
		lines = append(lines, "note: "+note)
	}
	if len(status.States) > 0 {
		lines = append(lines, "", s.states(now))
	}
	return strings.Join(lines, "\n")
}

// shares is what a maintenance does, or has done, that has joined another one.
func shares(status maintenancev1.NodeMaintenanceStatus) string {
	if status.State.Over() {
		return "shared"
	}
	return "shares"
}

// states is the table of the states with the time each took.
func (s maintenanceStatus) states(now time.Time) string {
	t := newTable("STATE", "ENTERED", "TOOK")
	for i, state := range s.Status.States {
		left := now
		switch {
		case i+1 < len(s.Status.States):
			left = s.Status.States[i+1].At.Time
		case s.Status.CompletedAt != nil:
			left = s.Status.CompletedAt.Time
		}
		t.AppendRow([]any{state.State, state.At.Local().Format(time.TimeOnly), duration.HumanDuration(left.Sub(state.At.Time))})
	}
	return t.Render()
}

func drainText(drain *maintenancev1.DrainStatus) string {
	return fmt.Sprintf("%d of %s gone", drain.Evicted, plural(int(drain.PodsToEvict), "pod"))
}

func (s maintenanceStatus) lines() []statusLine { return []statusLine{{"maintenance", s.line()}} }

// line is what there is to say about a maintenance in one line, times left out.
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

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	sdktemporal "go.temporal.io/sdk/temporal"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// nodeSignal describes a verb of one requestor that sends a signal with an actor and a reason to a maintenance. A verb with values has a file of its own,
// as nodejoin.go.
type nodeSignal struct {
	verb, alias, signal, short string
	// result is the printed effect; resultOfOne is for a signal from one of several requestors.
	result, resultOfOne string
	// refuses returns why a maintenance with this status cannot accept the signal from this requestor, and what to do; empty if it can. Nil
	// always accepts.
	refuses func(maintenancev1.NodeMaintenanceStatus, maintenancev1.RequestorStatus) string
}

// notReady refuses a signal that only a requestor with the node can send.
func notReady(status maintenancev1.NodeMaintenanceStatus, _ maintenancev1.RequestorStatus) string {
	switch {
	case status.ReadyForRequestors:
		return ""
	case status.State == maintenancev1.NodeReady:
		return "its job is still working on the node: wait for the job, or cancel"
	case isReturning(status):
		return "the node is already being returned to service"
	}
	return fmt.Sprintf("wait until it is %s, or cancel", maintenancev1.NodeReady)
}

// notWorking refuses a failure of work that has ended.
func notWorking(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus) string {
	if hasLeft(who) {
		return fmt.Sprintf("%s no longer needs the node (%s)", who.RequestorID, who.State)
	}
	return notReady(status, who)
}

// notFailed refuses recover without a failure.
func notFailed(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus) string {
	switch {
	case status.ReadyForRequestors && who.State != "" && who.State != maintenancev1.RequestorFailed:
		return fmt.Sprintf("%s has no failure to recover from (%s)", who.RequestorID, who.State)
	case status.State == maintenancev1.NodeReady && status.Failure == nil:
		return "there is no failure to recover from"
	case status.State == maintenancev1.NodeReady, status.State == maintenancev1.NodeRequestorFailed: // Ready: its job has failed but still exists
		return ""
	}
	return notReady(status, who)
}

// isReturning reports whether the node of a maintenance is being returned to service.
func isReturning(status maintenancev1.NodeMaintenanceStatus) bool {
	return status.State == maintenancev1.NodeHealthChecks || status.State == maintenancev1.NodeCleaningUp
}

// hasLeft reports whether one of several requestors no longer needs the node.
func hasLeft(who maintenancev1.RequestorStatus) bool {
	return who.State != "" && !who.State.NeedsNode()
}

// effect describes the effect of a signal from a requestor on a maintenance with this status; others are requestors that also need the node.
func (n nodeSignal) effect(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus, others string) string {
	switch {
	case n.signal == temporal.SignalCancel && (status.State == maintenancev1.NodeCleaningUp || status.State.Over()):
		return " is already cleaning up; cancel has no effect"
	case n.signal == temporal.SignalCancel && status.State == maintenancev1.NodeHealthChecks:
		return " is being cancelled unless its health checks have just ended; the node is returned to service"
	case others == "":
		return " " + n.result
	}
	name, result := cmp.Or(who.RequestorID, "its requestor"), n.resultOfOne
	if hasLeft(who) {
		result = "already no longer needs the node: nothing changes; act for another with --requestor"
	}
	return fmt.Sprintf(": %s %s (%s)", name, result, neededBy(status, others))
}

// neededBy names and counts the other requestors that need the node.
func neededBy(status maintenancev1.NodeMaintenanceStatus, others string) string {
	return fmt.Sprintf("needed by %d of %s: %s", strings.Count(others, ", ")+1, plural(len(status.Requestors), "requestor"), others)
}

// newNodeSignal returns the command that sends a signal for one requestor of a maintenance.
func newNodeSignal(c *cli, signal nodeSignal) *cobra.Command {
	var request temporal.SignalRequest
	cmd := &cobra.Command{
		Use: signal.verb + " NAME|NODE", Aliases: aliases(signal.alias), Short: signal.short,
		Args: operands("NAME"), ValidArgsFunction: c.completeMaintenances,
		RunE: c.serverVerb(func(ctx context.Context, s *server, args []string) error {
			target, err := c.maintenanceOf(ctx, s, args[0], request.Requestor, false)
			if err != nil {
				return err
			}
			effect, err := s.expect(ctx, target, signal, request.Requestor)
			if err != nil {
				return err
			}
			if err := s.signal(ctx, target, signal.signal, request); err != nil {
				return err
			}
			return c.say("%s%s; see `%s`", target, effect, target.show)
		}),
	}
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &request.Reason)
	cmd.Flags().StringVar(&request.Requestor, "requestor", "", "requestor to act for (default: the requestor of the maintenance itself)")
	_ = cmd.RegisterFlagCompletionFunc("requestor", c.completeRequestors)
	return cmd
}

// expect refuses a signal that the maintenance cannot accept in its current state: done and fail need a node that is ready. If no worker
// answers, it uses the state in the search attributes. It returns the effect of the signal, as the end of a sentence about the maintenance.
func (s *server) expect(ctx context.Context, target subject, signal nodeSignal, requestor string) (effect string, err error) {
	var status maintenancev1.NodeMaintenanceStatus
	unanswered := s.query(ctx, target, "", &status)
	if unanswered != nil {
		execution, err := s.describe(ctx, target, "")
		if err != nil {
			return "", err
		}
		status = statusFromAttributes(execution.TypedSearchAttributes)
	}
	who := requestorNamed(status, requestor)
	if status.State.Over() {
		return signal.effect(status, who, ""), nil
	}
	if signal.refuses != nil {
		if problem := signal.refuses(status, who); problem != "" {
			return "", fmt.Errorf("%s is %s: %s", target, status.State, problem)
		}
	}
	if unanswered != nil {
		return signal.effect(status, who, ""), nil
	}
	if len(status.Requestors) == 0 && requestor != "" {
		execution, err := s.describe(ctx, target, "")
		if err != nil {
			return "", err
		}
		own, _ := execution.TypedSearchAttributes.GetKeyword(temporal.AttributeRequestor)
		status.Requestors = []maintenancev1.RequestorStatus{{RequestorID: own}}
	}
	others, err := othersOf(target, status, requestor)
	if err != nil {
		return "", err
	}
	return signal.effect(status, who, others), nil
}

// statusFromAttributes returns the status of a maintenance that its search attributes contain.
func statusFromAttributes(attributes sdktemporal.SearchAttributes) maintenancev1.NodeMaintenanceStatus {
	phase, _ := attributes.GetKeyword(temporal.AttributePhase)
	reason, _ := attributes.GetKeyword(temporal.AttributeReason)
	status := maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeState(phase)}
	switch status.State {
	case maintenancev1.NodeRequestorFailed:
		status.ReadyForRequestors = true
	case maintenancev1.NodeReady:
		status.ReadyForRequestors = reason == nodemaintenance.ReasonAwaitingRequestor || reason == nodemaintenance.ReasonStale
	}
	return status
}

// requestorNamed returns the status of the named requestor, or of the maintenance's own. A single requestor has no status.
func requestorNamed(status maintenancev1.NodeMaintenanceStatus, requestor string) maintenancev1.RequestorStatus {
	for _, r := range status.Requestors {
		if r.RequestorID == requestor || requestor == "" {
			return r
		}
	}
	return maintenancev1.RequestorStatus{RequestorID: requestor}
}

// othersOf returns the other requestors that need the node. It fails if the maintenance does not have the named requestor.
func othersOf(target subject, status maintenancev1.NodeMaintenanceStatus, requestor string) (string, error) {
	var all, others []string
	who := requestorNamed(status, requestor)
	for _, r := range status.Requestors {
		all = append(all, r.RequestorID)
		if r != who && r.State.NeedsNode() {
			others = append(others, r.RequestorID)
		}
	}
	if requestor != "" && len(all) > 0 && !slices.Contains(all, requestor) {
		return "", fmt.Errorf("%s has no requestor %s; it has %s", target, requestor, joined(all))
	}
	return strings.Join(others, ", "), nil
}

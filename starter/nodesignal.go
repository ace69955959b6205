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
	"drydock.dev/drydock/workflows"
)

// nodeSignal is a verb that only tells a maintenance something.
type nodeSignal struct {
	verb, signal, short string
	// says is what follows for the maintenance, saysOne what follows for one of several requestors.
	says, saysOne string
	// refuses says why a maintenance that stands so would not take it as it is meant from that one of its requestors, and what to do; empty: it does. nil: it
	// is always taken.
	refuses func(maintenancev1.NodeMaintenanceStatus, maintenancev1.RequestorStatus) string
}

// notHandedOver refuses what only who has the node can say.
func notHandedOver(status maintenancev1.NodeMaintenanceStatus, _ maintenancev1.RequestorStatus) string {
	switch {
	case status.HandedOver:
		return ""
	case status.State == maintenancev1.NodeReady:
		return "the node is not handed over: its job says by itself when it is done; wait for that, or cancel"
	case isReturning(status):
		return "the node is on its way back"
	}
	return fmt.Sprintf("the node is not handed over; wait for %s, or cancel", maintenancev1.NodeReady)
}

// notAtWork refuses a failure of work that is over.
func notAtWork(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus) string {
	if hasLeft(who) {
		return fmt.Sprintf("%s does not need the node any more (%s)", who.RequestorID, who.State)
	}
	return notHandedOver(status, who)
}

// notFailed refuses to take back a failure that there is not.
func notFailed(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus) string {
	switch {
	case status.HandedOver && who.State != "" && who.State != maintenancev1.RequestorFailed:
		return fmt.Sprintf("%s has no failure to recover from (%s)", who.RequestorID, who.State)
	case status.State == maintenancev1.NodeReady && status.Failure == nil:
		return "there is no failure to recover from"
	case status.State == maintenancev1.NodeReady, status.State == maintenancev1.NodeRequestorFailed: // ready: its job has failed, and is not gone yet
		return ""
	}
	return notHandedOver(status, who)
}

// isReturning reports whether nobody needs the node of a maintenance any more, which is not over yet.
func isReturning(status maintenancev1.NodeMaintenanceStatus) bool {
	return status.State == maintenancev1.NodeHealthChecks || status.State == maintenancev1.NodeCleaningUp
}

// hasLeft reports whether one of several requestors does not need the node any more.
func hasLeft(who maintenancev1.RequestorStatus) bool {
	return who.State != "" && !who.State.NeedsNode()
}

// follows is what follows from the verb for a maintenance that stands so, when that requestor says it and those others need the node, too.
func (n nodeSignal) follows(status maintenancev1.NodeMaintenanceStatus, who maintenancev1.RequestorStatus, others string) string {
	switch {
	case n.signal == temporal.SignalCancel && (status.State == maintenancev1.NodeCleaningUp || status.State.Over()):
		return " is over but for its clean-up, and ends as it would have"
	case n.signal == temporal.SignalCancel && status.State == maintenancev1.NodeHealthChecks:
		return " is being cancelled, unless the checks of its node have just ended: the node is returned"
	case others == "":
		return " " + n.says
	}
	name, says := cmp.Or(who.RequestorID, "its requestor"), n.saysOne
	if hasLeft(who) {
		says = "does not need the node any more already: nothing changes"
	}
	return fmt.Sprintf(": %s %s (others: %s)", name, says, others)
}

// newNodeSignal makes a command that tells a maintenance something for one of its requestors.
func newNodeSignal(c *cli, told nodeSignal) *cobra.Command {
	var request temporal.SignalRequest
	cmd := &cobra.Command{
		Use: told.verb + " NAME|NODE", Short: told.short,
		Args: operands("NAME"), ValidArgsFunction: c.completeMaintenances,
		RunE: c.serverVerb(func(ctx context.Context, s *server, args []string) error {
			target, err := c.maintenanceOf(ctx, s, args[0], request.Requestor, false)
			if err != nil {
				return err
			}
			follows, err := s.expect(ctx, target, told, request.Requestor)
			if err != nil {
				return err
			}
			if err := s.signal(ctx, target, told.signal, request); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "%s%s; see `%s`\n", target, follows, target.show)
			return nil
		}),
	}
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addTemporalFlags(cmd)
	addReasonFlag(cmd, &request.Reason)
	cmd.Flags().StringVar(&request.Requestor, "requestor", "", "for which of its requestors that is said (default: the one whose maintenance it is)")
	return cmd
}

// expect refuses what a maintenance in its present state would not take as it is meant: done and fail are about a node that has been handed
// over. While no worker answers, the state is the last that the server knows. It returns what follows, as the end of a sentence about the maintenance.
func (s *server) expect(ctx context.Context, target subject, told nodeSignal, requestor string) (follows string, err error) {
	var status maintenancev1.NodeMaintenanceStatus
	unanswered := s.query(ctx, target, "", &status)
	if unanswered != nil {
		execution, err := s.describe(ctx, target, "")
		if err != nil {
			return "", err
		}
		status = statusSeen(execution.TypedSearchAttributes)
	}
	who := spokenFor(status, requestor)
	if status.State.Over() {
		return told.follows(status, who, ""), nil
	}
	if told.refuses != nil {
		if problem := told.refuses(status, who); problem != "" {
			return "", fmt.Errorf("%s is %s: %s", target, status.State, problem)
		}
	}
	if unanswered != nil {
		return told.follows(status, who, ""), nil
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
	return told.follows(status, who, others), nil
}

// statusSeen is the status of a maintenance as far as its search attributes tell it.
func statusSeen(attributes sdktemporal.SearchAttributes) maintenancev1.NodeMaintenanceStatus {
	phase, _ := attributes.GetKeyword(temporal.AttributePhase)
	reason, _ := attributes.GetKeyword(temporal.AttributeReason)
	status := maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeState(phase)}
	switch status.State {
	case maintenancev1.NodeRequestorFailed:
		status.HandedOver = true
	case maintenancev1.NodeReady:
		status.HandedOver = reason == workflows.ReasonAwaitingRequestor || reason == workflows.ReasonStale
	}
	return status
}

// spokenFor is the requestor that is named, or the one whose maintenance it is; nothing is known of one that has no others beside it.
func spokenFor(status maintenancev1.NodeMaintenanceStatus, requestor string) maintenancev1.RequestorStatus {
	for _, r := range status.Requestors {
		if r.Maintenance == "" && (r.RequestorID == requestor || requestor == "") {
			return r
		}
	}
	return maintenancev1.RequestorStatus{RequestorID: requestor}
}

// othersOf returns the requestors beside the one that is named, and refuses one that the maintenance does not have.
func othersOf(target subject, status maintenancev1.NodeMaintenanceStatus, requestor string) (string, error) {
	var ours, others []string
	who := spokenFor(status, requestor)
	for _, r := range status.Requestors {
		if r.Maintenance == "" {
			ours = append(ours, r.RequestorID)
		}
		if r != who && r.State.NeedsNode() {
			others = append(others, r.RequestorID)
		}
	}
	if requestor != "" && len(ours) > 0 && !slices.Contains(ours, requestor) {
		for _, r := range status.Requestors {
			if r.RequestorID == requestor {
				return "", fmt.Errorf("%s is shared by %s with a maintenance of its own: name that, %s", target, requestor, r.Maintenance)
			}
		}
		return "", fmt.Errorf("%s has no requestor %s; it has %s", target, requestor, listed(ours))
	}
	if status.JoinedTo != "" {
		others = append(others, status.JoinedTo)
	}
	return strings.Join(others, ", "), nil
}

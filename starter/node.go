package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	sdktemporal "go.temporal.io/sdk/temporal"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

func newNode(c *cli) *cobra.Command {
	cmd := noun("node", "Take a node out of service, work on it and return it")
	cmd.AddCommand(
		newNodeMaintain(c),
		newNodeSignal(c, nodeSignal{
			verb: "done", signal: temporal.SignalDone, refuses: notHandedOver, short: "Say that the work on a node is finished: it is checked and returned",
			says: "is handed back: the node is checked and returned", saysOne: "is done with the node, which is checked and returned when all are",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "fail", signal: temporal.SignalFail, refuses: notAtWork, short: "Say that the work on a node has failed: the node stays out of service (recover takes that back)",
			says:    "has failed: the node stays out of service until recover, done or cancel",
			saysOne: "has failed: the node stays out of service until it says recover, done or cancel",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "recover", signal: temporal.SignalRecover, refuses: notFailed, short: "Say that the work on a node goes on after a failure",
			says: "has recovered: it waits for the requestor's done again", saysOne: "has recovered: its done is waited for again",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "cancel", signal: temporal.SignalCancel, short: "End a maintenance: the node is returned as it was found, unless others need it still",
			says: "is being cancelled: the node is returned as it was found", saysOne: "leaves: the node is returned when nobody needs it any more",
		}),
		newNodeStatus(c),
		newNodeList(c),
		newNodeDrain(c),
		newNodeSchedule(c),
	)
	return cmd
}

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
	case status.State == maintenancev1.NodeRequestorFailed:
		return ""
	case status.State == maintenancev1.NodeReady:
		return "there is no failure to recover from"
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
		return "", fmt.Errorf("%s has no requestor %s; it has %s", target, requestor, listed(ours))
	}
	if status.JoinedTo != "" {
		others = append(others, status.JoinedTo)
	}
	return strings.Join(others, ", "), nil
}

// nodeMaintenance is a maintenance as its user knows it.
func nodeMaintenance(cluster, namespace, name string) subject {
	return subject{
		noun: "maintenance", name: namespace + "/" + name + " in cluster " + cluster,
		workflowID: temporal.NodeMaintenanceID(cluster, namespace, name),
		show:       fmt.Sprintf("drydock node status %s/%s --cluster %s", namespace, name, cluster),
		list:       "drydock node list --cluster " + cluster,
	}
}

// maintenanceOf finds the maintenance that a person names, of that requestor if there are several: NAME, NAMESPACE/NAME, its workflow id, or the node that is
// maintained; with ended also one that was, which is the last of it.
func (c *cli) maintenanceOf(ctx context.Context, s *server, name, requestor string, ended bool) (subject, error) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 1:
	case len(parts) == 2:
		if err := c.inNamespace(parts[0]); err != nil {
			return subject{}, err
		}
	case len(parts) == 4 && parts[0] == "node":
		if c.cluster != "" && c.cluster != parts[1] {
			return subject{}, usagef("%q is in cluster %s, which contradicts --cluster %s", name, parts[1], c.cluster)
		}
		return nodeMaintenance(parts[1], parts[2], parts[3]), nil
	default:
		return subject{}, usagef("%q names no maintenance: give NAME, NAMESPACE/NAME, node/CLUSTER/NAMESPACE/NAME or the NODE", name)
	}
	if err := c.requireCluster(); err != nil {
		return subject{}, err
	}
	named := nodeMaintenance(c.cluster, c.objectNamespace(), parts[len(parts)-1])
	if len(parts) == 2 {
		return named, nil
	}
	_, err := s.DescribeWorkflow(ctx, named.workflowID, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); !unknown {
		return named, s.explain("find", named, err)
	}
	found, err := c.maintenanceOfNode(ctx, s, name, requestor)
	if err != nil || found != (subject{}) {
		return found, err
	}
	if ended {
		rows, err := s.list(ctx, c.maintenancesOf(name, false))
		if err != nil {
			return subject{}, err
		}
		if len(rows) > 0 {
			return nodeMaintenance(rows[0].Cluster, rows[0].Namespace, rows[0].Name), nil
		}
	}
	return subject{}, fmt.Errorf("there is no %s, and none at work on a node %s: `%s` lists those there are", named, name, named.list)
}

// maintenancesOf is the visibility query for the maintenances of a node.
func (c *cli) maintenancesOf(node string, running bool) string {
	return observe.WorkflowsOf(temporal.NodeMaintenance, running) +
		fmt.Sprintf(" AND %s = '%s' AND %s = '%s'", temporal.AttributeCluster.GetName(), quoted(c.cluster), temporal.AttributeNode.GetName(), quoted(node))
}

// maintenanceOfNode finds the one maintenance of a node that runs, if there is one; of several, the one of that requestor.
func (c *cli) maintenanceOfNode(ctx context.Context, s *server, node, requestor string) (subject, error) {
	rows, err := s.list(ctx, c.maintenancesOf(node, true))
	if err != nil {
		return subject{}, err
	}
	if len(rows) > 1 && requestor != "" {
		if of := slices.DeleteFunc(slices.Clone(rows), func(row workflowRow) bool { return row.Requestor != requestor }); len(of) > 0 {
			rows = of
		}
	}
	switch len(rows) {
	case 0:
		return subject{}, nil
	case 1:
		return nodeMaintenance(rows[0].Cluster, rows[0].Namespace, rows[0].Name), nil
	}
	var names []string
	for _, row := range rows {
		names = append(names, fmt.Sprintf("%s/%s (requestor %s)", row.Namespace, row.Name, row.Requestor))
	}
	return subject{}, fmt.Errorf("node %s is under several maintenances: name one of %s", node, listed(names))
}

// quoted makes a value safe within the quotes of a visibility query.
func quoted(value string) string { return strings.ReplaceAll(value, "'", "''") }

func (c *cli) completeMaintenances(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeWorkflows(cmd.Context(), temporal.NodeMaintenance, true, func(row workflowRow) string {
		if c.cluster != "" && row.Cluster != c.cluster {
			return ""
		}
		return row.Namespace + "/" + row.Name
	})
}

func newNodeList(c *cli) *cobra.Command {
	var running bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List node maintenances, newest first, and who has the slots of the clusters and waits for them",
		Long: `List node maintenances, newest first, and who has the slots of the clusters and waits for them: in order of rank and with the one reason
why, as the clusters' schedulers say. A rollout's nodes wait there before their maintenances begin.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			query := observe.WorkflowsOf(temporal.NodeMaintenance, running)
			if c.cluster != "" {
				query += fmt.Sprintf(" AND WorkflowId STARTS_WITH 'node/%s/'", quoted(c.cluster))
			}
			rows, err := s.list(ctx, query)
			if err != nil {
				return err
			}
			list := maintenanceListing{listing: newListing(rows), running: running}
			if c.output != formatName {
				if list.Queues, err = s.queues(ctx, c.cluster); err != nil {
					return err
				}
			}
			return c.print(list, func(w io.Writer) { list.print(w, time.Now()) }, list.ids()...)
		}),
	}
	cmd.Flags().BoolVar(&running, "running", false, "only those that run")
	c.addClusterFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// maintenanceListing is a list of maintenances and the queues in which those stand that wait.
type maintenanceListing struct {
	listing
	Queues []clusterQueue `json:"queues"`
	// running: only those that run are listed.
	running bool
}

func (l maintenanceListing) print(w io.Writer, now time.Time) {
	if len(l.Items) == 0 && l.running {
		fmt.Fprintln(w, "no node maintenance is running")
	} else {
		printMaintenances(w, l.listing, now)
	}
	printQueues(w, l.Queues, now)
}

func printMaintenances(w io.Writer, list listing, now time.Time) {
	if len(list.Items) == 0 {
		fmt.Fprintln(w, "no node maintenances; start one with `drydock node maintain NODE --cluster CLUSTER`")
		return
	}
	t := newTable("CLUSTER", "NAMESPACE", "NAME", "NODE", "REQUESTOR", "STATE", "REASON", "STARTED", "TOOK")
	for _, row := range list.Items {
		t.AppendRow(table.Row{
			row.Cluster, row.Namespace, row.Name, row.Node, row.Requestor, row.phase(), row.Reason, age(now, row.StartedAt) + " ago", row.took(now),
		})
	}
	fmt.Fprintln(w, t.Render())
	list.printCounts(w, "maintenance")
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

func newNode(c *cli) *cobra.Command {
	cmd := noun("node", "Take a node out of service, maintain it and return it to service")
	cmd.AddCommand(
		newNodeMaintain(c), newNodeApply(c), newNodeEdit(c),
		newNodeSignal(c, nodeSignal{
			verb: "done", signal: temporal.SignalDone, refuses: notReady, short: "Report that the work on a node is done: the node is checked and returned to service",
			result: "is done: the node is checked and returned to service", resultOfOne: "is done; the node is checked and returned to service when all requestors are done",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "fail", signal: temporal.SignalFail, refuses: notWorking, short: "Report that the work on a node has failed: the node stays out of service until recover, done or cancel",
			result:      "has failed: the node stays out of service until recover, done or cancel",
			resultOfOne: "has failed: the node stays out of service until this requestor sends recover, done or cancel",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "recover", signal: temporal.SignalRecover, refuses: notFailed, short: "Report that the work on a node continues after a failure",
			result: "has recovered: it waits for done from the requestor again", resultOfOne: "has recovered: the maintenance waits for its done again",
		}),
		newNodeSignal(c, nodeSignal{
			verb: "cancel", alias: "delete", signal: temporal.SignalCancel, short: "Cancel a maintenance: the node is restored unless other requestors still need it",
			result: "is being cancelled: the node is restored", resultOfOne: "leaves; the node is restored when no requestor needs it",
		}),
		newNodeJoin(c),
		newNodeStatus(c),
		newNodeDescribe(c),
		newNodeList(c),
		newNodePreview(c), newNodeDrain(c),
		newNodeSchedule(c),
	)
	return cmd
}

// nodeMaintenance names a maintenance.
func nodeMaintenance(cluster, namespace, name string) subject {
	return subject{
		noun: "maintenance", name: namespace + "/" + name + " in cluster " + cluster,
		workflowID: temporal.NodeMaintenanceID(cluster, namespace, name),
		show:       fmt.Sprintf("drydock node status %s/%s --cluster %s", namespace, name, cluster),
		list:       "drydock node list --cluster " + cluster,
	}
}

// maintenanceOf finds a maintenance by NAME, NAMESPACE/NAME, workflow id, or node. The requestor selects one of several on a node. With ended
// it also finds the last maintenance of a node that has none running.
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
			return subject{}, usagef("%q is in cluster %s, not in --cluster %s", name, parts[1], c.cluster)
		}
		return nodeMaintenance(parts[1], parts[2], parts[3]), nil
	default:
		return subject{}, usagef("%q is not the name of a maintenance: give NAME, NAMESPACE/NAME, node/CLUSTER/NAMESPACE/NAME or NODE", name)
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
	found, err := c.maintenanceOfNode(ctx, s, name, requestor, ended)
	if err != nil || found != (subject{}) {
		return found, err
	}
	rows, err := s.list(ctx, maintenancesOf(c.cluster, name, false))
	switch {
	case err != nil:
		return subject{}, err
	case len(rows) == 0:
	case ended:
		return nodeMaintenance(rows[0].Cluster, rows[0].Namespace, rows[0].Name), nil
	default:
		last := nodeMaintenance(rows[0].Cluster, rows[0].Namespace, rows[0].Name)
		return subject{}, fmt.Errorf("the last maintenance of node %s has already ended: %s (%s); see `%s`", name, last, rows[0].phase(), last.show)
	}
	if queued := s.queue(ctx, c.cluster, temporal.StatusRequest{Filter: name}).queuedFor(name); len(queued) > 0 {
		return subject{}, fmt.Errorf("no maintenance is running on node %s: %s; see `%s`", name, queued[0].text(time.Now()), named.list)
	}
	return subject{}, fmt.Errorf("%s not found, and no maintenance is running on a node %s: see `%s`", named, name, named.list)
}

// maintenancesOf is the visibility query for the maintenances of a node.
func maintenancesOf(cluster, node string, running bool) string {
	return observe.WorkflowsOf(temporal.NodeMaintenance, running) +
		fmt.Sprintf(" AND %s = '%s' AND %s = '%s'", temporal.AttributeCluster.GetName(), quoted(cluster), temporal.AttributeNode.GetName(), quoted(node))
}

// maintenanceOfNode finds the running maintenance of a node; the requestor selects one of several. With any, one that has the node goes before those
// that wait for it.
func (c *cli) maintenanceOfNode(ctx context.Context, s *server, node, requestor string, any bool) (subject, error) {
	rows, err := s.list(ctx, maintenancesOf(c.cluster, node, true))
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
	if any {
		first := slices.MinFunc(rows, byPossession)
		return nodeMaintenance(first.Cluster, first.Namespace, first.Name), nil
	}
	var names []string
	for _, row := range rows {
		names = append(names, fmt.Sprintf("%s/%s (requestor %s)", row.Namespace, row.Name, row.Requestor))
	}
	return subject{}, fmt.Errorf("node %s has several maintenances: name one of %s", node, joined(names))
}

// byPossession sorts the maintenances that have their node before those that wait for it, and then by age.
func byPossession(a, b workflowRow) int {
	waits := func(row workflowRow) int {
		if row.Phase == "" || row.Phase == string(maintenancev1.NodePending) {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(waits(a), waits(b)), a.StartedAt.Compare(b.StartedAt))
}

// quoted escapes a value for the quotes of a visibility query.
func quoted(value string) string { return strings.ReplaceAll(value, "'", "''") }

func newNodeDescribe(c *cli) *cobra.Command {
	named := func(ctx context.Context, s *server, name string) (subject, error) {
		return c.maintenanceOf(ctx, s, name, "", true)
	}
	cmd := c.newDescribe("maintenance", "NAME", named, c.maintenanceReport)
	cmd.Use, cmd.ValidArgsFunction = "describe NAME|NODE", c.completeMaintenances
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	return cmd
}

func newNodeList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.NodeMaintenance, prefix: "node/", clustered: true, namespaced: true,
		short: "List node maintenances, newest first, and the slot queues of the clusters",
		long: `List node maintenances, newest first, and the slot queues of the clusters: the slots
in use, then the waiting requests in order of rank, each with its reason. Nodes of a rollout wait in the queue before their maintenances start.`,
		runningHelp: "only running ones",
		word:        "maintenance", none: "no node maintenances; start one with `drydock node maintain NODE --cluster CLUSTER`", noneRunning: "no node maintenance is running",
		header: []any{"CLUSTER", "NAMESPACE", "NAME", "NODE", "REQUESTOR", "STATE", "REASON", "STARTED", "TOOK"},
		row: func(row workflowRow, now time.Time) table.Row {
			return table.Row{
				row.Cluster, row.Namespace, row.Name, row.Node, row.Requestor, row.phase(), row.Reason, age(now, row.StartedAt) + " ago", row.took(now),
			}
		},
		extend: func(ctx context.Context, s *server, list listing) (listResult, error) {
			queues, err := s.queues(ctx, c.cluster, temporal.StatusRequest{})
			return maintenanceListing{list, queues}, err
		},
	})
}

// maintenanceListing is a list of maintenances and the slot queues of their clusters.
type maintenanceListing struct {
	listing
	Queues []clusterQueue `json:"queues"`
}

func (l maintenanceListing) frame(now time.Time, style frameStyle) string {
	return strings.TrimSuffix(l.listing.frame(now, style)+"\n"+queuesText(l.Queues, now, style), "\n")
}

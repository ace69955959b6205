package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/snapshot"
)

func newLockGate(c *cli) *cobra.Command {
	var node, release string
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "Show whether a cluster or a node may be disrupted, and who holds it",
		Long: `Show whether a cluster or a node may be disrupted, and who holds it. It decides from the locks in the cluster (--context) or in a file
(--snapshot), with the function that rollouts and node maintenances use.

The exit status is 1 while an application holds it, and if the node does not exist.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error { return c.showGate(ctx, node, release, flags) }),
	}
	cmd.Flags().StringVar(&node, "node", "", "show this node (default: the cluster)")
	cmd.Flags().StringVar(&release, "release", "", "release that is to be installed: a lock that reports another one holds (default: any)")
	_ = cmd.RegisterFlagCompletionFunc("node", c.completeNodes)
	c.addSourceFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) showGate(ctx context.Context, node, release string, flags decisionFlags) error {
	reader, err := c.reader(flags)
	if err != nil {
		return err
	}
	found, err := snapshot.Locks(ctx, reader)
	if err != nil {
		return err
	}
	subject, gate := c.source(flags), locks.ClusterGate(found.ClusterLocks, release)
	switch {
	case node != "":
		subject, gate = "node "+node, locks.NodeGate(found.NodeLocks, node, release)
		if err := requireNode(ctx, reader, node, c.source(flags)); gate.Open && err != nil {
			return err
		}
	case flags.snapshot != "":
		subject = "the cluster in " + flags.snapshot
	}
	var holders []string
	for _, holder := range gate.Blockers() {
		holders = append(holders, lockResource(holder.Kind, holder.Name))
	}
	if err := c.print(gate, func(w *page) { renderGate(w, subject, gate) }, holders...); err != nil {
		return err
	}
	if !gate.Open {
		return fmt.Errorf("%s is held: %s", subject, gate.Blockers()[0].Message)
	}
	return nil
}

// requireNode fails if the node does not exist. It passes for a file without nodes, which may have only locks.
func requireNode(ctx context.Context, reader client.Reader, name, source string) error {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	known := slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name })
	_, fromFile := reader.(*snapshot.File)
	if !known && !(fromFile && len(nodes.Items) == 0) {
		return fmt.Errorf("node %s not found in %s", name, source)
	}
	return nil
}

func renderGate(w *page, subject string, gate locks.Gate) {
	if gate.Open {
		fmt.Fprintf(w, "%s is not held\n", subject)
		return
	}
	t := w.newTable("LOCK", "CONTROLLER", "STATE", "MESSAGE")
	for i, blocker := range gate.Blockers() {
		holder, message := gate.Holders[i], gate.Holders[i].Message
		if holder.Release != "" {
			message = blocker.Message
		}
		t.AppendRow(table.Row{blocker.Name, holder.Controller, holder.State, message})
	}
	fmt.Fprintln(w, t.Render())
}

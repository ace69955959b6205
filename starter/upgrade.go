package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

func newUpgrade(c *cli) *cobra.Command {
	cmd := noun("upgrade", "Roll a remediation over a group of clusters: canaries first, then batches")
	cmd.AddCommand(
		newUpgradePlan(c),
		newUpgradeStart(c),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalEnable, short: "Start a rollout that was only planned (enable: false)",
			says: "is enabled: unless it was before, its plan is made once more, and the first batch may start if that is valid",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalPause, short: "Start nothing new: no cluster, no policy, no node",
			says: "pauses: what is at work finishes, nothing new starts, its clock stands still",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalResume, short: "Go on after a pause",
			says: "is not paused any more, and goes on unless something else holds it",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalCancel, short: "End a rollout: remediation is withdrawn, nodes are returned",
			says: "is being cancelled: remediation is withdrawn, nodes are returned",
		}),
		newUpgradeApprove(c),
		newUpgradeEdit(c),
		newUpgradeRetry(c),
		newUpgradeStatus(c),
		newUpgradeList(c),
		newUpgradeHistory(c),
	)
	return cmd
}

func newRolloutSignal(c *cli, signal workflowSignal) *cobra.Command {
	cmd := newSignal(c, signal, c.rollout)
	cmd.ValidArgsFunction = c.completeRollouts(true)
	c.addNamespaceFlag(cmd)
	return cmd
}

// workflowSignal is a verb that only tells a workflow something; says is what comes of it.
type workflowSignal struct{ name, short, says string }

// newSignal is such a verb for workflows of which a person gives the name.
func newSignal(c *cli, signal workflowSignal, named func(name string) (subject, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   signal.name + " NAME",
		Short: signal.short,
		Args:  operands("NAME"),
		RunE: c.verb(func(ctx context.Context, args []string) error {
			target, err := named(args[0])
			if err != nil {
				return err
			}
			return c.tell(ctx, target, signal.name, reason, signal.says)
		}),
	}
	c.addTemporalFlags(cmd)
	addReasonFlag(cmd, &reason)
	return cmd
}

func addReasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why; kept with your name in the history")
}

// tell sends a signal and says what comes of it.
func (c *cli) tell(ctx context.Context, target subject, signal, reason, says string) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.signal(ctx, target, signal, temporal.SignalRequest{Reason: reason}); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s %s; see `%s`\n", target, says, target.show)
	return nil
}

func newUpgradeList(c *cli) *cobra.Command {
	query := func(running bool) string {
		query := observe.WorkflowsOf(temporal.ClusterGroupUpgrade, running)
		if c.namespace != "" {
			query += fmt.Sprintf(" AND WorkflowId STARTS_WITH '%s'", quoted(temporal.ClusterGroupUpgradeID(c.namespace, "")))
		}
		return query
	}
	cmd := c.newList("List rollouts, newest first", "only those that run", query, func(w io.Writer, list listing) { printRollouts(w, list, time.Now()) })
	cmd.Flags().StringVarP(&c.namespace, "object-namespace", "n", "", "only those of this namespace")
	return cmd
}

func printRollouts(w io.Writer, list listing, now time.Time) {
	switch {
	case len(list.Items) == 0 && list.running:
		fmt.Fprintln(w, "no rollout is running")
		return
	case len(list.Items) == 0:
		fmt.Fprintln(w, "no rollouts; start one with `drydock upgrade start -f FILE`")
		return
	}
	t := newTable("NAMESPACE", "NAME", "PHASE", "BATCH", "STARTED", "TOOK")
	for _, row := range list.Items {
		batch := ""
		if row.Batch > 0 {
			batch = fmt.Sprint(row.Batch)
		}
		t.AppendRow(table.Row{row.Namespace, row.Name, row.phase(), batch, age(now, row.StartedAt) + " ago", row.took(now)})
	}
	fmt.Fprintln(w, t.Render())
	list.printCounts(w, "rollout")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

func newUpgrade(c *cli) *cobra.Command {
	cmd := noun("upgrade", "Roll out a remediation to a group of clusters: canaries first, then batches")
	cmd.AddCommand(
		newUpgradePlan(c),
		newUpgradeStart(c),
		newUpgradeApply(c),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalEnable, short: "Enable a rollout that was only planned (enable: false)",
			result: "is enabled: if it was not enabled before, it is planned again, and the first batch starts if the plan is valid",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalPause, short: "Pause a rollout: it starts no further cluster, policy or node",
			result: "is paused: running work finishes, nothing new starts, and its timeouts are suspended",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalResume, short: "Resume a paused rollout",
			result: "is resumed",
		}),
		newRolloutSignal(c, workflowSignal{
			name: temporal.SignalCancel, alias: "delete", short: "Cancel a rollout: end the remediation and return nodes to service",
			result: "is being cancelled: the remediation ends and nodes return to service",
		}),
		newUpgradeApprove(c),
		newUpgradeEdit(c),
		newUpgradeRetry(c),
		newUpgradeStatus(c),
		newUpgradeDescribe(c),
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

// workflowSignal describes a verb that only sends a signal; result is the printed effect.
type workflowSignal struct{ name, alias, short, result string }

// newSignal returns the command that sends a signal to the workflow with the given name.
func newSignal(c *cli, signal workflowSignal, named func(name string) (subject, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: signal.name + " NAME", Aliases: aliases(signal.alias),
		Short: signal.short,
		Args:  operands("NAME"),
		RunE: c.verb(func(ctx context.Context, args []string) error {
			target, err := named(args[0])
			if err != nil {
				return err
			}
			return c.sendSignal(ctx, target, signal.name, reason, signal.result)
		}),
	}
	addReasonFlag(cmd, &reason)
	return cmd
}

func addReasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "reason; recorded with your user name in the workflow history")
}

// sendSignal sends a signal and prints its effect.
func (c *cli) sendSignal(ctx context.Context, target subject, signal, reason, result string) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.signal(ctx, target, signal, temporal.SignalRequest{Reason: reason}); err != nil {
		return err
	}
	return c.say("%s %s; see `%s`", target, result, target.show)
}

func newUpgradeDescribe(c *cli) *cobra.Command {
	cmd := c.newDescribe("rollout", "NAME", byName(c.rollout), c.rolloutReport)
	cmd.ValidArgsFunction = c.completeRollouts(false)
	c.addNamespaceFlag(cmd)
	return cmd
}

func newUpgradeList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.ClusterGroupUpgrade, prefix: "cgu/", namespaced: true,
		short: "List rollouts, newest first", runningHelp: "only running ones",
		word: "rollout", none: "no rollouts; start one with `drydock upgrade start -f FILE`", noneRunning: "no rollout is running",
		header: []any{"NAMESPACE", "NAME", "STATE", "BATCH", "STARTED", "TOOK", "REASON"},
		row: func(row workflowRow, now time.Time) table.Row {
			batch := ""
			if row.Batch > 0 {
				batch = fmt.Sprint(row.Batch)
			}
			return table.Row{row.Namespace, row.Name, row.phase(), batch, age(now, row.StartedAt) + " ago", row.took(now), row.Reason}
		},
		details: addRolloutStates,
	})
}

const (
	// askedRollouts is the number of running rollouts that a list asks for their state, asksAtOnce how many at the same time.
	askedRollouts, asksAtOnce = 100, 8
	// asksTimeout is how long a list waits for these answers.
	asksTimeout = 3 * time.Second
)

// addRolloutStates asks running rollouts for their states and what they wait for. Rows of those without an answer have the state that Temporal's visibility tells.
func addRolloutStates(ctx context.Context, s *server, rows []workflowRow) {
	ctx, cancel := context.WithTimeout(ctx, asksTimeout)
	defer cancel()
	asks, ctx := errgroup.WithContext(ctx)
	asks.SetLimit(asksAtOnce)
	asked := 0
	for i := range rows {
		row := &rows[i]
		if row.CompletedAt != nil {
			row.Reason = ""
			continue
		}
		row.State = rollout.VisibleState(row.Phase, row.Reason, row.Paused)
		if asked++; asked > askedRollouts {
			continue
		}
		asks.Go(func() error {
			var status ranv1.ClusterGroupUpgradeStatus
			err := s.query(ctx, rolloutSubject(row.Namespace, row.Name), row.RunID, &status, temporal.StatusRequest{Limit: 1})
			if errors.Is(err, observe.ErrNoWorker) {
				return err // the others get no answer, either
			}
			if err != nil {
				return nil
			}
			reason, _ := verdict(status)
			row.State, row.Reason = rollout.State(&status, reason, time.Now()), reasonOf(status.Wait)
			return nil
		})
	}
	_ = asks.Wait()
}

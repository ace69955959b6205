package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
)

const (
	demoSpokes  = 3
	demoWorkers = 3

	demoRollout     = "docs/examples/node-maintenance-rollout.yaml"
	demoRolloutName = "june-maintenance"
)

func newDemoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a rollout over three clusters: a canary, then a batch of two",
		Long: "Starts the local stack with a hub, three spokes of four nodes and Drydock's worker, deploys workloads on the spokes, and\n" +
			"starts the rollout of " + demoRollout + ".\n" +
			"It exits 0 only if every node was maintained and the cleanup is complete.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), keep, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the stack running afterwards, until Ctrl-C")
	return cmd
}

func demo(ctx context.Context, keep bool, out, progress io.Writer) error {
	f, err := fleet.Start(ctx, fleet.Options{
		Spokes: demoSpokes, Workers: demoWorkers, Temporal: devstack.TemporalOptions{WebUI: true}, Output: progress,
	})
	if err != nil {
		return err
	}
	err = showRollout(ctx, f, out)
	if err == nil && (keep || term.IsTerminal(int(os.Stdout.Fd()))) {
		explore(ctx, f, out)
	}
	return errors.Join(err, f.Stop())
}

// showRollout deploys workloads on the spokes, shows the rollout, and summarizes it from the audit logs.
func showRollout(ctx context.Context, f *fleet.Fleet, out io.Writer) error {
	fmt.Fprintln(out, "Deploying workloads, budgets and a vRouter with workload locks on every spoke.")
	if err := f.DeployDemoEverywhere(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "Temporal Web UI: %s\n\n", f.Temporal.UIAddress)

	began := time.Now()
	if err := show(ctx, f, out, "upgrade", "start", "-f", demoRollout); err != nil {
		return err
	}
	if err := show(ctx, f, out, "upgrade", "status", demoRolloutName, "--watch"); err != nil {
		return err
	}
	return summarize(ctx, f, out, time.Since(began))
}

// show prints a drydock command and runs it.
func show(ctx context.Context, f *fleet.Fleet, out io.Writer, args ...string) error {
	fmt.Fprint(out, "$ drydock")
	for _, arg := range args {
		fmt.Fprint(out, " ", arg)
	}
	fmt.Fprintln(out)
	cmd := f.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr, cmd.Stdin = os.Stdout, os.Stderr, os.Stdin
	// The command receives Ctrl-C itself. Give it time to restore the terminal.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("drydock %s %s: %w", args[0], args[1], err)
	}
	return nil
}

// summarize reads the actions from the audit logs. It fails if a node was not maintained or the cleanup is not complete.
func summarize(ctx context.Context, f *fleet.Fleet, out io.Writer, took time.Duration) error {
	var total map[string]int
	maintained := 0
	for _, spoke := range f.Spokes {
		if err := f.AwaitCleanup(ctx, spoke); err != nil {
			return err
		}
		actions, err := fleet.Actions(spoke)
		if err != nil {
			return err
		}
		total = fleet.Count(total, actions)
		nodes := fleet.Cordoned(actions)
		if len(nodes) != demoWorkers+1 {
			return fmt.Errorf("%s: %d of %d nodes were maintained: %v", spoke.Name, len(nodes), demoWorkers+1, nodes)
		}
		maintained += len(nodes)
	}
	fmt.Fprintf(out, "\nAccording to the API servers' audit logs, in %s:\n", took.Round(100*time.Millisecond))
	fmt.Fprintf(out, "  %d clusters, %d nodes: %d cordons, %d evictions, %d jobs, %d uncordons\n", len(f.Spokes), maintained,
		total[fleet.ActionCordon], total[fleet.ActionEviction], total[fleet.ActionJob], total[fleet.ActionUncordon])
	fmt.Fprintln(out, "  every node is schedulable again, all locks are active, and no annotation, condition or request of Drydock is left")
	return nil
}

// explore keeps the fleet running until Ctrl-C.
func explore(ctx context.Context, f *fleet.Fleet, out io.Writer) {
	fmt.Fprintln(out, "\nThe stack keeps running. Its addresses:")
	describe(out, f.Stack)
	fmt.Fprintln(out, "\nCtrl-C stops it.")
	select {
	case <-ctx.Done():
	case <-f.Done():
	}
}

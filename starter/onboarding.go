package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	onboardingworkflow "drydock.dev/drydock/workflows/onboarding"
)

// onboarding names the onboarding workflow of the hub.
func onboarding() subject {
	return subject{
		noun: "onboarding", name: "of the hub's clusters", workflowID: temporal.OnboardingID,
		show: "drydock onboarding status", start: "drydock onboarding start",
	}
}

func newOnboarding(c *cli) *cobra.Command {
	cmd := noun("onboarding", "Roll out policies to clusters that are new to the hub")
	cmd.AddCommand(newOnboardingStart(c), newOnboardingStop(c), newOnboardingRetry(c), newOnboardingStatus(c))
	return cmd
}

func newOnboardingStart(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a rollout for each cluster that becomes available, until stopped",
		Long: `Start a rollout for each cluster that becomes available, until stopped.

A rollout is started for each ManagedCluster that becomes Available and has no label ztp-done: of its policies, in the order of their annotations
ran.openshift.io/ztp-deploy-wave. It runs until "onboarding stop".`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			target := onboarding()
			run, err := s.start(ctx, target, client.StartWorkflowOptions{StaticSummary: "onboards clusters that are new to the hub"},
				temporal.Onboarding, onboardingworkflow.Input{})
			if err != nil {
				return err
			}
			started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
			return c.print(started, func(w io.Writer) { fmt.Fprintf(w, "%s started; see `%s`\n", target, target.show) }, target.workflowID)
		}),
	}
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func newOnboardingStop(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop starting rollouts for new clusters; running rollouts continue",
		Args:  operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			return c.sendSignal(ctx, onboarding(), temporal.SignalCancel, reason, "stops: running rollouts continue")
		}),
	}
	addReasonFlag(cmd, &reason)
	c.addTemporalFlags(cmd)
	return cmd
}

func newOnboardingRetry(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry CLUSTER...",
		Short: "Retry failed clusters with the policies that they have now",
		Args: func(_ *cobra.Command, clusters []string) error {
			if len(clusters) == 0 {
				return usagef("CLUSTER is missing")
			}
			return nil
		},
		RunE: c.serverVerb(func(ctx context.Context, s *server, clusters []string) error {
			target := onboarding()
			if err := s.update(ctx, target, temporal.UpdateRetry, onboardingworkflow.Retry{Actor: actor(), Clusters: clusters}, nil); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "%s: %s retried; see `%s`\n", target, pluralOf(len(clusters), "cluster is", "clusters are"), target.show)
			return nil
		}),
	}
	c.addTemporalFlags(cmd)
	return cmd
}

// onboardingStatus is the output of -o json: the status of the onboarding.
type onboardingStatus struct {
	Metadata workflowRef               `json:"metadata"`
	Status   onboardingworkflow.Status `json:"status"`
}

func newOnboardingStatus(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which clusters are being onboarded, and which failed and why",
		Args:  operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			target := onboarding()
			execution, err := s.describe(ctx, target, "")
			if err != nil {
				return err
			}
			status := onboardingStatus{Metadata: observe.RefOf(target.workflowID, execution.WorkflowExecution.RunID)}
			err = s.status(ctx, target, execution, &status.Status)
			if errors.Is(err, errFromResult) {
				fmt.Fprintln(c.ErrOut, err)
			} else if err != nil {
				return err
			}
			return c.print(status, func(w io.Writer) { renderOnboarding(w, status.Status, time.Now()) }, target.workflowID)
		}),
	}
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func renderOnboarding(w io.Writer, s onboardingworkflow.Status, now time.Time) {
	fmt.Fprintf(w, "%s onboarded since %s; %d running, %d waiting, %d failed\n", plural(s.Onboarded, "cluster"), s.StartedAt.UTC().Format(time.RFC3339),
		s.Count(onboardingworkflow.Running), s.Count(onboardingworkflow.Waiting), s.Count(onboardingworkflow.Failed))
	if s.Message != "" {
		fmt.Fprintln(w, s.Message)
	}
	if s.Wait != nil {
		fmt.Fprintf(w, "cannot watch for new clusters: %s: %s\n", s.Wait.Reason, s.Wait.Message)
	}
	if len(s.Clusters) == 0 {
		return
	}
	t := newTable("CLUSTER", "STATE", "FOR", "REASON")
	for _, cluster := range s.Clusters {
		t.AppendRow(table.Row{cluster.Name, cluster.State, age(now, cluster.Since.Time), strings.TrimSuffix(cluster.Reason+": "+cluster.Message, ": ")})
	}
	fmt.Fprintf(w, "\n%s\n", t.Render())
}

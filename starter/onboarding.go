package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/labels"

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
	cmd.AddCommand(newOnboardingStart(c), newOnboardingApply(c), newOnboardingEdit(c), newOnboardingStop(c), newOnboardingRetry(c), newOnboardingStatus(c), newOnboardingDescribe(c), newOnboardingList(c))
	return cmd
}

func newOnboardingStart(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "start", Aliases: []string{"create"},
		Short: "Start a rollout for each cluster that becomes available, until stopped",
		Long: `Start a rollout for each cluster that becomes available, until stopped.

A rollout is started for each ManagedCluster that becomes Available and has no label ztp-done: of its policies, in the order of their annotations
ran.openshift.io/ztp-deploy-wave. It runs until "onboarding stop".`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error { return c.startOnboarding(ctx, s, reason) }),
	}
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) startOnboarding(ctx context.Context, s *server, reason string) error {
	target := onboarding()
	run, err := s.start(ctx, target, reason, client.StartWorkflowOptions{StaticSummary: "onboards clusters that are new to the hub", StaticDetails: temporal.OnboardingDetails},
		temporal.Onboarding, onboardingworkflow.Input{})
	if err != nil {
		return err
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
	return c.print(started, func(w *page) { fmt.Fprintf(w, "%s started; see `%s`\n", target, target.show) }, target.workflowID)
}

func newOnboardingStop(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "stop", Aliases: []string{"delete"},
		Short: "Stop starting rollouts for new clusters; running rollouts continue",
		Args:  operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			return c.sendSignal(ctx, onboarding(), temporal.SignalCancel, reason, "stops: running rollouts continue")
		}),
	}
	addReasonFlag(cmd, &reason)
	return cmd
}

func newOnboardingRetry(c *cli) *cobra.Command {
	var reason string
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
			if err := s.update(ctx, target, temporal.UpdateRetry, onboardingworkflow.Retry{Actor: actor(), Reason: reason, Clusters: clusters}, nil); err != nil {
				return err
			}
			return c.say("%s: %s retried; see `%s`", target, pluralOf(len(clusters), "cluster is", "clusters are"), target.show)
		}),
	}
	addReasonFlag(cmd, &reason)
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
			shown, err := c.onboardingReport(ctx, s, onboarding())
			if err != nil {
				return err
			}
			return c.printReport(shown)
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

// onboardingReport reads the status once.
func (c *cli) onboardingReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	status := onboardingStatus{Metadata: observe.RefOfExecution(target.workflowID, execution)}
	err = s.status(ctx, target, execution, &status.Status)
	return report{status, func(w *page) { renderOnboarding(w, status, w.now) }, target.workflowID}, c.noteResult(err)
}

func renderOnboarding(w *page, status onboardingStatus, now time.Time) {
	s := status.Status
	fmt.Fprintf(w, "%s onboarded since %s; %d running, %d waiting, %d failed\n", plural(s.Onboarded, "cluster"), stamp(s.StartedAt.Time, now),
		s.Count(onboardingworkflow.Running), s.Count(onboardingworkflow.Waiting), s.Count(onboardingworkflow.Failed))
	fmt.Fprint(w, startText(status.Metadata, "", "\n"))
	if s.Message != "" {
		fmt.Fprintln(w, s.Message)
	}
	if s.Wait != nil {
		fmt.Fprintf(w, "cannot watch for new clusters: %s: %s\n", s.Wait.Reason, s.Wait.Message)
	}
	if len(s.Clusters) > 0 {
		fmt.Fprintf(w, "\n%s\n", onboardedTable(w.frameStyle, s.Clusters, now))
	}
}

func onboardedTable(style frameStyle, clusters []onboardingworkflow.Cluster, now time.Time) string {
	t := style.newTable("CLUSTER", "STATE", "FOR", "REASON")
	for _, cluster := range clusters {
		t.AppendRow(table.Row{cluster.Name, cluster.State, age(now, cluster.Since.Time), strings.TrimSuffix(cluster.Reason+": "+cluster.Message, ": ")})
	}
	return t.Render()
}

func newOnboardingDescribe(c *cli) *cobra.Command {
	named := func(context.Context, *server, string) (subject, error) { return onboarding(), nil }
	return c.newDescribe("onboarding", "", named, c.onboardingReport)
}

// onboardedClusters lists the clusters of the onboarding.
type onboardedClusters struct {
	Items []onboardingworkflow.Cluster `json:"items"`
	// neverStarted: there is no onboarding.
	neverStarted bool
}

func newOnboardingList(c *cli) *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the clusters that are being onboarded, and those that failed",
		Args:  operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			selector, err := flags.parsed()
			if err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error {
				return c.showList(ctx, flags.watch, func(ctx context.Context) (listResult, error) {
					list := onboardedClusters{Items: []onboardingworkflow.Cluster{}}
					_, err := s.DescribeWorkflow(ctx, onboarding().workflowID, "")
					if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
						list.neverStarted = true
						return list, nil
					}
					var status onboardingworkflow.Status
					err = s.query(ctx, onboarding(), "", &status)
					for _, cluster := range status.Clusters {
						if selector.Matches(labels.Set{"cluster": cluster.Name, "state": string(cluster.State), "reason": cluster.Reason}) {
							list.Items = append(list.Items, cluster)
						}
					}
					return list, err
				})
			})
		}),
	}
	c.addListFlags(cmd, &flags, "the labels of a cluster are cluster, state, reason")
	return cmd
}

func (l onboardedClusters) frame(now time.Time, style frameStyle) string {
	if l.neverStarted {
		return "no cluster is being onboarded; start it with `drydock onboarding start`"
	}
	if len(l.Items) == 0 {
		return "no cluster is being onboarded"
	}
	return onboardedTable(style, l.Items, now)
}

func (l onboardedClusters) lines(time.Time) []statusLine {
	lines := []statusLine{}
	for _, cluster := range l.Items {
		text := fmt.Sprintf("cluster %s: %s%s", cluster.Name, cluster.State, prefixed(": ", strings.Trim(cluster.Reason+": "+cluster.Message, ": ")))
		lines = append(lines, statusLine{cluster.Name, text})
	}
	return lines
}

func (l onboardedClusters) ids() []string {
	var names []string
	for _, cluster := range l.Items {
		names = append(names, cluster.Name)
	}
	return names
}

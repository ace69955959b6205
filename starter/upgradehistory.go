package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
)

// defaultRuns is how many runs a history has unless more are asked for.
const defaultRuns = 20

func newUpgradeHistory(c *cli) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the runs of a rollout: who began each, and how it ended",
		Long: `List the runs of a rollout: who began each, and how it ended.

Each start and each retry is a run; the newest is last. Temporal forgets a run when its retention is over; the hub keeps how the last one ended, which is listed
as well with --hub-context.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.verb(func(ctx context.Context, args []string) error {
			target, err := c.rollout(args[0])
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit %d: must be 0, for all runs, or more", limit)
			}
			return c.showHistory(ctx, target, limit)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", defaultRuns, "at most so many runs, the newest; 0 is all")
	c.addKubeconfigFlag(cmd)
	cmd.Flags().StringVar(&c.kube.context, "hub-context", "", "kubeconfig context of the hub: also list the run that it has kept")
	_ = cmd.RegisterFlagCompletionFunc("hub-context", c.completeContexts)
	c.addNamespaceFlag(cmd)
	c.addTimeoutFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// rolloutHistory is the runs of a rollout as programs read them, the newest last.
type rolloutHistory struct {
	Metadata rolloutRef   `json:"metadata"`
	Runs     []rolloutRun `json:"runs"`
}

// rolloutRef names a rollout, whichever of its runs is meant.
type rolloutRef struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	WorkflowID string `json:"workflowID"`
}

// rolloutRun is a run of a rollout from its start or retry to its end. Temporal may have divided it into several that continue one another.
type rolloutRun struct {
	// RunID is the run that Temporal began with; LastRunID is the last of those that continue it, if there are any.
	RunID     string     `json:"runID"`
	LastRunID string     `json:"lastRunID,omitempty"`
	StartedAt *time.Time `json:"startedAt,omitempty"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	StartedBy string     `json:"startedBy,omitempty"`
	// Retry is what a retry was asked to do.
	Retry *rollout.RetryRequest `json:"retry,omitempty"`
	// Outcome is the reason of the rollout's last condition; of one that did not come to its own end, Temporal's word. Message says why.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Clusters by state; absent where nobody can say any more.
	Clusters *ranv1.ClusterCounts `json:"clusters,omitempty"`
	// KeptBy is "hub" for a run that Temporal has forgotten.
	KeptBy string `json:"keptBy,omitempty"`
}

func (c *cli) showHistory(ctx context.Context, target subject, limit int) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	runs, err := s.rolloutRuns(ctx, target, limit)
	if err != nil {
		return err
	}
	if c.kube.context != "" {
		kept, err := c.keptRun(ctx, target)
		if err != nil {
			return err
		}
		runs = withKept(runs, kept, limit)
	}
	if len(runs) == 0 {
		return fmt.Errorf("temporal knows no run of %s (any more): `%s` lists those it knows, and --hub-context shows what the hub has kept", target, target.list)
	}
	ref := observe.RefOf(target.workflowID, "")
	history := rolloutHistory{Metadata: rolloutRef{Namespace: ref.Namespace, Name: ref.Name, WorkflowID: ref.WorkflowID}, Runs: runs}
	ids := make([]string, 0, len(runs))
	for _, run := range runs {
		ids = append(ids, run.RunID)
	}
	return c.print(history, func(w io.Writer) { printRuns(w, runs) }, ids...)
}

func printRuns(w io.Writer, runs []rolloutRun) {
	t := newTable("RUN", "STARTED", "ENDED", "OUTCOME", "COMPLETE", "FAILED", "BY", "MESSAGE")
	for _, run := range runs {
		complete, failed := "", ""
		if counts := run.Clusters; counts != nil {
			complete, failed = fmt.Sprintf("%d/%d", counts.Complete, counts.Total), fmt.Sprint(counts.Failed+counts.TimedOut)
		}
		t.AppendRow(table.Row{run.RunID, instant(run.StartedAt), instant(run.EndedAt), run.Outcome, complete, failed, run.by(), run.Message})
	}
	fmt.Fprintln(w, t.Render())
}

// by is who began the run, and that it was a retry.
func (r rolloutRun) by() string {
	switch {
	case r.Retry == nil:
		return r.StartedBy
	case r.StartedBy == "":
		return "retry"
	}
	return r.StartedBy + ", retry"
}

// instant renders when something was; empty if it was not.
func instant(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Local().Format(time.DateTime)
}

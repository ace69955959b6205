package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
)

// defaultRuns is the default of --limit.
const defaultRuns = 20

func newUpgradeHistory(c *cli) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the runs of a rollout: who started each, and how it ended",
		Long: `List the runs of a rollout: who started each, and how it ended.

Each start and each retry is a run; the newest is last. Temporal deletes a run after its retention period. The hub saves the outcome of the
last run; --hub-context lists that one too.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.verb(func(ctx context.Context, args []string) error {
			target, err := c.rollout(args[0])
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit %d: must be 0 (all runs) or more", limit)
			}
			return c.showHistory(ctx, target, limit)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", defaultRuns, "list at most this many of the newest runs; 0 lists all")
	c.addKubeconfigFlag(cmd)
	cmd.Flags().StringVar(&c.kube.context, "hub-context", "", "kubeconfig context of the hub: also list the run saved there")
	_ = cmd.RegisterFlagCompletionFunc("hub-context", c.completeContexts)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// rolloutHistory is the output of -o json: the runs of a rollout, the newest last.
type rolloutHistory struct {
	Metadata rolloutRef   `json:"metadata"`
	Runs     []rolloutRun `json:"runs"`
}

// rolloutRef names a rollout, not one of its runs.
type rolloutRef struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	WorkflowID string `json:"workflowID"`
}

// rolloutRun is a run of a rollout from its start or retry to its end. It may span several Temporal runs (continue-as-new).
type rolloutRun struct {
	// RunID is the first Temporal run; LastRunID is the last one, if the run was continued as new.
	RunID     string     `json:"runID"`
	LastRunID string     `json:"lastRunID,omitempty"`
	StartedAt *time.Time `json:"startedAt,omitempty"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	StartedBy string     `json:"startedBy,omitempty"`
	// Retry is the request of a retry.
	Retry *rollout.RetryRequest `json:"retry,omitempty"`
	// Outcome is the reason of the rollout's last condition, or Temporal's close status if the workflow was cut off. Message explains it.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Clusters by state; absent if they are no longer known.
	Clusters *ranv1.ClusterCounts `json:"clusters,omitempty"`
	// KeptBy is "hub" for a run that Temporal no longer retains.
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
		return fmt.Errorf("temporal has no run of %s: `%s` lists the rollouts it retains, and --hub-context shows the run saved on the hub", target, target.list)
	}
	ref := observe.RefOf(target.workflowID, "")
	history := rolloutHistory{Metadata: rolloutRef{Namespace: ref.Namespace, Name: ref.Name, WorkflowID: ref.WorkflowID}, Runs: runs}
	ids := make([]string, 0, len(runs))
	for _, run := range runs {
		ids = append(ids, run.RunID)
	}
	return c.print(history, func(w *page) { printRuns(w, runs) }, ids...)
}

func printRuns(w *page, runs []rolloutRun) {
	t := w.newTable("RUN", "STARTED", "ENDED", "OUTCOME", "COMPLETE", "FAILED", "BY", "MESSAGE")
	for _, run := range runs {
		complete, failed := "", ""
		if counts := run.Clusters; counts != nil {
			complete, failed = fmt.Sprintf("%d/%d", counts.Complete, counts.Total), fmt.Sprint(counts.Failed+counts.TimedOut)
		}
		t.AppendRow(table.Row{run.RunID, stampOf(run.StartedAt, w.now), stampOf(run.EndedAt, w.now), run.Outcome, complete, failed, run.by(), run.Message})
	}
	fmt.Fprintln(w, t.Render())
}

// by is the user who started the run, marked if it was a retry.
func (r rolloutRun) by() string {
	switch {
	case r.Retry == nil:
		return r.StartedBy
	case r.StartedBy == "":
		return "retry"
	}
	return r.StartedBy + ", retry"
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

// upgradeCheck is which running workflows this version can continue.
type upgradeCheck struct {
	Version string `json:"version"`
	// Checked is the number of running workflows.
	Checked int `json:"checked"`
	// Failed are those that this version cannot continue.
	Failed []failedReplay `json:"failed"`
}

// failedReplay is a running workflow that this version cannot continue.
type failedReplay struct {
	workflowRef
	Type    string `json:"type"`
	Message string `json:"message"`
}

func newUpgradeCheck(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade-check",
		Short: "Check that workers of this version can continue what is running",
		Long: `Check that workers of this version can continue what is running, before you start them: replay the history of each running workflow with the code of
this program. It must be of the version of the new workers. The command changes nothing and needs no worker.

The exit status is 1 if this version cannot continue a workflow.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			check, err := s.checkUpgrade(ctx)
			if err != nil {
				return err
			}
			if err := c.print(check, func(w *page) { printUpgradeCheck(w, check) }); err != nil || len(check.Failed) == 0 {
				return err
			}
			return errPrinted
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

// parallelReplays limits the histories in memory.
const parallelReplays = 8

// checkUpgrade replays all running workflows. Those that end meanwhile count as checked.
func (s *server) checkUpgrade(ctx context.Context) (upgradeCheck, error) {
	running, err := s.executions(ctx, fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType IN ('%s')", strings.Join(workflows.Types(), "', '")))
	if err != nil {
		return upgradeCheck{}, err
	}
	check := upgradeCheck{Version: version, Checked: len(running), Failed: []failedReplay{}}
	var mu sync.Mutex
	replays, replaying := errgroup.WithContext(ctx)
	replays.SetLimit(parallelReplays)
	for _, execution := range running {
		replays.Go(func() error {
			failed, err := s.replay(replaying, execution)
			if failed != nil {
				mu.Lock()
				defer mu.Unlock()
				check.Failed = append(check.Failed, *failed)
			}
			return err
		})
	}
	err = replays.Wait()
	slices.SortFunc(check.Failed, func(a, b failedReplay) int { return cmp.Compare(a.WorkflowID, b.WorkflowID) })
	return check, err
}

// replay replays a running workflow; nil: this version can continue it, or it is gone.
func (s *server) replay(ctx context.Context, execution *workflowpb.WorkflowExecutionInfo) (*failedReplay, error) {
	id, run := execution.GetExecution().GetWorkflowId(), execution.GetExecution().GetRunId()
	read, err := history.ReadRun(ctx, s.Client, id, run)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain("read the history of", subject{noun: "workflow", name: id}, err)
	}
	if err := workflows.Replay(read, s.options); err != nil {
		return &failedReplay{workflowRef: observe.RefOf(id, run), Type: execution.GetType().GetName(), Message: temporal.PlainText(err.Error())}, nil
	}
	return nil, nil
}

func printUpgradeCheck(w *page, check upgradeCheck) {
	if len(check.Failed) == 0 {
		fmt.Fprintf(w, "drydock %s can continue all of %s\n", check.Version, plural(check.Checked, "running workflow"))
		return
	}
	t := w.newTable("WORKFLOW", "TYPE", "WHY IT CANNOT BE CONTINUED")
	for _, failed := range check.Failed {
		t.AppendRow(table.Row{failed.WorkflowID, failed.Type, failed.Message})
	}
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "drydock %s cannot continue %d of %s: end them first, or keep a worker of the former version for them (docs/how-to/upgrade-drydock.md)\n",
		check.Version, len(check.Failed), plural(check.Checked, "running workflow"))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

func newUpgradeStatus(c *cli) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show where a rollout stands: batches, clusters, and what each waits for",
		Long: `Show where a rollout stands: batches, clusters, and what each waits for.

Of very many clusters the table shows those first that matter: failed, timed out, at work; -o json has all.

With --watch it follows the rollout to its end: on a terminal as a live view, elsewhere with one line a change (with -o json one
status a line), and ends with status 0 only if the rollout succeeded.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			if watch {
				return c.watchRollout(ctx, s, target)
			}
			return c.showRollout(ctx, s, target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow it to its end")
	c.addNamespaceFlag(cmd)
	c.addTimeoutFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// rolloutStatus is the status of a rollout as programs read it.
type rolloutStatus struct {
	Metadata workflowRef                     `json:"metadata"`
	Status   ranv1.ClusterGroupUpgradeStatus `json:"status"`
}

// partClusters is how many clusters one answer of a rollout has at most, and how many a table shows unless it fits a terminal: answers must stay small.
const partClusters = 250

// rolloutStatus gets the status of a rollout, with at most so many clusters, those first that matter; 0 is all, in parts if there are many.
func (s *server) rolloutStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription, limit int) (rolloutStatus, error) {
	status := rolloutStatus{Metadata: observe.RefOf(target.workflowID, execution.WorkflowExecution.RunID)}
	if limit > 0 {
		return status, s.status(ctx, target, execution, &status.Status, temporal.StatusRequest{Limit: limit})
	}
	var parts []ranv1.ClusterGroupUpgradeStatus
	request := temporal.StatusRequest{Limit: partClusters, InPlanOrder: true}
	for {
		var part ranv1.ClusterGroupUpgradeStatus
		err := s.status(ctx, target, execution, &part, request)
		if err != nil { // also if it is only a remark: what a workflow ended with is no part
			status.Status = part
			return status, err
		}
		parts = append(parts, part)
		if request.Cursor = part.NextCursor; request.Cursor == "" {
			status.Status = rollout.Join(parts)
			return status, nil
		}
	}
}

// showRollout prints the status once.
func (c *cli) showRollout(ctx context.Context, s *server, target subject) error {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return err
	}
	limit := 0
	if c.output == formatTable {
		limit = partClusters
	}
	status, err := s.rolloutStatus(ctx, target, execution, limit)
	if errors.Is(err, errFromResult) {
		fmt.Fprintln(c.ErrOut, err)
	} else if err != nil {
		return err
	}
	return c.print(status, func(w io.Writer) { fmt.Fprintln(w, status.frame(time.Now(), frameStyle{})) }, status.Metadata.WorkflowID)
}

// watchRollout shows a rollout until it is over. It returns nil only if it succeeded.
func (c *cli) watchRollout(ctx context.Context, s *server, target subject) error {
	var last rolloutStatus
	get := func(ctx context.Context, execution *client.WorkflowExecutionDescription, limit int) (followed, error) {
		var err error
		last, err = s.rolloutStatus(ctx, target, execution, limit)
		return last, err
	}
	if err := c.watch(ctx, s, target, get, func() bool { return false }); err != nil {
		return err
	}
	if !succeeded(last.Status) {
		reason, message := verdict(last.Status)
		return fmt.Errorf("%s did not succeed (%s): %s", target, reason, message)
	}
	return nil
}

// describe returns how the workflow of a subject stands; of its newest run if no other is named.
func (s *server) describe(ctx context.Context, of subject, runID string) (*client.WorkflowExecutionDescription, error) {
	execution, err := s.DescribeWorkflow(ctx, of.workflowID, runID)
	if err != nil {
		return nil, s.explain("describe", of, err)
	}
	return execution, nil
}

// errFromResult is a remark rather than an error: the status is the one that the workflow ended with.
var errFromResult = errors.New("no worker answers: this is the status that it ended with")

// status gets the status of a workflow that runs or has come to its end. A worker answers it; without one, the end of a workflow still tells, and
// the error is errFromResult. One that was cut off has none.
func (s *server) status(ctx context.Context, of subject, execution *client.WorkflowExecutionDescription, into any, args ...any) error {
	if err := s.cutOff(ctx, of, execution); err != nil {
		return err
	}
	err := s.query(ctx, of, execution.WorkflowExecution.RunID, into, args...)
	if err == nil || !errors.Is(err, observe.ErrNoWorker) || execution.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return err
	}
	if endErr := s.lastStatus(ctx, of, execution.WorkflowExecution.RunID, into); endErr != nil {
		return endErr
	}
	return fmt.Errorf("%s: %w", of, errFromResult)
}

// cutOff says of a workflow that was terminated, or timed out, that nothing of it goes on; nil of any other.
func (s *server) cutOff(ctx context.Context, of subject, execution *client.WorkflowExecutionDescription) error {
	if !observe.Cut(execution.Status.String()) {
		return nil
	}
	how := "has timed out"
	if execution.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		how = "was " + s.terminatedBy(ctx, of, execution.WorkflowExecution.RunID)
	}
	return fmt.Errorf("%s does not go on: its workflow %s", of, how)
}

// lastStatus reads the status that a workflow ended with: its result, or the details of its failure or cancellation.
func (s *server) lastStatus(ctx context.Context, of subject, runID string, into any) error {
	if err := observe.LastStatus(ctx, s, of.workflowID, runID, into); err != nil {
		return fmt.Errorf("%s ended without a status, and no worker answers: %w", of, err)
	}
	return nil
}

// verdict is how a rollout stands or ended, in a condition's words.
func verdict(status ranv1.ClusterGroupUpgradeStatus) (reason, message string) {
	if over := meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded); over != nil {
		return over.Reason, over.Message
	}
	if progressing := meta.FindStatusCondition(status.Conditions, ranv1.ConditionProgressing); progressing != nil {
		return progressing.Reason, progressing.Message
	}
	if n := len(status.Conditions); n > 0 {
		return status.Conditions[n-1].Reason, status.Conditions[n-1].Message
	}
	return "Planning", ""
}

// succeeded reports whether a rollout is over and every cluster is complete.
func succeeded(status ranv1.ClusterGroupUpgradeStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded)
}

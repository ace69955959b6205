package main

import (
	"context"
	"errors"
	"fmt"

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
	var watch, exitStatus bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the status of a rollout: batches, clusters, and what each waits for",
		Long: `Show the status of a rollout: batches, clusters, and what each waits for.

With many clusters the table shows failed, timed-out and running clusters first; -o json lists all.

With --watch the command follows the rollout until it ends: a live view on a terminal, otherwise one line per change (with -o json one
status per line). It exits with status 0 only if the rollout succeeded.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			if watch {
				return c.watchRollout(ctx, s, target)
			}
			shown, err := c.rolloutReport(ctx, s, target)
			if err != nil {
				return err
			}
			if err := c.printReport(shown); err != nil || !exitStatus {
				return err
			}
			return shown.object.(rolloutStatus).failure(target)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow it until it ends")
	cmd.Flags().BoolVar(&exitStatus, "exit-status", false, "exit with status 1 if the rollout has ended and did not succeed; --watch always does")
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// rolloutStatus is the status of a rollout as programs read it.
type rolloutStatus struct {
	Metadata workflowRef                     `json:"metadata"`
	Status   ranv1.ClusterGroupUpgradeStatus `json:"status"`
	// Object is the one that requests the rollout; nil: there is none.
	Object *temporal.Object `json:"object,omitempty"`
}

// partClusters is the maximum number of clusters in one query answer, which must stay small, and in a table that does not fit a terminal.
const partClusters = 250

// rolloutStatus gets the status of a rollout with at most limit clusters, the most important first; 0 gets all, in several queries if needed.
func (s *server) rolloutStatus(ctx context.Context, target subject, execution *client.WorkflowExecutionDescription, limit int) (rolloutStatus, error) {
	status := rolloutStatus{Metadata: observe.RefOfExecution(target.workflowID, execution), Object: sourceOf(execution)}
	if limit > 0 {
		return status, s.status(ctx, target, execution, &status.Status, temporal.StatusRequest{Limit: limit})
	}
	var parts []ranv1.ClusterGroupUpgradeStatus
	request := temporal.StatusRequest{Limit: partClusters, InPlanOrder: true}
	for {
		var part ranv1.ClusterGroupUpgradeStatus
		err := s.status(ctx, target, execution, &part, request)
		if err != nil { // errFromResult too: the result of a workflow is not paged
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

// rolloutReport reads the status once.
func (c *cli) rolloutReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	limit := 0
	if c.forPeople() && c.render == nil {
		limit = partClusters
	}
	status, err := s.rolloutStatus(ctx, target, execution, limit)
	return c.reportOf(status, target, err)
}

// watchRollout shows a rollout until it ends. It returns nil only if the rollout succeeded.
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
	if !last.over() {
		reason, message := verdict(last.Status)
		return fmt.Errorf("%s did not succeed (%s): %s", target, reason, message)
	}
	return last.failure(target)
}

// failure is the error of a rollout that has ended and did not succeed.
func (s rolloutStatus) failure(target subject) error {
	if !s.over() || succeeded(s.Status) {
		return nil
	}
	reason, message := verdict(s.Status)
	return fmt.Errorf("%s did not succeed (%s): %s%s", target, reason, message, s.nextStep("; "))
}

// describe returns the execution of a subject's workflow: the given run, or the newest one.
func (s *server) describe(ctx context.Context, of subject, runID string) (*client.WorkflowExecutionDescription, error) {
	execution, err := s.DescribeWorkflow(ctx, of.workflowID, runID)
	if err != nil {
		return nil, s.explain("describe", of, err)
	}
	return execution, nil
}

// errFromResult comes with a valid status: the final status of the workflow, since no worker answers.
var errFromResult = errors.New("no worker answers: this is the status when it ended")

// status gets the status of a running or ended workflow. If no worker answers, it reads the status from the result of an ended workflow and
// returns errFromResult. A terminated or timed-out workflow has no status.
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

// cutOff is an error if the workflow was terminated or timed out.
func (s *server) cutOff(ctx context.Context, of subject, execution *client.WorkflowExecutionDescription) error {
	if !observe.Cut(execution.Status.String()) {
		return nil
	}
	how := "has timed out"
	if execution.Status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		how = "was " + s.terminatedBy(ctx, of, execution.WorkflowExecution.RunID)
	}
	return fmt.Errorf("%s has stopped: its workflow %s", of, how)
}

// lastStatus reads the final status of a workflow: its result, or the details of its failure or cancellation.
func (s *server) lastStatus(ctx context.Context, of subject, runID string, into any) error {
	if err := observe.LastStatus(ctx, s, of.workflowID, runID, into); err != nil {
		return fmt.Errorf("%s ended without a status, and no worker answers: %w", of, err)
	}
	return nil
}

// verdict is the reason and message of the condition that describes a rollout best.
func verdict(status ranv1.ClusterGroupUpgradeStatus) (reason, message string) {
	if ended := meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded); ended != nil {
		return ended.Reason, ended.Message
	}
	if progressing := meta.FindStatusCondition(status.Conditions, ranv1.ConditionProgressing); progressing != nil {
		return progressing.Reason, progressing.Message
	}
	if n := len(status.Conditions); n > 0 {
		return status.Conditions[n-1].Reason, status.Conditions[n-1].Message
	}
	return "Planning", ""
}

// succeeded reports whether a rollout has ended with every cluster complete.
func succeeded(status ranv1.ClusterGroupUpgradeStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, ranv1.ConditionSucceeded)
}

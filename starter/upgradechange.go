package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

func newUpgradeApprove(c *cli) *cobra.Command {
	var request rollout.ApprovalRequest
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the next batch of a rollout (spec.approvals)",
		Long: `Approve the next batch of a rollout (spec.approvals); the batch then starts.

The command fails if the rollout is not waiting for an approval. With separateDuties it also fails for the user who started, edited, enabled
or retried the rollout. With --batch it approves only that batch, even if the rollout has reached a later one.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(true),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			request.Actor = actor()
			var approval ranv1.Approval
			if err := s.update(ctx, target, temporal.UpdateApprove, request, &approval); err != nil {
				return err
			}
			return c.print(approval, func(w *page) {
				fmt.Fprintf(w, "%s: %s is approved, batch %d may start; see `%s`\n", target, approval.Point, approval.Batch, target.show)
			}, target.workflowID)
		}),
	}
	cmd.Flags().Int32Var(&request.Batch, "batch", 0, "approve only if this batch is the one that waits")
	cmd.Flags().StringVar(&request.Comment, "reason", "", "reason or ticket; recorded with your user name in the status")
	cmd.Flags().StringVar(&request.Comment, "comment", "", "the former name of --reason")
	_ = cmd.Flags().MarkHidden("comment")
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func newUpgradeEdit(c *cli) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "edit -f FILE",
		Short: "Change the spec of a rollout before it is enabled, or its timeouts later",
		Long: `Change the spec of a rollout before it is enabled, or its timeouts later.

The spec in the file replaces the current one. A rollout that is not enabled is planned again. Once a rollout is enabled, you can change
only spec.remediationStrategy.timeout and spec.batchTimeoutAction.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error { return c.editRollout(ctx, s, object, reason) })
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	addReasonFlag(cmd, &reason)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) editRollout(ctx context.Context, s *server, object *ranv1.ClusterGroupUpgrade, reason string) error {
	return sendEdit(ctx, c, s, rolloutSubject(object.Namespace, object.Name), object.Spec, reason)
}

// newUpgradeApply returns the command that starts a rollout, or edits it if it is running.
func newUpgradeApply(c *cli) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Start a rollout, or change it if it is running",
		Long: `Start a rollout, or change it if it is running, as "start" and "edit" do.

A rollout that has ended is started again.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error {
				target := rolloutSubject(object.Namespace, object.Name)
				if running, err := s.isRunning(ctx, target); err == nil && running {
					return c.editRollout(ctx, s, object, reason)
				}
				return c.startRollout(ctx, object, false, startFlags{reason: reason}) // it reports the errors of the server
			})
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	addReasonFlag(cmd, &reason)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func newUpgradeRetry(c *cli) *cobra.Command {
	var request rollout.RetryRequest
	var wait bool
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Retry the clusters that failed, timed out or were offline, with the same plan",
		Long: `Retry the clusters that failed, timed out or were offline, with the same plan.

The rollout must have ended. It gets a new run under the same name, with the spec and the plan of its last run, for those clusters only.
Temporal must retain that run: it has the spec. What the hub has saved only names it.
With --unfinished it also retries clusters that were cancelled or never started.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			request.Actor = actor()
			return c.retryRollout(ctx, s, target, request, wait)
		}),
	}
	cmd.Flags().BoolVar(&request.Unfinished, "unfinished", false, "also retry clusters that were cancelled or never started")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the rollout until it ends")
	addReasonFlag(cmd, &request.Reason)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) retryRollout(ctx context.Context, s *server, target subject, request rollout.RetryRequest, wait bool) error {
	if err := s.checkRetry(ctx, target, request); err != nil {
		return err
	}
	source, err := s.objectOf(ctx, target)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(target.name, "/")
	object := &ranv1.ClusterGroupUpgrade{}
	object.Namespace, object.Name = namespace, name
	return c.runRollout(ctx, s, target, name+", retry of failed clusters", request.Reason, wait, rolloutworkflow.Input{
		Object: *object, StartedBy: request.Actor, Retry: &request, Source: source,
	})
}

// objectOf returns the object that the last run of a rollout worked for, which shows the retry, too; nil: there is none.
func (s *server) objectOf(ctx context.Context, target subject) (*temporal.Object, error) {
	last, err := s.DescribeWorkflowExecution(ctx, target.workflowID, "")
	if _, forgotten := errors.AsType[*serviceerror.NotFound](err); forgotten {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain("describe", target, err)
	}
	return temporal.ObjectOf(last.GetWorkflowExecutionInfo())
}

// checkRetry refuses a retry that has nothing to do, so that the status of the last run stays visible. It knows only runs that Temporal retains.
func (s *server) checkRetry(ctx context.Context, target subject, request rollout.RetryRequest) error {
	execution, err := s.DescribeWorkflow(ctx, target.workflowID, "")
	if _, forgotten := errors.AsType[*serviceerror.NotFound](err); forgotten {
		return nil // the hub may have saved it
	}
	if err != nil {
		return s.explain("describe", target, err)
	}
	last, err := s.rolloutStatus(ctx, target, execution, 0)
	if err != nil && !errors.Is(err, errFromResult) || last.Status.Status.CompletedAt == nil || len(last.Status.RemediationPlan) == 0 {
		return nil // the start or the run itself reports the problem
	}
	if _, err := rollout.Retry(last.Status, nil, request); err != nil { // canaries change only the order
		return fmt.Errorf("retry %s: %w", target, err)
	}
	return nil
}

// update sends an update to the workflow of a subject and waits for the answer.
func (s *server) update(ctx context.Context, of subject, name string, request, answer any) error {
	return s.answered(ctx, of, name, answer, func(ctx context.Context) (client.WorkflowUpdateHandle, error) {
		return s.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: of.workflowID, UpdateName: name, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
	})
}

// answered sends an update to the workflow of a subject and waits for the answer.
func (s *server) answered(ctx context.Context, of subject, doing string, answer any, send func(context.Context) (client.WorkflowUpdateHandle, error)) error {
	waiting, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	sent, err := send(waiting)
	if err == nil {
		err = sent.Get(waiting, answer)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && (timeIsUp(waiting) || observe.NoWorker(err)):
		return unanswered(fmt.Sprintf("%s %s", doing, of), of.show, err)
	case temporal.ErrorType(err) == temporal.ErrInvalidSpec:
		return fmt.Errorf("%s %s: %s", doing, of, temporal.ErrorMessage(err))
	}
	return s.explainUndelivered(ctx, doing, of, err)
}

// unanswered returns the error of a request that no worker has answered. Temporal keeps the request for the next worker.
func unanswered(doing, show string, err error) error {
	return fmt.Errorf("%s: %w; the request takes effect when a worker answers: see `%s`", doing, observe.Unanswered(err), show)
}

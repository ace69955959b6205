package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

func newUpgradeApprove(c *cli) *cobra.Command {
	var request rollout.ApprovalRequest
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve what a rollout waits for (spec.approvals)",
		Long: `Approve what a rollout waits for (spec.approvals): the next batch then starts.

It is refused while the rollout does not wait for an approval, and, with separateDuties, for whoever started, edited, enabled or retried
the rollout. With --batch it counts only for that batch, not for one that the rollout has reached meanwhile.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(true),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			request.Actor = actor()
			var approval ranv1.Approval
			if err := s.update(ctx, target, temporal.UpdateApprove, request, &approval); err != nil {
				return err
			}
			return c.print(approval, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s is approved, batch %d may start; see `%s`\n", target, approval.Point, approval.Batch, target.show)
			}, target.workflowID)
		}),
	}
	cmd.Flags().Int32Var(&request.Batch, "batch", 0, "only if it is this batch that waits")
	cmd.Flags().StringVar(&request.Comment, "comment", "", "why, or a ticket; kept with your name in the status")
	c.addNamespaceFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func newUpgradeEdit(c *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "edit -f FILE",
		Short: "Change the spec of a rollout that is not enabled; later, only its times",
		Long: `Change the spec of a rollout that is not enabled; later, only its times.

The spec becomes that of the file. One that is not enabled is planned anew. Once it is enabled, only
spec.remediationStrategy.timeout and spec.batchTimeoutAction can be changed.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			s, err := c.dial(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			target := rolloutSubject(object.Namespace, object.Name)
			var answer workflows.EditAnswer
			if err := s.update(ctx, target, temporal.UpdateEdit, rollout.EditRequest{Actor: actor(), Spec: object.Spec}, &answer); err != nil {
				return err
			}
			return c.print(answer, func(w io.Writer) { fmt.Fprintln(w, editText(target, answer)) }, target.workflowID)
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	c.addNamespaceFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func editText(target subject, answer workflows.EditAnswer) string {
	if len(answer.Changed) == 0 {
		return fmt.Sprintf("%s is as the file says already", target)
	}
	return fmt.Sprintf("%s: changed %s; see `%s`", target, strings.Join(answer.Changed, ", "), target.show)
}

func newUpgradeRetry(c *cli) *cobra.Command {
	var request rollout.RetryRequest
	var wait bool
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Do once more what has failed or timed out, with the same plan",
		Long: `Do once more what has failed or timed out, with the same plan.

The rollout is over: it gets a new run of the same name, with the spec and the plan that the hub has kept, for those clusters only. With --unfinished also for those that were cancelled or whose turn did not come.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.subjectVerb(c.rollout, func(ctx context.Context, s *server, target subject) error {
			request.Actor = actor()
			return c.retryRollout(ctx, s, target, request, wait)
		}),
	}
	cmd.Flags().BoolVar(&request.Unfinished, "unfinished", false, "also the clusters that were cancelled, or whose turn did not come")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the rollout to its end")
	addReasonFlag(cmd, &request.Reason)
	c.addNamespaceFlag(cmd)
	c.addTimeoutFlag(cmd)
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) retryRollout(ctx context.Context, s *server, target subject, request rollout.RetryRequest, wait bool) error {
	if err := s.checkRetry(ctx, target, request); err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(target.name, "/")
	object := &ranv1.ClusterGroupUpgrade{}
	object.Namespace, object.Name = namespace, name
	return c.runRollout(ctx, s, target, name+", once more what has failed", wait, workflows.ClusterGroupUpgradeInput{
		Object: *object, StartedBy: request.Actor, Retry: &request,
	})
}

// checkRetry refuses a retry that could do nothing, as far as Temporal remembers the last run, so that its status stays where it is seen.
func (s *server) checkRetry(ctx context.Context, target subject, request rollout.RetryRequest) error {
	execution, err := s.DescribeWorkflow(ctx, target.workflowID, "")
	if _, forgotten := errors.AsType[*serviceerror.NotFound](err); forgotten {
		return nil // the hub may have kept it
	}
	if err != nil {
		return s.explain("describe", target, err)
	}
	last, err := s.rolloutStatus(ctx, target, execution, 0)
	if err != nil && !errors.Is(err, errFromResult) || last.Status.Status.CompletedAt == nil || len(last.Status.RemediationPlan) == 0 {
		return nil // the start, or the run itself, will say what is wrong
	}
	if _, err := rollout.Retry(last.Status, nil, request); err != nil { // canaries change only the order
		return fmt.Errorf("retry %s: %w", target, err)
	}
	return nil
}

// update asks the workflow of a subject for a change and waits for the answer.
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
	return s.explainUnheard(ctx, doing, of, err)
}

// unanswered says that nobody has answered a request. Temporal keeps it nevertheless, for the next worker that comes.
func unanswered(doing, show string, err error) error {
	return fmt.Errorf("%s: %w; it may be carried out as soon as one answers: see `%s`", doing, observe.Unanswered(err), show)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/equality"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
	locksworkflow "drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// The commands here start what does not run. What runs keeps its spec: only objects in the cluster can be edited, and requestors can join.

func newNodeApply(c *cli) *cobra.Command {
	var flags maintainFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Start the maintenance of a NodeMaintenance, or add its requestors to it if it is running",
		Long: `Start the maintenance of a NodeMaintenance, or add its requestors to it if it is running, as "maintain" and "join" do.

Nothing else of a running maintenance can be changed this way: the command then fails. A NodeMaintenance that you apply to the cluster with
kubectl can be edited. A maintenance that has ended is started again.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			if err := c.requireCluster(); err != nil {
				return err
			}
			object, err := c.requestedMaintenance(flags, nil)
			if err != nil {
				return err
			}
			target := nodeMaintenance(c.cluster, object.Namespace, object.Name)
			running, err := s.running(ctx, target)
			if err != nil {
				return err
			}
			if running == nil {
				return c.startMaintenance(ctx, object, flags)
			}
			return c.applyToMaintenance(ctx, s, target, running, object, flags.start.reason)
		}),
	}
	addFileFlag(cmd, &flags.file, "file with the NodeMaintenance")
	flags.start.addWaitForIt(cmd)
	flags.start.addRefuseIfBlocked(cmd)
	addReasonFlag(cmd, &flags.start.reason)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// running returns the execution of a subject's workflow if it is running, else nil.
func (s *server) running(ctx context.Context, of subject) (*client.WorkflowExecutionDescription, error) {
	execution, err := s.DescribeWorkflow(ctx, of.workflowID, "")
	switch _, unknown := errors.AsType[*serviceerror.NotFound](err); {
	case unknown:
		return nil, nil
	case err != nil:
		return nil, s.explain("find", of, err)
	case execution.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil, nil
	}
	return execution, nil
}

// applyToMaintenance lets the requestors of a request join the running maintenance of that name.
func (c *cli) applyToMaintenance(
	ctx context.Context, s *server, target subject, running *client.WorkflowExecutionDescription, object *maintenancev1.NodeMaintenance, reason string,
) error {
	var input nodemaintenance.Input
	started, err := s.startOf(ctx, target, &commonpb.WorkflowExecution{WorkflowId: target.workflowID, RunId: running.WorkflowExecution.RunID})
	if err == nil {
		err = decode(started.GetInput(), &input)
	}
	if err != nil {
		return err
	}
	var status maintenancev1.NodeMaintenanceStatus
	if err := s.query(ctx, target, "", &status); err != nil {
		return err
	}
	wanted, current := object.Spec, input.Object.Spec
	wanted.AdditionalRequestors, current.AdditionalRequestors = nil, nil
	if !equality.Semantic.DeepEqual(wanted, current) {
		return fmt.Errorf("%s is running with another spec: only requestors can be added to it; cancel it with `drydock node cancel %s/%s --cluster %s`, and apply the file again",
			target, object.Namespace, object.Name, c.cluster)
	}
	joined := []string{}
	for _, id := range object.Spec.AdditionalRequestors {
		if slices.ContainsFunc(status.Requestors, func(r maintenancev1.RequestorStatus) bool { return r.RequestorID == id }) {
			continue
		}
		if err := s.update(ctx, target, temporal.UpdateJoin, temporal.SignalRequest{Actor: actor(), Requestor: id, Reason: reason}, &status); err != nil {
			return err
		}
		joined = append(joined, id)
	}
	return c.print(applied{running.WorkflowExecution.ID, joined}, func(w *page) {
		if len(joined) == 0 {
			fmt.Fprintf(w, "%s already matches the file\n", target)
			return
		}
		fmt.Fprintf(w, "%s: %s joined; see `%s`\n", target, strings.Join(joined, ", "), target.show)
	}, target.workflowID)
}

// applied is the output of -o json: what an apply changed on a running workflow.
type applied struct {
	WorkflowID string   `json:"workflowID"`
	Joined     []string `json:"joined,omitempty"`
}

func newLockControllerApply(c *cli) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Start the lock controller of a WorkloadLockPolicy, unless it is running",
		Long: `Start the lock controller of a WorkloadLockPolicy, unless it is running.

The command fails if the controller is running with another policy. A WorkloadLockPolicy that you apply to the cluster with kubectl can be
edited.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			policy, err := manifest.LoadOne[*drydockv1.WorkloadLockPolicy](file, c.In)
			if err != nil {
				return inputError(err)
			}
			if err := c.requireCluster(); err != nil {
				return err
			}
			target := lockController(c.cluster, policy.Spec.ControllerName)
			running, err := s.running(ctx, target)
			if err != nil {
				return err
			}
			if running == nil {
				return c.startLockController(ctx, policy, reason)
			}
			var status locksworkflow.Status
			if err := s.query(ctx, target, "", &status); err != nil {
				return err
			}
			if !equality.Semantic.DeepEqual(status.Policy, policy.Spec) {
				return fmt.Errorf("%s is running with another policy: cancel it with `drydock lock controller cancel %s --cluster %s`, and apply the file again",
					target, policy.Spec.ControllerName, c.cluster)
			}
			return c.printUnchanged(target)
		}),
	}
	addFileFlag(cmd, &file, "file with the WorkloadLockPolicy")
	addReasonFlag(cmd, &reason)
	c.addClusterFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func newOnboardingApply(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Start the onboarding of clusters, unless it is running",
		Args:  operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			running, err := s.running(ctx, onboarding())
			if err != nil {
				return err
			}
			if running == nil {
				return c.startOnboarding(ctx, s, reason)
			}
			return c.printUnchanged(onboarding())
		}),
	}
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

// printUnchanged says that a running workflow already is what was asked for.
func (c *cli) printUnchanged(target subject) error {
	return c.print(applied{WorkflowID: target.workflowID}, func(w *page) { fmt.Fprintf(w, "%s is already running\n", target) }, target.workflowID)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

// The commands here start what does not run, and edit what does.

func newNodeApply(c *cli) *cobra.Command {
	var flags maintainFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Start the maintenance of a NodeMaintenance, or change it if it is running",
		Long: `Start the maintenance of a NodeMaintenance, or change it if it is running, as "maintain" and "edit" do.

A maintenance that has ended is started again.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			object, target, err := c.maintenanceIn(flags)
			if err != nil {
				return err
			}
			running, err := s.isRunning(ctx, target)
			if err != nil {
				return err
			}
			if !running {
				return c.startMaintenance(ctx, object, flags)
			}
			return sendEdit(ctx, c, s, target, object.Spec, flags.start.reason)
		}),
	}
	flags.start.addWaitForIt(cmd)
	flags.start.addRefuseIfBlocked(cmd)
	c.addMaintenanceFileFlags(cmd, &flags)
	return cmd
}

func newNodeEdit(c *cli) *cobra.Command {
	var flags maintainFlags
	cmd := &cobra.Command{
		Use:   "edit -f FILE",
		Short: "Change the request of a running maintenance; a drain in progress begins again with it",
		Long: `Change the request of a running maintenance; a drain in progress begins again with it, and so does a wait for pods.

The spec in the file replaces the current one. Additional requestors that are new in it join; those that are no longer in it are done. You cannot
change the node, the requestor, cordon, maintenanceWindows and lockRelease, nor fields of steps that have ended. The maintenance of a
NodeMaintenance in the cluster follows that object: edit it with kubectl.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, target, err := c.maintenanceIn(flags)
			if err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error { return sendEdit(ctx, c, s, target, object.Spec, flags.start.reason) })
		}),
	}
	c.addMaintenanceFileFlags(cmd, &flags)
	return cmd
}

func (c *cli) addMaintenanceFileFlags(cmd *cobra.Command, flags *maintainFlags) {
	addFileFlag(cmd, &flags.file, "file with the NodeMaintenance")
	addReasonFlag(cmd, &flags.start.reason)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
}

// maintenanceIn reads the file with a NodeMaintenance.
func (c *cli) maintenanceIn(flags maintainFlags) (*maintenancev1.NodeMaintenance, subject, error) {
	if err := c.requireCluster(); err != nil {
		return nil, subject{}, err
	}
	object, err := c.requestedMaintenance(flags, nil)
	if err != nil {
		return nil, subject{}, err
	}
	return object, nodeMaintenance(c.cluster, object.Namespace, object.Name), nil
}

// isRunning reports whether the workflow of a subject is running.
func (s *server) isRunning(ctx context.Context, of subject) (bool, error) {
	execution, err := s.DescribeWorkflow(ctx, of.workflowID, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return false, nil
	}
	if err != nil {
		return false, s.explain("find", of, err)
	}
	return execution.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// sendEdit replaces the spec of a running workflow, and prints which fields that changed.
func sendEdit[Spec any](ctx context.Context, c *cli, s *server, target subject, spec Spec, reason string) error {
	var answer edits.Answer
	if err := s.update(ctx, target, temporal.UpdateEdit, edits.Request[Spec]{Actor: actor(), Reason: reason, Spec: spec}, &answer); err != nil {
		return err
	}
	return c.print(answer, func(w *page) { fmt.Fprintln(w, editText(target, answer)) }, target.workflowID)
}

func editText(target subject, answer edits.Answer) string {
	if len(answer.Changed) == 0 {
		return fmt.Sprintf("%s already matches the file", target)
	}
	return fmt.Sprintf("%s: changed %s; see `%s`", target, strings.Join(answer.Changed, ", "), target.show)
}

func newLockControllerApply(c *cli) *cobra.Command {
	return c.lockControllerFromFile("apply -f FILE", "Start the lock controller of a WorkloadLockPolicy, or change it if it is running",
		`Start the lock controller of a WorkloadLockPolicy, or change it if it is running, as "start" and "edit" do.`,
		func(ctx context.Context, s *server, target subject, policy *drydockv1.WorkloadLockPolicy, reason string) error {
			running, err := s.isRunning(ctx, target)
			if err != nil {
				return err
			}
			if !running {
				return c.startLockController(ctx, s, target, policy, reason)
			}
			return sendEdit(ctx, c, s, target, policy.Spec, reason)
		})
}

func newLockControllerEdit(c *cli) *cobra.Command {
	return c.lockControllerFromFile("edit -f FILE", "Change the policy of a running lock controller",
		`Change the policy of a running lock controller. The locks follow it within seconds.

The controller of a WorkloadLockPolicy in the cluster follows that object: edit it with kubectl.`,
		func(ctx context.Context, s *server, target subject, policy *drydockv1.WorkloadLockPolicy, reason string) error {
			return sendEdit(ctx, c, s, target, policy.Spec, reason)
		})
}

// lockControllerFromFile returns a command that reads a WorkloadLockPolicy.
func (c *cli) lockControllerFromFile(use, short, long string, order func(context.Context, *server, subject, *drydockv1.WorkloadLockPolicy, string) error) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			policy, err := manifest.LoadOne[*drydockv1.WorkloadLockPolicy](file, c.In)
			if err != nil {
				return inputError(err)
			}
			if err := c.requireCluster(); err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error {
				return order(ctx, s, lockController(c.cluster, policy.Spec.ControllerName), policy, reason)
			})
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
			target := onboarding()
			running, err := s.isRunning(ctx, target)
			if err != nil {
				return err
			}
			if !running {
				return c.startOnboarding(ctx, s, reason)
			}
			return c.print(applied{target.workflowID}, func(w *page) { fmt.Fprintf(w, "%s is already running\n", target) }, target.workflowID)
		}),
	}
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

// applied is the output of -o json of an apply that changed nothing.
type applied struct {
	WorkflowID string `json:"workflowID"`
}

// newOnboardingEdit returns the command that says why there is nothing to edit: every other noun has the verb.
func newOnboardingEdit(*cli) *cobra.Command {
	return &cobra.Command{
		Use: "edit", Hidden: true,
		Short: "Say what to change instead: the onboarding has no settings",
		RunE: func(*cobra.Command, []string) error {
			return usagef("the onboarding has no settings: it follows the policies of the hub and the labels of the clusters; edit those with kubectl, " +
				"then run `drydock onboarding retry CLUSTER` for clusters that failed")
		},
	}
}

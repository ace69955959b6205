package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/preflight"
	"drydock.dev/drydock/workflows/rollout"
)

func newUpgradeStart(c *cli) *cobra.Command {
	var file string
	var wait bool
	var flags startFlags
	cmd := &cobra.Command{
		Use: "start -f FILE", Aliases: []string{"create"},
		Short: "Start a rollout from a ClusterGroupUpgrade",
		Long: `Start a rollout from a ClusterGroupUpgrade.

A worker first makes the plan and previews the drains of the first clusters. The command starts nothing and fails if the plan is invalid, for example
because a cluster or a window does not exist. It warns of a drain that could not finish unless a person acts, and names closed windows that the
rollout waits for. Without a worker it warns that nothing was checked; the rollout then makes its plan when a worker runs.

The command also fails if the rollout is already running. A rollout that has ended can be started again under the same name: the new run makes
a new plan, and Temporal retains the previous run. With "enable: false" the rollout is only planned, and waits for "drydock upgrade enable".

With --wait the command follows the rollout as "status --watch" does, and exits with status 0 only if the rollout succeeded.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			return c.startRollout(ctx, object, wait, flags)
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the rollout until it ends")
	flags.addWaitForIt(cmd)
	flags.addRefuseIfBlocked(cmd)
	addReasonFlag(cmd, &flags.reason)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// addFileFlag adds the required flag -f.
func addFileFlag(cmd *cobra.Command, file *string, what string) {
	cmd.Flags().StringVarP(file, "filename", "f", "", what+"; - is standard input")
	_ = cmd.MarkFlagRequired("filename")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// loadRollout reads a ClusterGroupUpgrade from a file and sets its namespace.
func (c *cli) loadRollout(file string) (*ranv1.ClusterGroupUpgrade, error) {
	object, err := manifest.LoadOne[*ranv1.ClusterGroupUpgrade](file, c.In)
	if err != nil {
		return nil, inputError(err)
	}
	if object.Namespace != "" {
		if err := c.inNamespace(object.Namespace); err != nil {
			return nil, err
		}
	}
	object.Namespace = c.objectNamespace()
	return object, nil
}

func (c *cli) startRollout(ctx context.Context, object *ranv1.ClusterGroupUpgrade, wait bool, flags startFlags) error {
	if maintenance := object.Spec.NodeMaintenance; maintenance != nil && maintenance.DrainSpec != nil {
		maintenance.DrainSpec.RefuseIfBlocked = maintenance.DrainSpec.RefuseIfBlocked || flags.refuseIfBlocked
		flags.refuseIfBlocked = maintenance.DrainSpec.RefuseIfBlocked
	} else if flags.refuseIfBlocked {
		return usagef("--refuse-if-blocked has no effect: the rollout has no spec.nodeMaintenance.drainSpec, so it drains no node")
	}
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	target := rolloutSubject(object.Namespace, object.Name)
	if twice := namedTwice(object); twice != "" {
		c.warn("warning: %s", twice)
	}
	flags.onlyPlanned = object.Spec.Enable != nil && !*object.Spec.Enable
	if err := c.preflight(ctx, s, target, preflight.Input{Rollout: object}, flags); err != nil {
		return err
	}
	return c.runRollout(ctx, s, target, rollout.Summary(object), flags.reason, wait, rollout.Input{Object: *object, StartedBy: actor()})
}

// runRollout starts a run of a rollout, and follows it to its end if asked to.
func (c *cli) runRollout(ctx context.Context, s *server, target subject, summary, reason string, wait bool, in rollout.Input) error {
	options := temporal.ClusterGroupUpgradeOptions(in.Object.Namespace, in.Object.Name, summary)
	if in.Source != nil {
		options.Memo = map[string]any{temporal.MemoObject: *in.Source}
	}
	run, err := s.start(ctx, target, reason, options, temporal.ClusterGroupUpgrade, in)
	if err != nil {
		return err
	}
	if wait {
		c.warn("%s started", target)
		return c.watchRollout(ctx, s, target)
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
	return c.print(started, func(w *page) {
		fmt.Fprintf(w, "%s started; follow it with `%s --watch`\n", target, target.show)
	}, target.workflowID)
}

// workflowStarted names a workflow that was started.
type workflowStarted struct {
	Metadata workflowRef `json:"metadata"`
}

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
)

func newUpgradeStart(c *cli) *cobra.Command {
	var file string
	var wait bool
	cmd := &cobra.Command{
		Use:   "start -f FILE",
		Short: "Start a rollout from a ClusterGroupUpgrade",
		Long: `Start a rollout from a ClusterGroupUpgrade.

The command fails if the rollout is already running. A rollout that has ended can be started again under the same name: the new run makes
a new plan, and Temporal retains the previous run. With "enable: false" the rollout is only planned, and waits for "drydock upgrade enable".

With --wait the command follows the rollout as "status --watch" does, and exits with status 0 only if the rollout succeeded.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			return c.startRollout(ctx, object, wait)
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the rollout until it ends")
	c.addNamespaceFlag(cmd)
	c.addTimeoutFlag(cmd)
	c.addTemporalFlags(cmd)
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

func (c *cli) startRollout(ctx context.Context, object *ranv1.ClusterGroupUpgrade, wait bool) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	target := rolloutSubject(object.Namespace, object.Name)
	return c.runRollout(ctx, s, target, rollout.Summary(object), wait, rollout.Input{Object: *object, StartedBy: actor()})
}

// runRollout starts a run of a rollout, and follows it to its end if asked to.
func (c *cli) runRollout(ctx context.Context, s *server, target subject, summary string, wait bool, in rollout.Input) error {
	options := temporal.ClusterGroupUpgradeOptions(in.Object.Namespace, in.Object.Name, summary)
	if in.Source != nil {
		options.Memo = map[string]any{temporal.MemoObject: *in.Source}
	}
	run, err := s.start(ctx, target, options, temporal.ClusterGroupUpgrade, in)
	if err != nil {
		return err
	}
	if wait {
		fmt.Fprintf(c.ErrOut, "%s started\n", target)
		return c.watchRollout(ctx, s, target)
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
	return c.print(started, func(w io.Writer) {
		fmt.Fprintf(w, "%s started; follow it with `%s --watch`\n", target, target.show)
	}, target.workflowID)
}

// workflowStarted names a workflow that was started.
type workflowStarted struct {
	Metadata workflowRef `json:"metadata"`
}

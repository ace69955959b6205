package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/setup"
	"drydock.dev/drydock/internal/temporal"
)

func newSetup(c *cli) *cobra.Command {
	var where sites
	var roles []string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Prepare Temporal and clusters: search attributes, and CRDs on the named clusters",
		Long: `Prepare Temporal and clusters: search attributes, and CRDs on the named clusters.

In Temporal it registers Drydock's search attributes. On each cluster that is named by its kubeconfig context it installs the CRDs that
are missing, and brings up to date those it installed before. A CRD that someone else created is left as it is; the fields of Drydock's
that it lacks are named. On the hub it creates namespace drydock-system, in which Drydock saves holds and the final status of rollouts.
Setup may be run again at any time.

With --print-rbac it only prints roles of the worker, for kubectl apply -f -: hub for the hub, manifestworks for one whose rollouts apply
manifest works, views for one whose rollouts approve InstallPlans, precache or back up through the agents of the spokes, initiator for a
spoke, lock-controller for a spoke with managed workload locks, harbor for one with HarborClusters, preparation for one that the worker
precaches or backs up itself, install-plans for one whose InstallPlans the worker approves itself, node-annotations for one whose nodes
are maintained by annotations.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			if len(roles) > 0 {
				return printRoles(c.Out, roles)
			}
			steps, err := c.setUp(ctx, where)
			if printErr := c.print(steps, func(w *page) { printSteps(w, steps) }); printErr != nil {
				return printErr
			}
			return err
		}),
	}
	c.addSiteFlags(cmd, &where)
	cmd.Flags().StringSliceVar(&roles, "print-rbac", nil, "print these roles of the worker and do nothing else (may be repeated)")
	_ = cmd.RegisterFlagCompletionFunc("print-rbac", cobra.FixedCompletions(roleSets(), cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("print-rbac", "hub-context")
	cmd.MarkFlagsMutuallyExclusive("print-rbac", "spoke-context")
	c.addOutputFlag(cmd)
	return cmd
}

// setupStep is the result of one step of setup.
type setupStep struct {
	Where  string       `json:"where"`
	What   string       `json:"what"`
	Result setup.Result `json:"result"`
	Note   string       `json:"note,omitempty"`
}

// setUp returns the completed steps, also if one failed.
func (c *cli) setUp(ctx context.Context, where sites) ([]setupStep, error) {
	steps := []setupStep{}
	for _, place := range where.places() {
		if _, err := c.kube.config(place.context); err != nil {
			return steps, err
		}
	}
	s, err := c.dial(ctx)
	if err != nil {
		return steps, err
	}
	defer s.Close()
	added, err := temporal.RegisterSearchAttributes(ctx, s, s.namespace)
	if err != nil {
		return steps, err
	}
	steps = append(steps, searchAttributeSteps(s, added)...)
	for _, place := range where.places() {
		done, err := c.setUpCluster(ctx, place)
		steps = append(steps, done...)
		if err != nil {
			return steps, err
		}
	}
	return steps, nil
}

func searchAttributeSteps(s *server, added []string) []setupStep {
	where := "temporal namespace " + s.namespace
	if len(added) == 0 {
		return []setupStep{{Where: where, What: "search attributes", Result: setup.UpToDate}}
	}
	var steps []setupStep
	for _, name := range added {
		steps = append(steps, setupStep{Where: where, What: "search attribute " + name, Result: setup.Added})
	}
	return steps
}

// setUpCluster prepares a cluster.
func (c *cli) setUpCluster(ctx context.Context, at place) ([]setupStep, error) {
	config, err := c.kube.config(at.context)
	if err != nil {
		return nil, err
	}
	done, err := setup.Cluster(ctx, config, at.site)
	steps := []setupStep{}
	for _, step := range done {
		steps = append(steps, setupStep{Where: at.String(), What: step.What, Result: step.Result, Note: step.Note})
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return steps, err
}

func printSteps(w *page, steps []setupStep) {
	if len(steps) == 0 {
		return
	}
	t := w.newTable("WHERE", "WHAT", "RESULT", "NOTE")
	for _, step := range steps {
		t.AppendRow(table.Row{step.Where, step.What, step.Result, step.Note})
	}
	fmt.Fprintln(w, t.Render())
}

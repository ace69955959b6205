package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

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
manifest works, views for one whose rollouts approve InstallPlans through the agents of the spokes, initiator for a spoke, lock-controller
for a spoke with managed workload locks, harbor for one with HarborClusters, preparation for one with precaching or backups, install-plans
for one whose InstallPlans the worker approves itself, node-annotations for one whose nodes are maintained by annotations.`,
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
	Where string `json:"where"`
	What  string `json:"what"`
	// Result is added, upToDate or kept.
	Result string `json:"result"`
	Note   string `json:"note,omitempty"`
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
		installed, err := c.installCRDs(ctx, place)
		steps = append(steps, installed...)
		if err != nil {
			return steps, err
		}
		if place.site == hubSite {
			created, err := c.createHubNamespace(ctx, place)
			if err != nil {
				return steps, err
			}
			steps = append(steps, created)
		}
	}
	return steps, nil
}

func searchAttributeSteps(s *server, added []string) []setupStep {
	where := "temporal namespace " + s.namespace
	if len(added) == 0 {
		return []setupStep{{Where: where, What: "search attributes", Result: "upToDate"}}
	}
	var steps []setupStep
	for _, name := range added {
		steps = append(steps, setupStep{Where: where, What: "search attribute " + name, Result: "added"})
	}
	return steps
}

// installTimeout limits the time until a cluster serves a CRD.
const installTimeout = 30 * time.Second

// installCRDs installs the CRDs of a site on a cluster.
func (c *cli) installCRDs(ctx context.Context, at place) ([]setupStep, error) {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	config, err := c.kube.config(at.context)
	if err != nil {
		return nil, err
	}
	client, err := newCRDClient(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	wanted, err := definitions(at.site)
	if err != nil {
		return nil, err
	}
	var steps []setupStep
	for _, definition := range wanted {
		step := setupStep{Where: at.String(), What: "CRD " + definition.GetName()}
		state, missing, err := client.inspect(ctx, definition)
		if err != nil {
			return steps, fmt.Errorf("%s: get CRD %s: %w", at, definition.GetName(), err)
		}
		switch state {
		case crdForeign:
			step.Result, step.Note = "kept", foreignNote(missing)
		default:
			if err := client.install(ctx, definition); err != nil {
				return steps, fmt.Errorf("%s: install CRD %s: %w", at, definition.GetName(), err)
			}
			step.Result = map[crdState]string{crdMissing: "added", crdOurs: "upToDate"}[state]
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func foreignNote(missing []string) string {
	if len(missing) == 0 {
		return "another client created it"
	}
	const shown = 3
	if len(missing) > shown {
		missing = append(missing[:shown:shown], fmt.Sprintf("and %d more", len(missing)-shown))
	}
	return "another client created it, and it lacks these fields: " + joined(missing)
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

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/snapshot"
)

func newHarbor(c *cli) *cobra.Command {
	cmd := noun("harbor", "Harbor clusters: Harbor with its database, cache and storage")
	cmd.AddCommand(newHarborApply(c), newHarborStatus(c), newHarborDescribe(c), newHarborList(c), newHarborDelete(c), newHarborCancel(c), newHarborEvaluate(c))
	return cmd
}

func newHarborEvaluate(c *cli) *cobra.Command {
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "evaluate [NAME]",
		Short: "Show the health of a HarborCluster and its services, and whether Harbor may be applied",
		Long: `Show the health of a HarborCluster and its services, and whether Harbor may be applied. The command changes nothing. It
reads the objects in the cluster (--context) or in a file (--snapshot). NAME is optional if there is only one HarborCluster.

The earlier state of the services comes from the status of the HarborCluster, and so does whether its current spec is applied. A HarborCluster
that ` + "`drydock harbor apply`" + ` would refuse is an error. The exit status is 1 unless the status is healthy or creating.`,
		Args: cobra.MaximumNArgs(1),
		RunE: c.verb(func(ctx context.Context, args []string) error {
			now, err := flags.now()
			if err != nil {
				return err
			}
			reader, err := c.reader(flags)
			if err != nil {
				return err
			}
			hc, err := c.oneHarborCluster(ctx, reader, args)
			if err != nil {
				return err
			}
			if err := manifest.Complete(hc.DeepCopy()); err != nil {
				return inputError(err)
			}
			observed, err := snapshot.Harbor(ctx, reader, hc)
			if err != nil {
				return err
			}
			return c.printHarbor(hc, harbor.Evaluate(hc, harbor.Recorded(hc, observed), now))
		}),
	}
	c.addNamespaceFlag(cmd)
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// oneHarborCluster returns the named HarborCluster, or the only one, in the given namespace or in any.
func (c *cli) oneHarborCluster(ctx context.Context, reader client.Reader, args []string) (*goharborv1.HarborCluster, error) {
	var list goharborv1.HarborClusterList
	if err := reader.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("list HarborClusters: %w", err)
	}
	var names []string
	var found []*goharborv1.HarborCluster
	for i := range list.Items {
		hc := &list.Items[i]
		names = append(names, hc.Namespace+"/"+hc.Name)
		if len(args) == 0 || args[0] == hc.Name || args[0] == hc.Namespace+"/"+hc.Name {
			found = append(found, hc)
		}
	}
	slices.Sort(names)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, usagef("several HarborClusters found: name one of %s", joined(names))
	case len(args) == 0:
		return nil, inputError(fmt.Errorf("no HarborCluster found"))
	}
	return nil, inputError(fmt.Errorf("HarborCluster %s not found; there are: %s", args[0], joined(names)))
}

func (c *cli) printHarbor(hc *goharborv1.HarborCluster, evaluation harbor.Evaluation) error {
	name := hc.Namespace + "/" + hc.Name
	if err := c.print(evaluation, func(w *page) { renderHarbor(w, name, evaluation) }, name); err != nil {
		return err
	}
	if evaluation.Status == goharborv1.StatusUnhealthy {
		return fmt.Errorf("HarborCluster %s is unhealthy", name)
	}
	return nil
}

func renderHarbor(w *page, name string, evaluation harbor.Evaluation) {
	apply := "no: database, cache and storage are not all ready"
	if evaluation.ApplyHarbor {
		apply = "yes"
	}
	fmt.Fprintf(w, "HarborCluster %s: %s\napply Harbor: %s\n", name, evaluation.Status, apply)
	t := w.newTable("CONDITION", "STATUS", "REASON", "MESSAGE")
	for _, condition := range evaluation.Conditions {
		t.AppendRow(table.Row{condition.Type, condition.Status, condition.Reason, condition.Message})
	}
	fmt.Fprintln(w, t.Render())
}

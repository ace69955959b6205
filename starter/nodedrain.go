package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

func newNodePreview(c *cli) *cobra.Command {
	var file string
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "preview NODE",
		Short: "Show what a drain would do with each pod of a node: evict, skip or block",
		Long: `Show what a drain would do with each pod of a node: evict, skip or block. The command changes nothing. It decides from the objects in
the cluster (--context) or in a file (--snapshot), with the same function as a real drain. To drain a node, use "drydock node maintain".

With -f the drain is the one that a NodeMaintenance specifies. Without -f it has the defaults: pods without a controller and pods with
emptyDir volumes block it. The exit status is 1 if a pod blocks the drain.`,
		Args:              operands("NODE"),
		ValidArgsFunction: c.completeNodes,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			return c.previewDrain(ctx, args[0], file, flags)
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the NodeMaintenance to preview; - is standard input")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// newNodeDrain is the former name of preview, which needs --dry-run, so that a user does not expect it to drain the node.
func newNodeDrain(c *cli) *cobra.Command {
	cmd := newNodePreview(c)
	cmd.Use, cmd.Hidden = "drain NODE --dry-run", true
	dryRun := cmd.Flags().Bool("dry-run", false, "show the preview; required")
	preview := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*dryRun {
			return usagef("drain is only a preview, which is `drydock node preview %s`; to take the node out of service, use `drydock node maintain %[1]s`", args[0])
		}
		return preview(cmd, args)
	}
	return cmd
}

func (c *cli) previewDrain(ctx context.Context, node, file string, flags decisionFlags) error {
	now, err := flags.now()
	if err != nil {
		return err
	}
	spec, err := c.drainSpec(node, file)
	if err != nil {
		return err
	}
	reader, err := c.reader(flags)
	if err != nil {
		return err
	}
	objects, err := drain.Read(ctx, reader, node)
	if err != nil {
		return err
	}
	preview, err := drain.Decide(ctx, node, objects, spec, now)
	if temporal.ErrorType(err) == temporal.ErrInvalidSpec {
		return inputError(errors.New(temporal.ErrorMessage(err)))
	}
	if temporal.ErrorType(err) == temporal.ErrNotFound {
		return fmt.Errorf("%s in %s", temporal.ErrorMessage(err), c.source(flags))
	}
	if err != nil {
		return errors.New(temporal.ErrorMessage(err))
	}
	leaving := []string{}
	for _, pod := range preview.Pods {
		if pod.Action == drain.Evict {
			leaving = append(leaving, pod.Namespace+"/"+pod.Name)
		}
	}
	if err := c.print(preview, func(w *page) { renderPreview(w, node, preview) }, leaving...); err != nil {
		return err
	}
	if !preview.Drainable {
		return fmt.Errorf("node %s cannot be drained: %s", node, preview.Blocked())
	}
	return nil
}

// drainSpec returns the drain of the NodeMaintenance in a file, or the defaults.
func (c *cli) drainSpec(node, file string) (maintenancev1.DrainSpec, error) {
	if file == "" {
		return maintenancev1.DrainSpec{}, nil
	}
	object, err := manifest.LoadOne[*maintenancev1.NodeMaintenance](file, c.In)
	if err != nil {
		return maintenancev1.DrainSpec{}, inputError(err)
	}
	if object.Spec.NodeName != node {
		return maintenancev1.DrainSpec{}, inputError(fmt.Errorf("%s: spec.nodeName is %s, not %s", file, object.Spec.NodeName, node))
	}
	if object.Spec.DrainSpec == nil {
		return maintenancev1.DrainSpec{}, inputError(fmt.Errorf("%s: spec.drainSpec is not set, so this maintenance does not drain the node", file))
	}
	return *object.Spec.DrainSpec, nil
}

func renderPreview(w *page, node string, preview drain.Preview) {
	if len(preview.Pods) == 0 {
		fmt.Fprintf(w, "no pods on node %s\n", node)
		return
	}
	pods := slices.Clone(preview.Pods)
	slices.SortStableFunc(pods, func(a, b drain.Decision) int { return cmp.Compare(a.Order, b.Order) })
	oneOrder := pods[0].Order == pods[len(pods)-1].Order
	t := w.newTable("ORDER", "NAMESPACE", "POD", "ACTION", "REASON", "OWNER", "BUDGETS", "NOTE")
	if oneOrder {
		t.hide(1)
	}
	counts, waiting := map[drain.Action]int{}, 0
	for _, pod := range pods {
		counts[pod.Action]++
		if pod.Action == drain.Evict && pod.Reason == drain.ReasonDisruptionBudget {
			waiting++
		}
		budgets := ""
		if len(pod.Budgets) > 0 {
			budgets = joined(pod.Budgets)
		}
		t.AppendRow(table.Row{pod.Order, pod.Namespace, pod.Name, pod.Action, pod.Reason, pod.Owner, budgets, pod.Message})
	}
	fmt.Fprintln(w, t.Render())
	waits := ""
	if waiting > 0 {
		waits = fmt.Sprintf(" (%d once the budget allows it)", waiting)
	}
	fmt.Fprintf(w, "%s: %d to evict%s, %d to skip, %d blocking\n", plural(len(pods), "pod"),
		counts[drain.Evict], waits, counts[drain.Skip], counts[drain.Block])
}

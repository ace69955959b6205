package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/workflows/preflight"
)

func newUpgradePlan(c *cli) *cobra.Command {
	var file string
	var flags decisionFlags
	var drains bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show which clusters a rollout would upgrade, in which batches",
		Long: `Show which clusters a rollout would upgrade, in which batches. The command starts nothing. It plans from the objects on the hub (--context)
or in a file (--snapshot), with the same function as the rollout, and notes which clusters are offline now. It does not check the
workers: a missing Job image or missing credentials for a cluster show up only in the rollout. With preCaching it shows which images the
rollout pulls, and which objects name them; only the rollout looks up the image of a version in its update graph.

With --drains a worker makes the plan, and also previews the drain of each node of the first clusters: how many pods it would evict, and which would
block it. Then the command needs Temporal, and no credentials of the hub.

The exit status is 1 if the plan is invalid; the conditions give the reason.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			now, err := flags.now()
			if err != nil {
				return err
			}
			object, err := c.loadRollout(file)
			if err != nil {
				return err
			}
			if drains {
				return c.planDrains(ctx, object, flags)
			}
			reader, err := c.reader(flags)
			if err != nil {
				return err
			}
			inventory, err := snapshot.Inventory(ctx, reader, object, now)
			if meta.IsNoMatchError(err) {
				return fmt.Errorf("%s does not serve ManagedClusters (cluster.open-cluster-management.io/v1): name the context of the hub", c.source(flags))
			}
			if err != nil {
				return flags.unreadable(err)
			}
			if inventory.Rollouts, err = snapshot.Rollouts(ctx, reader, object); err != nil {
				return flags.unreadable(err)
			}
			return c.printPlan(object, rollout.NewPlan(object, inventory, now))
		}),
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade")
	c.addNamespaceFlag(cmd)
	c.addDecisionFlags(cmd, &flags, "the hub")
	cmd.Flags().BoolVar(&drains, "drains", false, "let a worker make the plan, and preview the drains")
	c.addOutputFlag(cmd)
	return cmd
}

// planDrains lets a worker make the plan and preview the drains.
func (c *cli) planDrains(ctx context.Context, object *ranv1.ClusterGroupUpgrade, flags decisionFlags) error {
	if flags.snapshot != "" || flags.at != "" {
		return usagef("--drains is answered by a worker from the clusters: leave out --snapshot and --at")
	}
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	target := rolloutSubject(object.Namespace, object.Name)
	found, err := s.check(ctx, target, preflight.Input{Rollout: object})
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	nodes := make([]string, 0, len(found.Drains))
	for _, drain := range found.Drains {
		nodes = append(nodes, drain.Cluster+"/"+drain.Node)
	}
	show := func(w *page) {
		if found.Plan != nil {
			renderPlan(w, object, *found.Plan)
		}
		for _, window := range found.Closed {
			fmt.Fprintln(w, closedWindow(window, w.now))
		}
		renderDrains(w, found)
	}
	if err := c.print(found, show, nodes...); err != nil {
		return err
	}
	if len(found.Problems) > 0 {
		return fmt.Errorf("%s cannot start: %s", target, strings.Join(found.Problems, "; "))
	}
	return nil
}

// printPlan prints the plan. An invalid plan is also an error.
func (c *cli) printPlan(object *ranv1.ClusterGroupUpgrade, plan rollout.Plan) error {
	clusters := slices.Concat(plan.RemediationPlan...)
	if err := c.print(plan, func(w *page) { renderPlan(w, object, plan) }, clusters...); err != nil {
		return err
	}
	if !plan.Valid() {
		return fmt.Errorf("rollout %s/%s cannot start: %s", object.Namespace, object.Name, strings.Join(plan.Problems(), "; "))
	}
	return nil
}

func renderPlan(w *page, object *ranv1.ClusterGroupUpgrade, plan rollout.Plan) {
	if !plan.Valid() {
		return // the error has the details
	}
	clusters := len(slices.Concat(plan.RemediationPlan...))
	fmt.Fprintf(w, "rollout %s/%s: %s in %s, at most %d at once\n", object.Namespace, object.Name, plural(clusters, "cluster"),
		pluralOf(len(plan.RemediationPlan), "batch", "batches"), plan.ComputedMaxConcurrency)
	if clusters+len(plan.Skipped) == 0 {
		fmt.Fprintln(w, "no cluster is selected, so the rollout would do nothing and end as Completed; see spec.clusters, spec.clusterLabelSelectors and spec.clusterSelector")
	}
	t := w.newTable("BATCH", "CLUSTER", "NOTE")
	for i, batch := range plan.RemediationPlan {
		for j, cluster := range batch {
			row := table.Row{"", cluster, planNote(object, plan, cluster)}
			if j == 0 {
				row[0] = fmt.Sprint(i + 1)
			}
			t.AppendRow(row)
		}
	}
	for _, skipped := range plan.Skipped {
		t.AppendRow(table.Row{"skipped", skipped.Cluster, skipped.Reason + ": " + skipped.Message})
	}
	if t.Length() > 0 {
		fmt.Fprintln(w, t.Render())
	}
	renderPrecaching(w, plan)
	if twice := namedTwice(object); twice != "" {
		fmt.Fprintln(w, twice)
	}
	if plan.ComputedMaxFailures == 0 && clusters > 1 {
		fmt.Fprintln(w, "no limit on failures: after a failed cluster the next one starts; spec.remediationStrategy.maxFailures sets a limit")
	}
	if enforcement := plan.PolicyEnforcement; enforcement != nil && clusters > 0 {
		fmt.Fprintln(w, enforcementNote(*enforcement))
	}
	if len(plan.ManagedPoliciesCompliantBeforeUpgrade) > 0 {
		fmt.Fprintf(w, "left out because every cluster already complies: %s\n", joined(plan.ManagedPoliciesCompliantBeforeUpgrade))
	}
}

// enforcementNote says how the policies of a plan are enforced.
func enforcementNote(enforcement ranv1.EnforcementStatus) string {
	how := "copies of them in the rollout's namespace"
	if enforcement.By == ranv1.EnforceOverride {
		how = "binding overrides in their namespaces"
	}
	return fmt.Sprintf("policies are enforced with %s (policyEnforcement %s, with %ss)", how, enforcement.By, enforcement.Placements)
}

// namedTwice says which clusters a rollout names more than once; empty: none.
func namedTwice(object *ranv1.ClusterGroupUpgrade) string {
	twice := repeated(object.Spec.Clusters)
	if len(twice) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.clusters names %s more than once: each cluster is upgraded once", joined(twice))
}

// repeated returns the names that a list has more than once.
func repeated(names []string) []string {
	sorted := slices.Sorted(slices.Values(names))
	var twice []string
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			twice = append(twice, sorted[i])
		}
	}
	return slices.Compact(twice)
}

// planNote notes that a cluster is a canary, with which policy it starts, and whether it is offline.
func planNote(object *ranv1.ClusterGroupUpgrade, plan rollout.Plan, cluster string) string {
	var notes []string
	if slices.Contains(object.Spec.RemediationStrategy.Canaries, cluster) {
		notes = append(notes, "canary")
	}
	if start, known := plan.StartPolicyIndex[cluster]; known {
		notes = append(notes, "from policy "+plan.ManagedPoliciesForUpgrade[start])
	}
	if slices.Contains(plan.Offline, cluster) {
		notes = append(notes, "offline now")
	}
	return strings.Join(notes, ", ")
}

package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// completionTimeout keeps the shell responsive when a server is far away.
const completionTimeout = 2 * time.Second

// completionLimit is the maximum number of workflows that a completion reads.
const completionLimit = 1000

// completeOne completes the first argument with names. It ignores errors, which a shell could not show.
func completeOne(names func(ctx context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeFlag(names)(cmd, args, typed)
	}
}

// completeFlag completes the value of a flag with names.
func completeFlag(names func(ctx context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		found := slices.DeleteFunc(names(ctx), func(name string) bool { return name == "" || !strings.HasPrefix(name, typed) })
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeValues completes the value of a flag that is one of an enumeration.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	// An error is impossible: the flag exists.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// rowNames returns a name of each workflow that a visibility query finds.
func (c *cli) rowNames(ctx context.Context, query string, name func(workflowRow) string) []string {
	if c.useContext() != nil {
		return nil
	}
	s, err := c.dial(ctx)
	if err != nil {
		return nil
	}
	defer s.Close()
	executions, err := observe.Executions(ctx, s, query, completionLimit)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(executions))
	for _, execution := range executions {
		names = append(names, name(workflowRow{Row: observe.NewRow(execution)}))
	}
	return names
}

// completeNamed completes the names of the workflows of a type, in the cluster of --cluster if there is one.
func (c *cli) completeNamed(workflowType string, running bool) cobra.CompletionFunc {
	return completeOne(func(ctx context.Context) []string {
		return c.rowNames(ctx, observe.WorkflowsOf(workflowType, running), func(row workflowRow) string {
			if row.Cluster != "" && c.cluster != "" && row.Cluster != c.cluster {
				return ""
			}
			return strings.TrimPrefix(row.Namespace+"/"+row.Name, "/")
		})
	})
}

// completeClusters completes the clusters that Drydock works on: each has a sweeper, a scheduler or other work.
func (c *cli) completeClusters(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFlag(func(ctx context.Context) []string {
		query := "ExecutionStatus = 'Running' AND " + temporal.AttributeCluster.GetName() + " IS NOT NULL AND WorkflowType IN ('" +
			strings.Join([]string{temporal.Sweeper, temporal.MaintenanceScheduler, temporal.HarborCluster, temporal.WorkloadLockController}, "', '") + "')"
		return c.rowNames(ctx, query, func(row workflowRow) string { return row.Cluster })
	})(cmd, args, typed)
}

// completeNamespaces completes the namespaces of rollouts, maintenances, windows and Harbors.
func (c *cli) completeNamespaces(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFlag(func(ctx context.Context) []string {
		query := "ExecutionStatus = 'Running' AND WorkflowType IN ('" +
			strings.Join([]string{temporal.ClusterGroupUpgrade, temporal.NodeMaintenance, temporal.MaintenanceWindow, temporal.HarborCluster}, "', '") + "')"
		return c.rowNames(ctx, query, func(row workflowRow) string { return row.Namespace })
	})(cmd, args, typed)
}

// completeRequestors completes the requestors of running maintenances.
func (c *cli) completeRequestors(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFlag(func(ctx context.Context) []string {
		return c.rowNames(ctx, observe.WorkflowsOf(temporal.NodeMaintenance, true), func(row workflowRow) string { return row.Requestor })
	})(cmd, args, typed)
}

// completeMaintenances completes the names of running maintenances.
func (c *cli) completeMaintenances(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeNamed(temporal.NodeMaintenance, true)(cmd, args, typed)
}

// completeContexts completes the contexts of the kubeconfig.
func (c *cli) completeContexts(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFlag(func(context.Context) []string {
		known, err := c.kube.loader("").RawConfig()
		if err != nil {
			return nil
		}
		return slices.Collect(maps.Keys(known.Contexts))
	})(cmd, args, typed)
}

// completeNodes completes the nodes of the kubeconfig's cluster.
func (c *cli) completeNodes(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(func(ctx context.Context) []string {
		c.timeout = completionTimeout
		reader, err := c.reader(decisionFlags{})
		var nodes corev1.NodeList
		if err != nil || reader.List(ctx, &nodes) != nil {
			return nil
		}
		var names []string
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		return names
	})(cmd, args, typed)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/propagator"
)

const (
	// crdDir has the CRDs of every cluster of the stack.
	crdDir = "deploy/crds"
	// hubCRDDir has the CRDs of other projects on a hub, such as ManagedCluster, in a form for tests.
	hubCRDDir = "deploy/crds/testing"
	// complianceTakes is how long a cluster takes to comply with a policy that is enforced.
	complianceTakes = 3 * time.Second
)

func newUpCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start one hub with a simulated policy propagator, three spokes and Temporal, and print how to reach them, until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), dir, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "an empty directory for logs, kubeconfigs and data, kept afterwards (default: a temporary one)")
	return cmd
}

func up(ctx context.Context, dir string, out, progress io.Writer) error {
	began := time.Now()
	stack, err := devstack.Start(ctx, hubAndSpokes(dir, progress))
	if err != nil {
		return err
	}
	policies, err := propagator.Start(ctx, stack.Cluster("hub").Config, propagator.Options{Takes: func(string, string) time.Duration { return complianceTakes }})
	if err != nil {
		return errors.Join(err, stack.Stop())
	}
	defer policies.Stop()
	fmt.Fprintf(out, "The local stack is up after %s.\n\n", time.Since(began).Round(100*time.Millisecond))
	describe(out, stack)
	fmt.Fprintln(out, "\nCtrl-C stops it.")
	select {
	case <-ctx.Done():
		fmt.Fprintln(progress, "stopping")
	case <-stack.Done(): // a server has exited: Stop names it
	}
	return stack.Stop()
}

// hubAndSpokes is one hub, and three spokes with a control-plane node and three workers each.
func hubAndSpokes(dir string, progress io.Writer) devstack.Options {
	options := devstack.Options{
		Dir:      dir,
		Clusters: []devstack.ClusterOptions{{Name: "hub", CRDs: []string{crdDir, hubCRDDir}, ControlPlaneOnly: true}},
		Temporal: &devstack.TemporalOptions{WebUI: true},
		Output:   progress,
	}
	for _, name := range []string{"spoke-1", "spoke-2", "spoke-3"} {
		options.Clusters = append(options.Clusters, devstack.ClusterOptions{
			Name:  name,
			CRDs:  []string{crdDir},
			Nodes: devstack.Nodes(1, 3),
		})
	}
	return options
}

// describe prints how to reach the parts of a stack.
func describe(out io.Writer, stack *devstack.Stack) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "Temporal Web UI\t%s\n", stack.Temporal.UIAddress)
	fmt.Fprintf(table, "Temporal\texport TEMPORAL_ADDRESS=%s\n", stack.Temporal.Address)
	var all []string
	for _, cluster := range stack.Clusters() {
		fmt.Fprintf(table, "cluster %s\texport KUBECONFIG=%s\n", cluster.Name, cluster.KubeconfigFile)
		all = append(all, cluster.KubeconfigFile)
	}
	fmt.Fprintf(table, "all, as contexts\texport KUBECONFIG=%s\n", strings.Join(all, string(filepath.ListSeparator)))
	fmt.Fprintf(table, "policies\tsimulated: a cluster complies %s after a policy of the hub is enforced on it\n", complianceTakes)
	fmt.Fprintf(table, "logs\t%s\n", stack.Dir)
	table.Flush()
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/bench"
)

func newBenchCommand() *cobra.Command {
	var sizes []string
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure rollouts, and compare them with a plain loop and kubectl drain",
		Long: `Measure rollouts, and compare them with a plain loop and kubectl drain on the same nodes.

Every size is measured on its own fleet: one cluster whose nodes KWOK simulates, and a Temporal server in memory. Policies are rolled out on a hub with
simulated clusters, which comply as soon as a policy is enforced on them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), sizes, jsonFile, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(&sizes, "sizes", bench.DefaultSizes().Strings(),
		"sizes as NODESxPODS@ATONCE, or NODESxPODS@ATONCE*ROUNDS, with /drain without jobs, with /objects or /workflows for requests from outside, with /alone without the loop and kubectl for comparison; or as CLUSTERSxPOLICIES@ATONCE/policies, or with /postgresql/policies on Temporal as in production; as CLUSTERS/harbors; as WINDOWSxMAINTENANCES/windows; as MAINTENANCESxROLLOUTS/finished, for a worker that starts with that many finished objects; as REQUESTSxNODES@ATONCE/queue, for objects that wait for slots; as CLUSTERS/clusters or CLUSTERSxNODES@ATONCE/clusters, for a worker with many simulated clusters, or with /postgresql/clusters; pace: how fast policy rollouts continue")
	cmd.Flags().StringVar(&jsonFile, "json", "", "also write the results to this file, as JSON")
	return cmd
}

func newBenchGuardCommand() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "bench-guard FILE",
		Short: "Measure what a node costs in events, activities, API requests and CPU time, and compare it with the baseline in a file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Guard(cmd.Context(), args[0], write, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "replace the baseline")
	return cmd
}

func runBench(ctx context.Context, sizes []string, jsonFile string, out, progress io.Writer) error {
	parsed, err := bench.ParseSizes(sizes)
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, parsed, progress)
	if err != nil {
		return err
	}
	report.Print(out)
	if jsonFile == "" {
		return nil
	}
	content, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(jsonFile, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

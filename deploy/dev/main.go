// Command dev runs the local stack: the real servers for tests, the demo and benchmarks.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Discard the logs of client libraries. Their calls return errors.
	ctrllog.SetLogger(logr.Discard())
	root := &cobra.Command{
		Use:           "dev",
		Short:         "The local stack: real Kubernetes clusters and a Temporal server on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newProgramsCommand(), newUpCommand(), newDemoCommand(), newBenchCommand(), newBenchGuardCommand(), newHistoriesCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

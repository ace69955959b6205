// Command drydock is the CLI: it starts, queries and signals Drydock's workflows, and shows decisions offline.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // time zones, where the system has none

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

// Exit statuses.
const (
	exitDone = iota
	// exitFailed: the command failed, was refused, or found something unhealthy.
	exitFailed
	// exitUsage: the command line or an input file is invalid. Nothing was started.
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, isPlugin(os.Args[0]), os.Args[1:])
	stop()
	os.Exit(status)
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, streams genericiooptions.IOStreams, plugin bool, args []string) int {
	c := &cli{IOStreams: streams, plugin: plugin}
	root := newRoot(c)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// Only an input file can have several problems; each gets its own line.
	if invalid, ok := errors.AsType[manifest.Invalid](err); ok {
		for _, problem := range invalid {
			c.warn("error: %s", problem.String())
		}
		return exitUsage
	}
	message := strings.TrimSpace(strings.NewReplacer(":\n", ": ", "\n", "; ").Replace(temporal.PlainText(err.Error())))
	wrong, isUsage := errors.AsType[usageError](err)
	switch {
	case errors.Is(err, errPrinted):
		return exitFailed
	case isUsage && wrong.input:
		c.warn("error: %s", message)
		return exitUsage
	case isUsage || !c.parsed:
		c.warn("error: %s (see %s --help)", message, command.CommandPath())
		return exitUsage
	}
	c.warn("error: %s", message)
	return exitFailed
}

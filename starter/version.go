package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	buildversion "drydock.dev/drydock/internal/version"
)

// version is set by the linker (see the Makefile).
var version string

// readBuild describes this program.
func readBuild() buildversion.Build { return buildversion.Running(version) }

// programVersion is the version of this program.
func programVersion() string { return readBuild().Version }

func newVersion(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, with its commit and date",
		Args:  operands(),
		RunE: c.plainVerb(func(context.Context, []string) error {
			built := readBuild()
			return c.print(built, func(w *page) { fmt.Fprintf(w, "drydock %s\n", built) }, built.Version)
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (see the Makefile).
var version string

// programVersion is the version of this build: the linker's, or that of the module.
func programVersion() string {
	if version != "" {
		return version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "unknown"
}

func newVersion(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  operands(),
		RunE: c.verb(func(context.Context, []string) error {
			built := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{programVersion(), runtime.Version()}
			return c.print(built, func(w io.Writer) {
				fmt.Fprintf(w, "drydock %s (%s)\n", built.Version, built.Go)
			}, built.Version)
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// version is set by the linker (see the Makefile).
var version string

// build describes the program.
type build struct {
	Version string `json:"version"`
	// Commit and Date are those of the source, if it was built from a repository; Modified means that it had other changes, too.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// readBuild describes this program.
func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, version)
}

// buildOf describes a program from what Go's linker recorded; linked is the version that the Makefile sets.
func buildOf(info *debug.BuildInfo, linked string) build {
	b := build{Version: cmp.Or(linked, info.Main.Version, "unknown"), Go: runtime.Version()}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Date = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

// programVersion is the version of this program.
func programVersion() string { return readBuild().Version }

// String is e.g. "v1.2.0 (commit 1234567, 2026-11-20T12:00:00Z, go1.26.0)".
func (b build) String() string {
	var parts []string
	if b.Commit != "" {
		commit := "commit " + b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			commit += " with changes"
		}
		parts = append(parts, commit)
	}
	if b.Date != "" {
		parts = append(parts, b.Date)
	}
	return fmt.Sprintf("%s (%s)", b.Version, strings.Join(append(parts, b.Go), ", "))
}

// date is the date of the source; nil if it is not known.
func (b build) date() *time.Time {
	at, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		at = time.Unix(0, 0).UTC() // the pages of one build are always the same
	}
	return &at
}

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

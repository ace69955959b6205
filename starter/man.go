package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write a man page for each command to a directory",
		Args:  operands("DIRECTORY"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: c.plainVerb(func(_ context.Context, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			built := readBuild()
			date := built.SourceDate() // the pages of one build are always the same
			root := newRoot(&cli{IOStreams: c.IOStreams})
			root.DisableAutoGenTag = true // it has the date
			header := &doc.GenManHeader{Section: "1", Source: "drydock " + built.Version, Manual: "Drydock", Date: &date}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return err
			}
			return c.say("wrote the man pages to %s; read one with `man -l %s`; in a directory man1 of MANPATH, `man drydock` finds them", args[0], filepath.Join(args[0], "drydock.1"))
		}),
	}
}

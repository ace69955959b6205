// Command drydock-prepare is the program in the Jobs of precaching and backup. It runs on a node of the cluster that they prepare.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/precache/contract"
	"drydock.dev/drydock/internal/prepare/backup"
	"drydock.dev/drydock/internal/prepare/content"
	"drydock.dev/drydock/internal/prepare/pull"
	buildversion "drydock.dev/drydock/internal/version"
)

// version is set by the linker (see the Makefile).
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := newCommand()
	// The Job of precaching runs the program under this name.
	if os.Args[0] == contract.PrecacheProgram || filepath.Base(os.Args[0]) == filepath.Base(contract.PrecacheProgram) {
		command.SetArgs([]string{"precache"})
	}
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "drydock-prepare",
		Short:         "Precache images on a node, or back it up",
		Version:       buildversion.Running(version).String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(precacheCommand(), backupCommand(), readReleaseCommand(), readCatalogCommand())
	return root
}

func precacheCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "precache",
		Short: "Pull the images that the ConfigMap names",
		Long: `Pull the images that the ConfigMap names, with the container runtime of the node.

Under the name precache.sh, the program runs this command.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := precacheSettings()
			if err != nil {
				return err
			}
			return pull.Run(cmd.Context(), settings, cmd.ErrOrStderr())
		},
	}
}

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "backup",
		Aliases: []string{contract.BackupArgument},
		Short:   "Back up etcd and the files of a control-plane node",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return backup.Run(cmd.Context(), backupSettings(), cmd.ErrOrStderr())
		},
	}
}

func readReleaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    pull.ReadReleaseCommand + " SHARED-DIRECTORY",
		Short:  "List the images of the release image that is the root file system",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return pull.ReadRelease(args[0])
		},
	}
}

func readCatalogCommand() *cobra.Command {
	return &cobra.Command{
		Use:    pull.ReadCatalogCommand + " SHARED-DIRECTORY CATALOG-DIRECTORY PACKAGE:CHANNEL...",
		Short:  "List the images of packages in the index image that is the root file system",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var wanted []content.Package
			for _, entry := range args[2:] {
				name, channel, valid := contract.PackageAndChannel(entry)
				if !valid {
					return fmt.Errorf("%q must be package:channel", entry)
				}
				wanted = append(wanted, content.Package{Name: name, Channel: channel})
			}
			return pull.ReadCatalog(args[0], args[1], wanted)
		},
	}
}

package main

import (
	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/devstack"
)

func newProgramsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "programs",
		Short: "Build the servers of the local stack that are missing or were built from other pins",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return devstack.EnsurePrograms(cmd.Context(), cmd.ErrOrStderr())
		},
	}
}

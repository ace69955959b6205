// Command images builds the container images of Drydock without a container daemon, each into an OCI image layout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var b builder
	var platforms []string
	cmd := &cobra.Command{
		Use:           "images",
		Short:         "Build Drydock's container images into OCI image layouts",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, text := range platforms {
				platform, err := v1.ParsePlatform(text)
				if err != nil || platform.OS != "linux" || platform.Architecture == "" {
					return fmt.Errorf("--platforms: %q is not a platform such as linux/amd64", text)
				}
				b.platforms = append(b.platforms, *platform)
			}
			for _, image := range images {
				built, err := b.build(cmd.Context(), image)
				if err != nil {
					return fmt.Errorf("build the image of %s: %w", image.source.Name, err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), built)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	b.AddFlags(flags)
	flags.StringVar(&b.out, "out", "bin/images", "directory of the layouts, one for each image")
	flags.StringVar(&b.registry, "registry", "", "also push the images there, e.g. registry.example.com/drydock, with the credentials that docker login or podman login saved")
	flags.StringVar(&b.revision, "revision", "", "commit that the programs are built from")
	flags.StringSliceVar(&platforms, "platforms", []string{"linux/amd64", "linux/arm64"}, "platforms of each image")
	cmd.AddCommand(newRootCommand())
	return cmd
}

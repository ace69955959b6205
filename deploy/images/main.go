// Command images builds the container images of Drydock without a container daemon, each into an OCI image layout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	var created int64
	cmd := &cobra.Command{
		Use:           "images",
		Short:         "Build Drydock's container images into OCI image layouts",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.created = time.Unix(created, 0).UTC()
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
	flags.StringVar(&b.root, "root", ".", "the repository")
	flags.StringVar(&b.out, "out", "bin/images", "directory of the layouts, one for each image")
	flags.StringVar(&b.registry, "registry", "", "also push the images there, e.g. registry.example.com/drydock, with the credentials that docker login or podman login saved")
	flags.StringVar(&b.sbomTool, "sbom-tool", "bin/tools/cyclonedx-gomod", "program that lists the modules in a program")
	flags.StringVar(&b.version, "version", "unknown", "version of the programs and tag of the images")
	flags.StringVar(&b.revision, "revision", "", "commit that the programs are built from")
	flags.Int64Var(&created, "created", 0, "time of creation in seconds since 1970, the same for the same commit so that builds are reproducible")
	flags.StringSliceVar(&platforms, "platforms", []string{"linux/amd64", "linux/arm64"}, "platforms of each image")
	return cmd
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
)

// newRootCommand returns the command that the Dockerfile runs.
func newRootCommand() *cobra.Command {
	var b builder
	var architecture string
	cmd := &cobra.Command{
		Use:   "root IMAGE DIR",
		Short: "Write the files of one image into a directory",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.IndexFunc(images, func(image image) bool { return image.source.Name == args[0] })
			if i < 0 {
				return fmt.Errorf("there is no image %q", args[0])
			}
			program, err := b.compile(cmd.Context(), images[i], v1.Platform{OS: "linux", Architecture: architecture})
			if err != nil {
				return err
			}
			return writeRoot(args[1], images[i], program)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&b.Root, "root", ".", "the repository")
	flags.StringVar(&b.out, "out", "bin/images", "directory of the compiled programs")
	flags.StringVar(&b.Version, "version", "unknown", "version of the programs")
	flags.StringVar(&architecture, "architecture", runtime.GOARCH, "architecture of the program")
	return cmd
}

// writeRoot writes the files of an image into a directory.
func writeRoot(dir string, image image, program string) error {
	layers, err := layers(image, program)
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(layers...) {
		path := filepath.Join(dir, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if f.target != "" {
			err = os.Symlink(f.target, path)
		} else {
			err = os.WriteFile(path, f.content, os.FileMode(f.mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

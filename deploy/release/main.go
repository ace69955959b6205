// Command release builds the files of a release: archives of the programs with their SBOMs, the chart, image layouts, checksums, manifests of krew and
// Homebrew, and the notes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"drydock.dev/drydock/internal/gobuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand(gobuild.CLI(), gobuild.Worker(), gobuild.Standalone()).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// release is what the files are made of.
type release struct {
	gobuild.Builder
	// number is the version without the v.
	number string
	// out is the directory of the files, and url the one from which users get them.
	out, url string
	// changelog has the notes. docs replaces the beginning of its relative links.
	changelog, docs string
	chart, images   string
	// registry has the images, such as registry.example.com/drydock; empty: users say where they are.
	registry  string
	platforms []string
	programs  []gobuild.Program
	// checkOnly: nothing is built.
	checkOnly bool
}

// newCommand returns the command for a release with archives of these programs.
func newCommand(programs ...gobuild.Program) *cobra.Command {
	r := release{programs: programs}
	cmd := &cobra.Command{
		Use:          "release",
		Short:        "Build the files of a release",
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if parsed, err := version.ParseSemantic(r.Version); err != nil || !strings.HasPrefix(r.Version, "v") || "v"+parsed.String() != r.Version {
				return fmt.Errorf("--version %q is not a version such as v0.1.0", r.Version)
			}
			r.number, r.url = strings.TrimPrefix(r.Version, "v"), strings.TrimSuffix(r.url, "/")
			return r.build(cmd.Context())
		},
	}
	flags := cmd.Flags()
	r.AddFlags(flags)
	flags.StringVar(&r.url, "url", "", "URL of the directory from which users get the files")
	flags.StringVar(&r.out, "out", "bin/release", "directory of the files; it must be empty, or not exist")
	flags.StringVar(&r.changelog, "changelog", "docs/CHANGELOG.md", "file with the notes of the release")
	flags.StringVar(&r.docs, "docs-url", "", "URL of the directory docs, for relative links in the notes")
	flags.StringVar(&r.chart, "chart", "", "package of the chart")
	flags.StringVar(&r.registry, "registry", "", "registry from which the chart takes the images, e.g. registry.example.com/drydock")
	flags.StringVar(&r.images, "images", "", "directory with the image layouts")
	flags.StringSliceVar(&r.platforms, "platforms", []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}, "platforms of the archives")
	flags.BoolVar(&r.checkOnly, "check", false, "only check the version and the notes")
	for _, flag := range []string{"version", "url"} {
		_ = cmd.MarkFlagRequired(flag)
	}
	return cmd
}

// build writes all files. The notes come first, because they are what is forgotten.
func (r release) build(ctx context.Context) error {
	if entries, err := os.ReadDir(r.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("--out %s: the directory is not empty", r.out)
	}
	notes, err := r.notes()
	if err != nil || r.checkOnly {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, program := range r.programs {
		for _, platform := range r.platforms {
			if err := r.archive(ctx, program, platform); err != nil {
				return err
			}
		}
	}
	if err := r.packChart(); err != nil {
		return err
	}
	if err := r.packImages(); err != nil {
		return err
	}
	sums, err := r.checksums()
	if err != nil {
		return err
	}
	if err := r.manifests(sums); err != nil {
		return err
	}
	return r.write("NOTES.md", notes)
}

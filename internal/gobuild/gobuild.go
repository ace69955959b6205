// Package gobuild compiles Drydock's programs, for images and for archives.
package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// module is that of most programs.
const module = "drydock.dev/drydock"

// Program is one of Drydock's programs.
type Program struct {
	// Name is its file name.
	Name string
	// Package to compile, in Module: a directory of the repository, which is the module itself if it is empty.
	Package, Module string
}

// CLI is drydock.
func CLI() Program { return Program{Name: "drydock", Package: "./starter"} }

// Worker is drydock-worker.
func Worker() Program { return Program{Name: "drydock-worker", Package: "./worker"} }

// Standalone is drydock-standalone.
func Standalone() Program {
	return Program{Name: "drydock-standalone", Package: ".", Module: "deploy/standalone"}
}

// Prepare is drydock-prepare.
func Prepare() Program { return Program{Name: "drydock-prepare", Package: "./deploy/prepare"} }

// Builder compiles a version. The same commit and version give the same bytes.
type Builder struct {
	// Root is the repository.
	Root string
	// Version is what the programs answer to --version.
	Version string
	// Created is the time of all files: that of the commit.
	Created time.Time
	// SBOMTool is cyclonedx-gomod.
	SBOMTool string
}

// AddFlags adds the flags that set the builder.
func (b *Builder) AddFlags(flags *pflag.FlagSet) {
	b.Created = time.Unix(0, 0).UTC()
	flags.StringVar(&b.Root, "root", ".", "the repository")
	flags.StringVar(&b.Version, "version", "unknown", "version of the programs, such as v0.1.0")
	flags.StringVar(&b.SBOMTool, "sbom-tool", "bin/tools/cyclonedx-gomod", "program that lists the modules in a program")
	flags.Func("created", "time of all files in `seconds` since 1970, the same for the same commit so that builds are reproducible", func(text string) error {
		seconds, err := strconv.ParseInt(text, 10, 64)
		b.Created = time.Unix(seconds, 0).UTC()
		return err
	})
}

// Compile compiles a program for a platform, as a static program at that path.
func (b Builder) Compile(ctx context.Context, program Program, system, architecture, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w -X main.version="+b.Version, "-o", path, program.Package)
	build.Dir = filepath.Join(b.Root, program.Module)
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s/%s: %w\n%s", program.Name, system, architecture, err, output)
	}
	return nil
}

// SBOM lists the modules in a compiled program, as CycloneDX.
func (b Builder) SBOM(ctx context.Context, program string) ([]byte, error) {
	list := exec.CommandContext(ctx, b.SBOMTool, "bin", "-json", "-std", "-noserial", "-notimestamp", "-version", b.Version, program)
	var errors bytes.Buffer
	list.Stderr = &errors
	modules, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules in %s (make supply-chain builds %s): %w\n%s", program, b.SBOMTool, err, errors.String())
	}
	// The tool names Drydock's module in a program of another module by its directory, and not with its version.
	named := strings.NewReplacer("pkg:golang/../..@(devel)", "pkg:golang/"+module+"@"+b.Version, `"../.."`, `"`+module+`"`, `"(devel)"`, `"`+b.Version+`"`)
	return []byte(named.Replace(string(modules))), nil
}

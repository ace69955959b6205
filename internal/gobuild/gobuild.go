// Package gobuild compiles Drydock's programs, for images and for archives.
package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

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
	// SBOMTool is cyclonedx-gomod.
	SBOMTool string
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
	return modules, nil
}

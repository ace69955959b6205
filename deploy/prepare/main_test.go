package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Programs that TestMain builds.
var program, pause string

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	directory, err := os.MkdirTemp("", "prepare-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	program, pause = filepath.Join(directory, "drydock-prepare"), filepath.Join(directory, "pause")
	for path, source := range map[string]string{program: ".", pause: "./testdata/pause"} {
		build := exec.Command("go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", path, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", source, err, output)
			return 1
		}
	}
	return m.Run()
}

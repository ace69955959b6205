package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameMinor(t *testing.T) {
	tests := []struct {
		name    string
		output  string
		version string
		want    bool
	}{
		{"the pinned release", "Kubernetes v1.36.3", "v1.36.3", true},
		{"another patch release", "Kubernetes v1.36.0", "v1.36.3", true},
		{"another minor version", "Kubernetes v1.35.3", "v1.36.3", false},
		{"a longer major version", "Kubernetes v11.36.3", "v1.36.3", false},
		{"a version without v", "etcd Version: 3.6.8\nGit SHA: none", "v3.6.5", true},
		{"one of several versions", "temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)", "v1.29.1", true},
		{"an output without a version", "unknown", "v1.36.3", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, sameMinor(test.output, test.version))
		})
	}
}

func TestProgramsAreBuiltOnceForTheSamePins(t *testing.T) {
	b, server := newBuilder(t, "1.0.0")

	var builders sync.WaitGroup
	for range 3 {
		builders.Go(func() {
			_, err := b.ensure(t.Context(), []program{server})
			require.NoError(t, err)
		})
	}
	builders.Wait()
	require.Equal(t, 1, strings.Count(b.output(), "building"), "the other builders use the program of the first")

	found, err := b.ensure(t.Context(), []program{server})
	require.NoError(t, err)
	require.Equal(t, "server v1.0.0", runProgram(t, found["server"]))
	require.Equal(t, 1, strings.Count(b.output(), "building"))
}

func TestProgramsAreUsableInBuildOrder(t *testing.T) {
	b, first := newBuilder(t, "1.0.0")
	broken := program{name: "broken", module: "pins", pkg: "example.com/none", release: "example.com/server"}

	programs, err := b.begin(t.Context(), []program{first, broken})
	require.NoError(t, err)
	t.Cleanup(programs.stop)

	path, err := programs.path(t.Context(), first.name)
	require.NoError(t, err)
	require.Equal(t, "server v1.0.0", runProgram(t, path))
	_, err = programs.path(t.Context(), broken.name)
	require.ErrorContains(t, err, "build broken for the local stack")
}

func TestAStackBuildsOnlyTheServersThatItRuns(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    []string
	}{
		{"only Temporal", Options{Temporal: &TemporalOptions{}}, []string{"temporal"}},
		{"Temporal on PostgreSQL", Options{Temporal: &TemporalOptions{PostgreSQL: true}}, []string{"temporal-server", "temporal-sql-tool"}},
		{"a hub", Options{Clusters: []ClusterOptions{{Name: "hub", ControlPlaneOnly: true}}}, []string{"etcd", "kube-apiserver"}},
		{
			"a whole cluster",
			Options{Clusters: []ClusterOptions{{Name: "spoke"}}},
			[]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, p := range programsOf(test.options) {
				names = append(names, p.name)
			}
			require.Equal(t, test.want, names)
		})
	}
}

func TestProgramsAreBuiltAgainForOtherPins(t *testing.T) {
	b, server := newBuilder(t, "1.0.0")
	_, err := b.ensure(t.Context(), []program{server})
	require.NoError(t, err)

	writePins(t, b.modules, "1.1.0")
	found, err := b.ensure(t.Context(), []program{server})

	require.NoError(t, err)
	require.Equal(t, "server v1.1.0", runProgram(t, found["server"]))
}

func TestAnInstalledProgramOfThePinnedMinorIsUsed(t *testing.T) {
	tests := []struct {
		name   string
		output string
		builds int
	}{
		{"same minor: no build", "server v1.0.7", 0},
		{"other minor: build", "server v1.1.0", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b, server := newBuilder(t, "1.0.0")
			assets := t.TempDir()
			script := "#!/bin/sh\necho " + test.output + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(assets, "server"), []byte(script), 0o755))
			t.Setenv("KUBEBUILDER_ASSETS", assets)

			found, err := b.ensure(t.Context(), []program{server})

			require.NoError(t, err)
			require.Equal(t, test.builds, strings.Count(b.output(), "building"))
			require.Equal(t, test.builds == 0, found["server"] == filepath.Join(assets, "server"))
		})
	}
}

func TestAProgramThatDoesNotCompileIsReportedWithTheCompilerOutput(t *testing.T) {
	b, server := newBuilder(t, "1.0.0")
	source := filepath.Join(b.modules, "pins", "server", "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { undefined() }\n"), 0o644))

	_, err := b.ensure(t.Context(), []program{server})

	require.ErrorContains(t, err, "build server for the local stack")
	require.ErrorContains(t, err, "undefined: undefined")
}

// testBuilder records its output.
type testBuilder struct {
	builder
	mu    *sync.Mutex
	lines *strings.Builder
}

// ensure builds the programs and returns their paths.
func (w testBuilder) ensure(ctx context.Context, wanted []program) (map[string]string, error) {
	programs, err := w.begin(ctx, wanted)
	if err != nil {
		return nil, err
	}
	defer programs.stop()
	paths := map[string]string{}
	for _, p := range wanted {
		if paths[p.name], err = programs.path(ctx, p.name); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

func (w testBuilder) output() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.String()
}

func (w testBuilder) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.Write(p)
}

// newBuilder returns a builder with one module that pins a small server.
func newBuilder(t *testing.T, version string) (testBuilder, program) {
	t.Helper()
	t.Setenv("KUBEBUILDER_ASSETS", "")
	b := testBuilder{mu: &sync.Mutex{}, lines: &strings.Builder{}}
	b.modules, b.bin, b.out = t.TempDir(), filepath.Join(t.TempDir(), "bin"), b
	writePins(t, b.modules, version)
	return b, program{name: "server", module: "pins", pkg: "example.com/server", release: "example.com/server"}
}

func writePins(t *testing.T, modules, version string) {
	t.Helper()
	files := map[string]string{
		"pins/go.mod": fmt.Sprintf("module example.com/pins\n\ngo 1.26.0\n\nrequire example.com/server v%s\n\n"+
			"replace example.com/server => ./server\n", version),
		"pins/go.sum":         "",
		"pins/server/go.mod":  "module example.com/server\n\ngo 1.26.0\n",
		"pins/server/main.go": fmt.Sprintf("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"server v%s\") }\n", version),
	}
	for name, content := range files {
		path := filepath.Join(modules, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

func runProgram(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

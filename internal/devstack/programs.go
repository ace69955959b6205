package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// program is one server of the local stack. A module under deploy/devstack pins it and its dependencies.
type program struct {
	name    string
	module  string // directory of its go.mod, relative to deploy/devstack
	pkg     string // the main package to build
	release string // the module whose version is the program's release
}

// programs are the servers in build order.
var programs = []program{
	{"etcd", "kubernetes", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes"},
	{"kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes"},
	{"kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes"},
	{"kwok", "kubernetes", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"},
	{"temporal", "temporal", "github.com/temporalio/cli/cmd/temporal", "go.temporal.io/server"},
	{temporalServer, "../standalone", "go.temporal.io/server/cmd/server", "go.temporal.io/server"},
	{temporalSQLTool, "../standalone", "go.temporal.io/server/cmd/tools/sql", "go.temporal.io/server"},
}

// Programs are the servers of a stack. Missing ones are built in the background.
type Programs struct {
	servers map[string]*server
	cancel  context.CancelFunc
	ended   chan struct{} // closed when all builds have ended
}

// server is a program that is found or built.
type server struct {
	ready chan struct{} // closed when path or err is set
	path  string
	err   error
}

// EnsurePrograms builds the servers of a stack with clusters and Temporal's dev server that are missing or were built from other pins, into bin/devstack. It
// prefers installed programs (in $KUBEBUILDER_ASSETS or on PATH) of the pinned minor version. The first build takes minutes; out gets the progress. If several
// processes call it, one builds and the others wait.
func EnsurePrograms(ctx context.Context, out io.Writer) error {
	usual := programsOf(Options{Clusters: []ClusterOptions{{}}, Temporal: &TemporalOptions{}})
	p, err := beginPrograms(ctx, out, usual)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, wanted := range usual {
		if _, err := p.path(ctx, wanted.name); err != nil {
			return err
		}
	}
	return nil
}

// ProgramPath returns the path of a server of the stack, and builds it if it is missing.
func ProgramPath(ctx context.Context, out io.Writer, name string) (string, error) {
	wanted := slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return p.name != name })
	p, err := beginPrograms(ctx, out, wanted)
	if err != nil {
		return "", err
	}
	defer p.stop()
	return p.path(ctx, name)
}

// beginPrograms finds the wanted servers and builds the others in the background, until stop.
func beginPrograms(ctx context.Context, out io.Writer, wanted []program) (*Programs, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	b := builder{
		modules: filepath.Join(root, "deploy", "devstack"),
		bin:     filepath.Join(root, "bin", "devstack"),
		out:     out,
	}
	return b.begin(ctx, wanted)
}

// path waits until a server is built, and returns the path of its executable.
func (p *Programs) path(ctx context.Context, name string) (string, error) {
	server, ok := p.servers[name]
	if !ok {
		return "", fmt.Errorf("the local stack has no server %q", name)
	}
	select {
	case <-server.ready:
		return server.path, server.err
	case <-ctx.Done():
		return "", fmt.Errorf("build %s for the local stack: %w", name, context.Cause(ctx))
	}
}

// stop cancels running builds, and waits until they have ended.
func (p *Programs) stop() {
	p.cancel()
	<-p.ended
}

// RepositoryRoot is the nearest directory, from the working directory upwards, that contains deploy/devstack.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "devstack", "kubernetes", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s holds deploy/devstack: run this inside Drydock's repository, which pins the servers to build", start)
		}
	}
}

// find returns the paths of existing programs, by name, and the programs to build.
func (b builder) find(ctx context.Context, wanted []program) (found map[string]string, missing []program, err error) {
	found = map[string]string{}
	for _, p := range wanted {
		stamp, err := b.stamp(p)
		if err != nil {
			return nil, nil, err
		}
		if b.built(p, stamp) {
			found[p.name] = b.path(p)
			continue
		}
		if path, ok := b.installed(ctx, p); ok {
			found[p.name] = path
			continue
		}
		missing = append(missing, p)
	}
	return found, missing, nil
}

// installed looks for a program of the pinned minor version outside the repository.
func (b builder) installed(ctx context.Context, p program) (string, bool) {
	var candidates []string
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		candidates = append(candidates, filepath.Join(assets, p.name))
	}
	if path, err := exec.LookPath(p.name); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		output, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			continue
		}
		version, err := b.version(ctx, p)
		if err == nil && sameMinor(string(output), version) {
			return path, true
		}
	}
	return "", false
}

// sameMinor reports whether the output of --version has a release with the same minor version.
func sameMinor(output, version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return false
	}
	release := regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(parts[0]+"."+parts[1]+"."))
	return release.MatchString(output)
}

// programsOf returns the servers of a stack with these options.
func programsOf(options Options) []program {
	names := map[string]bool{}
	if t := options.Temporal; t != nil {
		names["temporal"], names[temporalServer], names[temporalSQLTool] = !t.PostgreSQL, t.PostgreSQL, t.PostgreSQL
	}
	for _, cluster := range options.Clusters {
		names["etcd"], names["kube-apiserver"] = true, true
		if !cluster.ControlPlaneOnly {
			names["kube-controller-manager"], names["kube-scheduler"], names["kwok"] = true, true, true
		}
	}
	return slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return !names[p.name] })
}

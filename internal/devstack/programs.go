package devstack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// program is one server of the local stack. A module under deploy/devstack pins it and everything it is built from.
type program struct {
	name    string
	module  string // directory under deploy/devstack
	pkg     string // the main package to build
	release string // the module whose version is the program's release
	cost    string // what a first build takes on two cores
}

var programs = []program{
	{"etcd", "kubernetes", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", "20 seconds"},
	{"kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes", "3 minutes"},
	{"kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes", "1 minute"},
	{"kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes", "20 seconds"},
	{"kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", "1 minute"},
	{"temporal", "temporal", "github.com/temporalio/cli/cmd/temporal", "go.temporal.io/server", "3 minutes"},
}

// Programs are the paths of the stack's servers by name ("etcd", "kube-apiserver", "kube-controller-manager",
// "kube-scheduler", "kwok", "temporal").
type Programs map[string]string

// EnsurePrograms returns the stack's servers and builds those that are missing or were built from other pins, into
// bin/devstack. A program that is already installed (in $KUBEBUILDER_ASSETS or on PATH) in the pinned minor version
// is used instead of a build. Progress is written to out, since a first build takes minutes. Any number of processes
// may call this at once: one builds, the others wait for it.
func EnsurePrograms(ctx context.Context, out io.Writer) (Programs, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	shop := workshop{
		modules: filepath.Join(root, "deploy", "devstack"),
		bin:     filepath.Join(root, "bin", "devstack"),
		out:     out,
	}
	return shop.ensure(ctx, programs)
}

// RepositoryRoot is the nearest directory, from the working directory upwards, that holds deploy/devstack. Tests run
// in their package's directory, the commands anywhere in the repository.
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

// workshop builds programs from the pins in modules into bin.
type workshop struct {
	modules string
	bin     string
	out     io.Writer
}

func (w workshop) ensure(ctx context.Context, wanted []program) (Programs, error) {
	found, missing, err := w.find(ctx, wanted)
	if err != nil || len(missing) == 0 {
		return found, err
	}
	unlock, err := w.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another process may have built them while we waited for the lock.
	if found, missing, err = w.find(ctx, wanted); err != nil {
		return nil, err
	}
	for _, p := range missing {
		if err := w.build(ctx, p); err != nil {
			return nil, fmt.Errorf("build %s for the local stack: %w", p.name, err)
		}
		found[p.name] = w.path(p)
	}
	return found, nil
}

// find sorts the programs into those at hand and those to build.
func (w workshop) find(ctx context.Context, wanted []program) (found Programs, missing []program, err error) {
	found = Programs{}
	for _, p := range wanted {
		stamp, err := w.stamp(p)
		if err != nil {
			return nil, nil, err
		}
		if w.built(p, stamp) {
			found[p.name] = w.path(p)
			continue
		}
		if path, ok := w.installed(ctx, p); ok {
			found[p.name] = path
			continue
		}
		missing = append(missing, p)
	}
	return found, missing, nil
}

func (w workshop) path(p program) string      { return filepath.Join(w.bin, p.name) }
func (w workshop) stampFile(p program) string { return filepath.Join(w.bin, "."+p.name+".stamp") }

// stamp identifies what a program is built from: the pins of its module, and the package.
func (w workshop) stamp(p program) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, p.pkg)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(w.modules, p.module, name))
		if err != nil {
			return "", fmt.Errorf("read the pins of %s: %w", p.name, err)
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (w workshop) built(p program, stamp string) bool {
	if _, err := os.Stat(w.path(p)); err != nil {
		return false
	}
	kept, err := os.ReadFile(w.stampFile(p))
	return err == nil && string(kept) == stamp
}

// installed looks for a program of the pinned minor version outside the repository.
func (w workshop) installed(ctx context.Context, p program) (string, bool) {
	var candidates []string
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		candidates = append(candidates, filepath.Join(assets, p.name))
	}
	if path, err := exec.LookPath(p.name); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		says, err := exec.CommandContext(ctx, path, "--version").Output()
		if err != nil {
			continue
		}
		version, err := w.version(ctx, p)
		if err == nil && sameMinor(string(says), version) {
			return path, true
		}
	}
	return "", false
}

// sameMinor reports whether the output of a program's --version names a release of version's minor.
func sameMinor(says, version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return false
	}
	release := regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(parts[0]+"."+parts[1]+"."))
	return release.MatchString(says)
}

// version is the program's pinned release, such as v1.36.3.
func (w workshop) version(ctx context.Context, p program) (string, error) {
	out, err := w.goCommand(ctx, p, "list", "-m", "-f", "{{.Version}}", p.release)
	return strings.TrimSpace(out), err
}

func (w workshop) build(ctx context.Context, p program) error {
	stamp, err := w.stamp(p)
	if err != nil {
		return err
	}
	version, err := w.version(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.out, "building %s %s from source: the local stack runs the real server (up to %s the first time, then cached)\n", p.name, version, p.cost)
	// Built beside its place and renamed: a running program cannot be overwritten, and nobody sees half a file.
	fresh := w.path(p) + ".new"
	if _, err := w.goCommand(ctx, p, "build", "-ldflags", linkerFlags(p, version), "-o", fresh, p.pkg); err != nil {
		return err
	}
	if err := os.Rename(fresh, w.path(p)); err != nil {
		return err
	}
	return os.WriteFile(w.stampFile(p), []byte(stamp), 0o644)
}

// linkerFlags strips the symbols nobody debugs and tells Kubernetes its version: its servers refuse to run without.
func linkerFlags(p program, version string) string {
	flags := "-s -w"
	if p.release != "k8s.io/kubernetes" {
		return flags
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("%s -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", flags, pkg, version, pkg, parts[0], pkg, parts[1])
}

// goCommand runs the go command in the program's module and returns its standard output.
func (w workshop) goCommand(ctx context.Context, p program, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(w.modules, p.module)
	// A workspace around the repository must not replace what is pinned.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], cmd.Dir, err, lastLines(stderr.String(), 20))
	}
	return stdout.String(), nil
}

// lock holds bin against other processes that build. The kernel frees it when the holder dies.
func (w workshop) lock() (unlock func(), err error) {
	if err := os.MkdirAll(w.bin, 0o755); err != nil {
		return nil, fmt.Errorf("make room for the local stack's programs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(w.bin, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", w.bin, err)
	}
	fd := int(file.Fd())
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(w.out, "waiting for another process that builds the local stack's programs")
		err = syscall.Flock(fd, syscall.LOCK_EX)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", w.bin, err)
	}
	return func() { file.Close() }, nil
}

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
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// builder builds programs from the pins in modules into bin.
type builder struct {
	modules string
	bin     string
	out     io.Writer
	nice    int // nice value of the builds, 0 to 19
}

// begin finds the existing programs, and builds the others in the background.
func (b builder) begin(ctx context.Context, wanted []program) (*Programs, error) {
	found, missing, err := b.find(ctx, wanted)
	if err != nil {
		return nil, err
	}
	p := &Programs{servers: map[string]*server{}, ended: make(chan struct{})}
	for _, program := range wanted {
		p.servers[program.name] = &server{ready: make(chan struct{})}
	}
	p.resolve(found)
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		defer close(p.ended)
		if len(missing) > 0 {
			p.fail(missing, b.buildAll(ctx, missing, p))
		}
	}()
	return p, nil
}

// resolve records the paths of programs.
func (p *Programs) resolve(found map[string]string) {
	for name, path := range found {
		p.servers[name].path = path
		close(p.servers[name].ready)
	}
}

// fail ends all waits for unbuilt programs with err.
func (p *Programs) fail(missing []program, err error) {
	for _, program := range missing {
		server := p.servers[program.name]
		select {
		case <-server.ready:
		default:
			server.err = err
			close(server.ready)
		}
	}
}

// buildAll builds the programs that are still missing once no other process builds, and resolves each.
func (b builder) buildAll(ctx context.Context, missing []program, p *Programs) error {
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	// Another process may have built them while this one waited for the lock.
	found, missing, err := b.find(ctx, missing)
	if err != nil {
		return err
	}
	p.resolve(found)
	b.announce(missing)
	group, ctx := errgroup.WithContext(ctx)
	for _, queue := range byModule(missing) {
		builder := b
		group.Go(func() error { return builder.buildInOrder(ctx, queue, p) })
		b.nice = min(b.nice+10, 19)
	}
	return group.Wait()
}

// byModule returns the programs of each module. Those of one module are built one after the other, because they share many packages. Those of other
// modules share few, and use the core that is idle while a program is linked.
func byModule(programs []program) [][]program {
	var queues [][]program
	for _, p := range programs {
		same := func(queue []program) bool { return queue[0].module == p.module }
		if i := slices.IndexFunc(queues, same); i >= 0 {
			queues[i] = append(queues[i], p)
		} else {
			queues = append(queues, []program{p})
		}
	}
	return queues
}

func (b builder) buildInOrder(ctx context.Context, programs []program, p *Programs) error {
	for _, program := range programs {
		if err := b.build(ctx, program); err != nil {
			return fmt.Errorf("build %s for the local stack: %w", program.name, err)
		}
		p.resolve(map[string]string{program.name: b.path(program)})
	}
	return nil
}

// announce prints which programs are built.
func (b builder) announce(missing []program) {
	var names []string
	for _, p := range missing {
		names = append(names, p.name)
	}
	if len(names) > 0 {
		fmt.Fprintf(b.out, "the local stack needs %s, built from source the first time and then cached\n", strings.Join(names, ", "))
	}
}

func (b builder) path(p program) string      { return filepath.Join(b.bin, p.name) }
func (b builder) stampFile(p program) string { return filepath.Join(b.bin, "."+p.name+".stamp") }

// stamp identifies what a program is built from: the pins of its module, and the package.
func (b builder) stamp(p program) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, p.pkg)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(b.modules, p.module, name))
		if err != nil {
			return "", fmt.Errorf("read the pins of %s: %w", p.name, err)
		}
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (b builder) built(p program, stamp string) bool {
	if _, err := os.Stat(b.path(p)); err != nil {
		return false
	}
	saved, err := os.ReadFile(b.stampFile(p))
	return err == nil && string(saved) == stamp
}

// version is the program's pinned release, such as v1.36.3.
func (b builder) version(ctx context.Context, p program) (string, error) {
	out, err := b.goCommand(ctx, p, "list", "-m", "-f", "{{.Version}}", p.release)
	return strings.TrimSpace(out), err
}

// compilerFlags are the flags of `make build`, so that packages of both Drydock and the servers are compiled once.
var compilerFlags = []string{"-trimpath", "-gcflags=all=-dwarf=false"}

func (b builder) build(ctx context.Context, p program) error {
	stamp, err := b.stamp(p)
	if err != nil {
		return err
	}
	version, err := b.version(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "building %s %s\n", p.name, version)
	// Build to another file and rename it: a running program cannot be overwritten, and readers never see a partial file.
	fresh := b.path(p) + ".new"
	args := append([]string{"build"}, compilerFlags...)
	if _, err := b.goCommand(ctx, p, append(args, "-ldflags", linkerFlags(p, version), "-o", fresh, p.pkg)...); err != nil {
		return err
	}
	if err := os.Rename(fresh, b.path(p)); err != nil {
		return err
	}
	return os.WriteFile(b.stampFile(p), []byte(stamp), 0o644)
}

// linkerFlags omits debug data, and sets the version of Kubernetes, without which its servers refuse to run.
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
func (b builder) goCommand(ctx context.Context, p program, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", strconv.Itoa(b.nice), "go"}, args...)...)
	cmd.Dir = filepath.Join(b.modules, p.module)
	// A Go workspace around the repository must not replace the pins.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], cmd.Dir, err, lastLines(stderr.String(), 20))
	}
	return stdout.String(), nil
}

// lock keeps other processes from building. The kernel releases the lock when this process ends.
func (b builder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(b.bin, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of the local stack's programs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(b.bin, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", b.bin, err)
	}
	fd := int(file.Fd())
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(b.out, "waiting for another process that builds the local stack's programs")
		err = syscall.Flock(fd, syscall.LOCK_EX)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", b.bin, err)
	}
	return func() { file.Close() }, nil
}

package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is long because tests start several stacks at the same time on two cores.
	startTimeout = 5 * time.Minute
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 10 * time.Second
	// readyInterval is the pause between two readiness checks.
	readyInterval = 25 * time.Millisecond
)

// Process is one server of a stack. It may be stopped or killed and started again, and keeps its ports, data and log file. If it exits unexpectedly,
// the whole stack ends with an error that quotes its log.
type Process struct {
	// Name is the cluster and the server, such as "spoke-1/kube-apiserver".
	Name string
	// LogFile has the standard output and error of all runs of the server.
	LogFile string

	path     func(context.Context) (string, error) // waits for the executable
	args     []string
	env      []string            // in addition to the environment of this program
	nice     int                 // nice value, 0 to 19
	user     *syscall.Credential // nil: the user of this program
	shutdown syscall.Signal      // what Stop sends; default SIGTERM
	crash    syscall.Signal      // what Kill sends; default SIGKILL
	group    *group
	ready    func(context.Context) error // one check: nil when the server is ready
	exited   func(error)                 // reports an unexpected exit

	mu  sync.Mutex
	run *run
}

// run is one run of a process.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once err is set
	err    error
	asked  bool // whether the exit was requested
	up     bool // whether it was ready
}

// Start runs the server and returns when it is ready. If it exits first, or is not ready in time, the error quotes the
// end of its log.
func (p *Process) Start(ctx context.Context) error {
	path, err := p.path(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	r, err := p.launch(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.awaitReady(ctx, r); err != nil {
		return errors.Join(err, p.Kill())
	}
	return nil
}

func (p *Process) launch(path string) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		return nil, fmt.Errorf("start %s: it is running", p.Name)
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command("nice", append([]string{"-n", strconv.Itoa(p.nice), path}, p.args...)...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	p.group.adopt(cmd)
	cmd.SysProcAttr.Credential = p.user
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	r := &run{cmd: cmd, exited: make(chan struct{})}
	p.run = r
	go p.reap(r)
	return r, nil
}

// reap waits for the end of a run, and reports an unexpected one.
func (p *Process) reap(r *run) {
	err := r.cmd.Wait()
	p.mu.Lock()
	r.err = err
	unexpected := r.up && !r.asked
	if p.run == r {
		p.run = nil
	}
	p.mu.Unlock()
	close(r.exited)
	if unexpected {
		p.exited(p.failure("exited unexpectedly", r))
	}
}

func (p *Process) awaitReady(ctx context.Context, r *run) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		readyErr := p.ready(ctx)
		if readyErr == nil && p.markUp(r) {
			return nil
		}
		select {
		case <-r.exited:
			return p.failure("exited before it was ready", r)
		case <-ctx.Done():
			return fmt.Errorf("start %s: %w; it is not ready: %w%s", p.Name, context.Cause(ctx), readyErr, p.logTail())
		case <-ticker.C:
		}
	}
}

// markUp records that a run was ready. It returns false if the server has exited and another process answered on its port.
func (p *Process) markUp(r *run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.up = p.run == r
	return r.up
}

// Stop asks the server to end, kills it after stopGrace, and waits for its exit. It does nothing if the server does not run.
func (p *Process) Stop() error {
	r, err := p.signal(cmp.Or(p.shutdown, syscall.SIGTERM))
	if r == nil || err != nil {
		return err
	}
	select {
	case <-r.exited:
		return nil
	case <-time.After(stopGrace):
		return p.Kill()
	}
}

// Kill ends the server like a crash, and waits for its exit. It does nothing if the server does not run.
func (p *Process) Kill() error {
	r, err := p.signal(cmp.Or(p.crash, syscall.SIGKILL))
	if r != nil && err == nil {
		<-r.exited
	}
	return err
}

// Freeze suspends the server with SIGSTOP. Its connections stay open. Kill still ends it.
func (p *Process) Freeze() error { return p.suspend(syscall.SIGSTOP) }

// Thaw resumes a frozen server with SIGCONT.
func (p *Process) Thaw() error { return p.suspend(syscall.SIGCONT) }

func (p *Process) suspend(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return fmt.Errorf("send %s to %s: it does not run", sig, p.Name)
	}
	if err := p.run.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// signal sends a signal to the current run, if there is one, and marks its exit as requested.
func (p *Process) signal(sig syscall.Signal) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil, nil
	}
	p.run.asked = true
	if err := p.run.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("stop %s: %w", p.Name, err)
	}
	return p.run, nil
}

// PID is the process ID of the current run; 0 if the server does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}

func (p *Process) failure(what string, r *run) error {
	status := "exit status 0"
	if r.err != nil {
		status = r.err.Error()
	}
	return fmt.Errorf("%s %s (%s)%s", p.Name, what, status, p.logTail())
}

// logTail returns the last lines of the log for an error.
func (p *Process) logTail() string {
	content, err := os.ReadFile(p.LogFile)
	if err != nil {
		return fmt.Sprintf("; its log cannot be read: %v", err)
	}
	if len(content) == 0 {
		return "; its log is empty"
	}
	return fmt.Sprintf("; the last lines of %s:\n%s", p.LogFile, lastLines(string(content), 15))
}

// lastLines are the last n lines of text, indented.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}

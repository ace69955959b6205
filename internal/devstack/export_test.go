package devstack

import "syscall"

// Crash kills the server without a request to stop, as a bug does.
func (p *Process) Crash() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.cmd.Process.Signal(syscall.SIGKILL)
}

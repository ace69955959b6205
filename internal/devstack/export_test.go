package devstack

import "syscall"

// Crash ends the server as a bug would: nobody asked for it.
func (p *Process) Crash() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.cmd.Process.Signal(syscall.SIGKILL)
}

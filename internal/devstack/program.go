package devstack

import (
	"context"
	"fmt"
)

// Program is a program of the caller in a stack. It ends with the stack, and its exit ends the stack.
type Program struct {
	// Name is the name of the program; its log is Name.log in the stack's directory.
	Name string
	// Path of the executable.
	Path string
	Args []string
	// Env has further environment variables, as NAME=VALUE.
	Env []string
	// ReadyURL returns 200 when the program is ready.
	ReadyURL string
}

// Add adds a program without starting it.
func (s *Stack) Add(program Program) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return nil, fmt.Errorf("add %s: the stack has ended: %w", program.Name, s.reason)
	}
	process := s.process("", program.Name, program.Args, httpReady(program.ReadyURL))
	process.path, process.env = installedAt(program.Path), program.Env
	s.added = append(s.added, process)
	return process, nil
}

// ReservePort reserves a free loopback port until the stack ends.
func (s *Stack) ReservePort() (int, error) { return s.ports.reserve() }

// installedAt returns the path of an existing executable.
func installedAt(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return path, nil }
}

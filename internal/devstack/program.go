package devstack

import (
	"context"
	"fmt"
)

// Program is a program that joins a stack: it ends with the stack, and the stack ends if it exits on its own.
type Program struct {
	// Name says which program it is; its log is Name.log in the stack's directory.
	Name string
	// Path of the executable.
	Path string
	Args []string
	// ReadyURL answers 200 once the program serves.
	ReadyURL string
}

// Add prepares a program of the caller. It runs after Process.Start.
func (s *Stack) Add(program Program) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return nil, fmt.Errorf("add %s: the stack has ended: %w", program.Name, s.reason)
	}
	process := s.process("", program.Name, program.Args, httpReady(program.ReadyURL))
	process.path, process.env = installedAt(program.Path), nil
	s.added = append(s.added, process)
	return process, nil
}

// TakePort reserves a free loopback port for as long as the stack runs.
func (s *Stack) TakePort() (int, error) { return s.ports.take() }

// installedAt is the path of an executable that need not be built.
func installedAt(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return path, nil }
}

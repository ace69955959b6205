// Package devstack starts a real local stack: a Temporal server, and Kubernetes clusters of etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and KWOK. Tests, the demo and benchmarks run against it. The servers listen
// on loopback only, on free ports, and none of them outlives the process that started them, however it ends.
package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options configure a stack.
type Options struct {
	// Dir gets logs, kubeconfigs and data, and Stop keeps it. It must be empty or not exist. Default: a temporary directory that Stop removes.
	Dir string
	// Clusters are the Kubernetes clusters.
	Clusters []ClusterOptions
	// Temporal is the Temporal server; nil runs none.
	Temporal *TemporalOptions
	// Output gets a line for each long step; nil: no output.
	Output io.Writer
}

// Stack is a local stack.
type Stack struct {
	// Dir has the logs, kubeconfigs and data.
	Dir string
	// Temporal is nil without Options.Temporal.
	Temporal *Temporal

	root     string
	programs *Programs
	clusters []*Cluster
	added    []*Process
	ports    ports
	group    *group
	output   io.Writer

	mu          sync.Mutex
	cancelStart context.CancelFunc // cancels the start; nil when the stack runs
	reason      error              // why the stack ends, if something failed

	ending sync.Once
	done   chan struct{}
	err    error // set before done is closed
}

// Start builds missing servers, starts each when it is built and its dependencies are ready, and returns when all are ready. If a server
// fails, it stops the others and returns an error with the end of its log. Cancelling ctx cancels the start. After that the stack runs
// until Stop, until a server exits, or until this process ends.
func Start(ctx context.Context, options Options) (*Stack, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	s := &Stack{output: options.Output, done: make(chan struct{})}
	if s.output == nil {
		s.output = io.Discard
	}
	var err error
	if s.root, err = RepositoryRoot(); err != nil {
		return nil, err
	}
	if s.programs, err = beginPrograms(ctx, s.output, programsOf(options)); err != nil {
		return nil, err
	}
	defer s.programs.stop()
	if err := s.openDir(options.Dir); err != nil {
		return nil, err
	}
	if err := s.start(ctx, options); err != nil {
		s.note(fmt.Errorf("start the local stack: %w", err))
		return nil, s.Stop()
	}
	return s, nil
}

func (o Options) validate() error {
	seen := sets.New[string]()
	for _, cluster := range o.Clusters {
		if problems := validation.IsDNS1123Label(cluster.Name); len(problems) > 0 {
			return fmt.Errorf("cluster name %q: %s", cluster.Name, problems[0])
		}
		if seen.Has(cluster.Name) {
			return fmt.Errorf("cluster name %q is used twice", cluster.Name)
		}
		seen.Insert(cluster.Name)
		if cluster.ControlPlaneOnly && len(cluster.Nodes) > 0 {
			return fmt.Errorf("cluster %s is ControlPlaneOnly: its nodes would never become ready", cluster.Name)
		}
	}
	return nil
}

// openDir creates the stack's directory, and the process group whose guard removes it if it is temporary.
func (s *Stack) openDir(named string) error {
	if named == "" {
		dir, err := os.MkdirTemp("", "drydock-devstack-")
		if err != nil {
			return fmt.Errorf("create a directory for the local stack: %w", err)
		}
		s.Dir = dir
		if s.group, err = newGroup(dir); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		return nil
	}
	dir, err := filepath.Abs(named)
	if err != nil {
		return fmt.Errorf("directory of the local stack: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("directory of the local stack: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("directory of the local stack: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("directory %s is not empty: use a new or empty directory", dir)
	}
	s.Dir = dir
	s.group, err = newGroup("")
	return err
}

// start prepares all parts, then starts them concurrently.
func (s *Stack) start(ctx context.Context, options Options) error {
	for _, cluster := range options.Clusters {
		c, err := s.newCluster(cluster)
		if err != nil {
			return err
		}
		s.clusters = append(s.clusters, c)
	}
	ctx, s.cancelStart = context.WithCancel(ctx)
	defer s.cancelStart()
	parts, ctx := errgroup.WithContext(ctx)
	if options.Temporal != nil {
		temporal, err := s.newTemporal(*options.Temporal)
		if err != nil {
			return err
		}
		s.Temporal = temporal
		fmt.Fprintln(s.output, "starting Temporal")
		parts.Go(func() error { return temporal.start(ctx) })
	}
	for _, cluster := range s.clusters {
		fmt.Fprintf(s.output, "starting cluster %s\n", cluster.Name)
		parts.Go(func() error { return cluster.start(ctx) })
	}
	if err := parts.Wait(); err != nil {
		return err
	}
	return s.started()
}

// started completes the start. It fails if a server has exited while others were starting.
func (s *Stack) started() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelStart = nil
	return s.reason
}

// clusterNice is the nice value of the servers of a cluster, which have their own machines in a real fleet.
const clusterNice = 10

// process creates a server of a cluster, or of the stack itself if part is empty.
func (s *Stack) process(part, name string, args []string, ready func(context.Context) error) *Process {
	nice := 0
	if part != "" {
		nice = clusterNice
	}
	return &Process{
		Name:    filepath.Join(part, name),
		LogFile: filepath.Join(s.Dir, part, name+".log"),
		path:    func(ctx context.Context) (string, error) { return s.programs.path(ctx, name) },
		args:    args,
		env:     []string{"GOGC=300"}, // servers have small heaps and much garbage
		nice:    nice,
		group:   s.group,
		ready:   ready,
		exited:  s.fail,
	}
}

// Cluster returns the cluster with that name; nil if there is none.
func (s *Stack) Cluster(name string) *Cluster {
	for _, cluster := range s.clusters {
		if cluster.Name == name {
			return cluster
		}
	}
	return nil
}

// Clusters returns all clusters, in the order of Options.
func (s *Stack) Clusters() []*Cluster { return s.clusters }

// Done is closed when all processes of the stack have exited.
func (s *Stack) Done() <-chan struct{} { return s.done }

// Err is nil while the stack runs and after Stop. If a server has exited, the error has its name and the end of its log.
func (s *Stack) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop ends all servers and removes the temporary directory. It returns the error of the cleanup, or of the server
// whose exit ended the stack before. It may be called more than once.
func (s *Stack) Stop() error {
	s.ending.Do(s.end)
	<-s.done
	return s.err
}

// fail ends the stack or its start after a server has exited.
func (s *Stack) fail(err error) {
	s.note(err)
	s.mu.Lock()
	cancelStart := s.cancelStart
	s.mu.Unlock()
	if cancelStart != nil {
		cancelStart() // Start stops the started servers
		return
	}
	go s.Stop()
}

// note records the first failure of the stack. Later failures are mostly its consequences.
func (s *Stack) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		s.reason = err
	}
}

// end kills all processes.
func (s *Stack) end() {
	s.mu.Lock()
	errs := []error{s.reason}
	s.mu.Unlock()
	for _, process := range s.processes() {
		errs = append(errs, process.Kill())
	}
	errs = append(errs, s.group.end(), s.ports.release())
	s.err = errors.Join(errs...)
	close(s.done)
}

// processes are the stack's servers, each before its dependencies, so that none fails because another ends first.
func (s *Stack) processes() []*Process {
	s.mu.Lock()
	all := slices.Clone(s.added)
	s.mu.Unlock()
	if s.Temporal != nil {
		all = append(all, s.Temporal.Process)
		all = append(all, s.Temporal.Behind...)
	}
	for _, cluster := range s.clusters {
		all = append(all, cluster.processes()...)
	}
	return all
}

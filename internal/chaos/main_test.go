// Package chaos does harm to Drydock while it works: its workers die, freeze and meet each other, servers go away, requests and answers are
// lost. Whatever happens, rollouts and maintenances come to their right end, and what must always be true of them is read from the API
// servers' audit logs and from Temporal's histories.
package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

const (
	spokes  = 3
	workers = 6
)

// theStage is shared: starting a fleet takes longer than most scenarios, and each leaves it as it was.
var theStage *stage

// stage is what scenarios play on: on spoke-1 the demo's workloads with their budgets and workload locks, on the others nothing but
// what a scenario brings.
type stage struct {
	*fleet.Fleet
	temporal client.Client
	// second is another worker, which runs only when a scenario starts it.
	second *devstack.Process
	// deaths of workers, in all scenarios so far.
	deaths []death
}

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx := context.Background()
	f, err := fleet.Start(ctx, fleet.Options{
		Spokes: spokes, Workers: workers, Proxies: true, Temporal: devstack.TemporalOptions{Database: "temporal.db"}, Output: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	theStage = &stage{Fleet: f}
	defer func() {
		if code != 0 {
			showWorkerLog(f)
		}
		if err := f.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := theStage.prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer theStage.temporal.Close()
	code = m.Run()
	showDeaths(os.Stderr, theStage.deaths)
	return code
}

func (s *stage) prepare(ctx context.Context) error {
	options, err := temporal.Connection{Address: s.Temporal.Address}.Options(nil, nil)
	if err != nil {
		return err
	}
	if s.temporal, err = temporal.Dial(ctx, options); err != nil {
		return err
	}
	if s.second, err = s.AddWorker(); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error { return s.deployDemo(ctx) })
	for _, spoke := range s.Spokes[1:] {
		group.Go(func() error { return spoke.Apply(ctx, "internal/chaos/testdata/shop.yaml") })
	}
	return group.Wait()
}

// deployDemo puts the demo's workloads on spoke-1, and starts a controller for the locks of its vRouter.
func (s *stage) deployDemo(ctx context.Context) error {
	spoke := s.Spokes[0]
	if err := spoke.Apply(ctx, "deploy/dev/manifests/spoke.yaml"); err != nil {
		return err
	}
	if err := s.AwaitWorkloads(ctx, spoke); err != nil {
		return err
	}
	policy := filepath.Join("..", "..", "docs", "examples", "workload-lock-policy.yaml")
	if err := s.Run(ctx, io.Discard, "lock", "controller", "start", "--cluster", spoke.Name, "-f", policy); err != nil {
		return err
	}
	return s.AwaitLocks(ctx, spoke, workers)
}

func showWorkerLog(f *fleet.Fleet) {
	log, err := os.ReadFile(f.Worker.LogFile)
	if err == nil {
		fmt.Fprintf(os.Stderr, "the end of the worker's log:\n%s\n", log[max(0, len(log)-8000):])
	}
}

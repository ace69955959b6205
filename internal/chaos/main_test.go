// Package chaos injects faults while Drydock runs: workers crash, freeze and overlap, servers stop, requests and answers are lost. Rollouts
// and maintenances must end correctly in spite of this, and must not violate the invariants, which are checked against the audit logs of API
// servers and the histories of Temporal.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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

// sharedFleet is the fleet of all scenarios: starting a fleet takes longer than most scenarios, and each scenario restores it.
var sharedFleet struct {
	start sync.Once
	fleet *testFleet
	err   error
}

// testFleet is a fleet on which scenarios run. Spoke-1 has the demo's workloads with their budgets and workload locks, the other spokes only
// what a scenario creates.
type testFleet struct {
	*fleet.Fleet
	temporal client.Client
	// second is another worker, which runs only when a scenario starts it.
	second *devstack.Process
	// crashes are those of all scenarios so far.
	crashes []crash
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the tests, and stops the fleet if a test has started it.
func run(m *testing.M) int {
	code := m.Run()
	s := sharedFleet.fleet
	if s == nil {
		return code
	}
	showCrashes(os.Stderr, s.crashes)
	if code != 0 {
		showWorkerLog(s.Fleet)
	}
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// useFleet returns the fleet. The first test that needs it starts it.
func useFleet(t *testing.T) *testFleet {
	t.Helper()
	devstacktest.NeedServers(t)
	sharedFleet.start.Do(func() { sharedFleet.fleet, sharedFleet.err = startFleet(context.Background()) })
	require.NoError(t, sharedFleet.err)
	return sharedFleet.fleet
}

func startFleet(ctx context.Context) (*testFleet, error) {
	f, err := fleet.Start(ctx, fleet.Options{
		Spokes: spokes, Workers: workers, Proxies: true, Output: os.Stderr,
		Temporal: devstack.TemporalOptions{Database: "temporal.db", PostgreSQL: devstacktest.OnPostgreSQL()},
	})
	if err != nil {
		return nil, err
	}
	s := &testFleet{Fleet: f}
	if err := s.prepare(ctx); err != nil {
		showWorkerLog(f)
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *testFleet) stop() error {
	if s.temporal != nil {
		s.temporal.Close()
	}
	return s.Fleet.Stop()
}

func (s *testFleet) prepare(ctx context.Context) error {
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
	if err := s.registerIslands(ctx); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error { return s.DeployDemo(ctx, s.Spokes[0]) })
	for _, spoke := range s.Spokes[1:] {
		group.Go(func() error { return spoke.Apply(ctx, "internal/chaos/testdata/shop.yaml") })
	}
	return group.Wait()
}

func showWorkerLog(f *fleet.Fleet) {
	log, err := os.ReadFile(f.Worker.LogFile)
	if err == nil {
		fmt.Fprintf(os.Stderr, "the last lines of the worker's log:\n%s\n", log[max(0, len(log)-8000):])
	}
}

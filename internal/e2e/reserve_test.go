package e2e

import (
	"slices"
	"sync"
	"testing"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Tests that kill the worker, restart the hub or hold everything run alone. All others wait most of their time, and reserve what
// they need, so that they can run side by side.

// What a test may reserve besides spokes.
const (
	policyHub = "the simulated policy propagator" // there is one, for all policies of the hub
	edges     = "the ManagedClusters edge-N"
)

// reservations are a lock for each thing that was ever reserved.
var reservations = struct {
	sync.Mutex
	locks map[string]*sync.Mutex
}{locks: map[string]*sync.Mutex{}}

// reserve makes a test run beside others, from the moment that no other has any of the named things until its end.
func reserve(t *testing.T, names ...string) {
	t.Helper()
	t.Parallel()
	names = slices.Clone(names)
	slices.Sort(names) // two tests that need the same things never wait for each other
	for _, name := range names {
		lock := reservation(name)
		lock.Lock()
		t.Cleanup(lock.Unlock)
	}
}

func reservation(name string) *sync.Mutex {
	reservations.Lock()
	defer reservations.Unlock()
	if reservations.locks[name] == nil {
		reservations.locks[name] = &sync.Mutex{}
	}
	return reservations.locks[name]
}

// size is how many of something a test works on: the full number only when it soaks, as in `make chaos`.
func size(full, usual int) int {
	if devstacktest.Soak() {
		return full
	}
	return usual
}

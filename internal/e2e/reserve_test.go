package e2e

import (
	"os"
	"slices"
	"sync"
	"testing"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Tests that kill the worker, restart the hub or hold everything run alone on their fleet. All others wait most of their time, and
// reserve what they need, so that they can run side by side.
//
// `make test` runs both kinds at the same time, each on a fleet of its own: part is the value of E2E_PART that selects a kind.
type part string

const (
	partAlone  part = "alone"
	partShared part = "shared"
)

// needPart skips a test of the other kind.
func needPart(t *testing.T, of part) {
	t.Helper()
	if selected := part(os.Getenv("E2E_PART")); selected != "" && selected != of {
		t.Skipf("E2E_PART=%s selects other tests", selected)
	}
}

// alone makes a test run when no other does.
func alone(t *testing.T) {
	t.Helper()
	needPart(t, partAlone)
}

// What a test may reserve besides spokes.
const (
	policyHub = "the simulated policy propagator" // there is one, for all policies of the hub
	edges     = "the ManagedClusters edge-N"
)

// shared makes a test run beside others. What it changes is its own, or its subtests reserve it.
func shared(t *testing.T) {
	t.Helper()
	needPart(t, partShared)
	t.Parallel()
}

// reservations are what running tests have, and what others wait for.
var reservations = struct {
	sync.Mutex
	changed *sync.Cond
	held    map[string]bool
	waiting map[string][]string // by the name of the test
}{held: map[string]bool{}, waiting: map[string][]string{}}

func init() { reservations.changed = sync.NewCond(&reservations) }

// reserve makes a test run beside others, from the moment that no other has any of the named things until its end. A test that waits
// has none of them. Tests that need more things go first: others fit beside them and after them.
func reserve(t *testing.T, names ...string) {
	t.Helper()
	shared(t)
	r := &reservations
	r.Lock()
	defer r.Unlock()
	r.waiting[t.Name()] = names
	for !mayReserve(names) {
		r.changed.Wait()
	}
	delete(r.waiting, t.Name())
	for _, name := range names {
		r.held[name] = true
	}
	t.Cleanup(func() {
		r.Lock()
		defer r.Unlock()
		for _, name := range names {
			delete(r.held, name)
		}
		r.changed.Broadcast()
	})
}

func mayReserve(names []string) bool {
	for _, other := range reservations.waiting {
		if len(other) > len(names) && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(other, name) }) {
			return false
		}
	}
	return !slices.ContainsFunc(names, func(name string) bool { return reservations.held[name] })
}

// size is how many of something a test works on: the full number only when it soaks, as in `make chaos`.
func size(full, usual int) int {
	if devstacktest.Soak() {
		return full
	}
	return usual
}

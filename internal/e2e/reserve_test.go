package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Tests that kill the worker, restart the hub or hold all clusters run alone on their fleet. All other tests mostly wait, so they run in parallel and
// reserve the spokes that they need.
//
// `make test` runs both kinds at the same time, each on its own fleet. E2E_PART selects a part.
type part string

const (
	partAlone  part = "alone"
	partShared part = "shared"
)

func selectedPart() part { return part(os.Getenv("E2E_PART")) }

// needPart skips a test of the other part.
func needPart(t *testing.T, of part) {
	t.Helper()
	if selected := selectedPart(); selected != "" && selected != of {
		t.Skipf("E2E_PART=%s selects other tests", selected)
	}
}

// alone marks a test that runs alone on its fleet.
func alone(t *testing.T) {
	t.Helper()
	needPart(t, partAlone)
}

// Reservations other than spokes.
const (
	policyHub = "the simulated policy propagator" // one serves all policies of the hub
	edges     = "the ManagedClusters edge-N"
)

// shared marks a test that runs in parallel. It changes only its own objects, or its subtests reserve spokes.
func shared(t *testing.T) {
	t.Helper()
	needPart(t, partShared)
	t.Parallel()
}

// reservations are the names that running tests hold, and those that other tests wait for.
var reservations = struct {
	sync.Mutex
	changed *sync.Cond
	held    map[string]bool
	waiting map[string][]string // by test name
}{held: map[string]bool{}, waiting: map[string][]string{}}

func init() { reservations.changed = sync.NewCond(&reservations) }

// reserve marks a test that runs in parallel, and waits until no other test holds any of the names. A waiting test holds none of them. Tests with more
// names go first, because smaller ones fit in more easily. The test must have no parallel subtests: they would wait for tests that wait for its names.
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
	began := len(workerLog())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the worker's last lines about %v:\n%s", names, linesAbout(workerLog()[began:], names))
		}
		awaitCleanup(t, names)
		r.Lock()
		defer r.Unlock()
		for _, name := range names {
			delete(r.held, name)
		}
		r.changed.Broadcast()
	})
}

func workerLog() []byte {
	log, err := os.ReadFile(theFleet.Worker.LogFile)
	if err != nil {
		return fmt.Appendln(nil, err)
	}
	return log
}

// sameInAllLines are attributes of the worker's log that do not tell what happened.
var sameInAllLines = regexp.MustCompile(`(Namespace|TaskQueue|WorkerID|RunID|Attempt|ActivityID)=\S+ `)

// linesAbout returns the last lines of a log about some clusters.
func linesAbout(log []byte, clusters []string) string {
	about := regexp.MustCompile(`\b(` + strings.Join(clusters, "|") + `)\b`)
	var found []string
	for line := range strings.Lines(string(log)) {
		if about.MatchString(line) {
			found = append(found, sameInAllLines.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(found[max(0, len(found)-80):], "")
}

// awaitCleanup waits until the work of a test has left its spokes, which the next test may count.
func awaitCleanup(t *testing.T, names []string) {
	for _, spoke := range theFleet.Spokes {
		if slices.Contains(names, spoke.Name) && !t.Failed() {
			assert.NoError(t, theFleet.AwaitCleanup(context.Background(), spoke))
		}
	}
}

func mayReserve(names []string) bool {
	for _, other := range reservations.waiting {
		if len(other) > len(names) && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(other, name) }) {
			return false
		}
	}
	return !slices.ContainsFunc(names, func(name string) bool { return reservations.held[name] })
}

// size returns the full number in soak tests (`make chaos`), otherwise the usual number.
func size(full, usual int) int {
	if devstacktest.Soak() {
		return full
	}
	return usual
}

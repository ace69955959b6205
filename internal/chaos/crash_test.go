package chaos

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
)

// state is a state of a workflow in which its worker crashes.
type state struct {
	// workflow is its type, state the name of the state, and moment what is going on in it.
	workflow, state, moment string
	// activity that is pending then: one of the workflow's own, or of a child's, as scene.pending names it; empty: none is.
	activity string
	// reach starts the work that comes into the state, and returns when it is there and stays. Reaching the state again and again must go
	// without harm.
	reach func(*testing.T, *scene, place) reached
}

// reached is work in a state.
type reached struct {
	// workflow is the id of that whose state it is.
	workflow string
	// last, unless nil, does what must be done right before the worker dies.
	last func()
	// heal, unless nil, ends what keeps the work in the state. The worker lives again when it is called.
	heal func()
	// late, unless nil, is by what the request stands that keeps the work in the state.
	late *faultproxy.Injection
}

func (s state) String() string {
	return strings.TrimSuffix(s.workflow+" "+s.state+", "+s.moment, ", ")
}

// crash is the end of a worker, with its pending activities.
type crash struct {
	state
	how     string
	pending []string
}

// end is how a worker ends: a description, its signal, and the function that sends it.
type end struct {
	what, how string
	worker    func(*devstack.Process) error
}

var (
	killed  = end{"is killed", "SIGKILL", (*devstack.Process).Kill}
	stopped = end{"stops", "SIGTERM", (*devstack.Process).Stop}
)

// crashWorker brings work into each of the states at the same time, each in its own place, ends the worker, and starts another.
func (s *scene) crashWorker(t *testing.T, how end, places []place, states ...state) {
	t.Helper()
	arrived := s.reachAll(t, places, states...)
	for _, at := range arrived {
		if at.last != nil {
			at.last()
		}
	}
	var crashes []crash
	for i, state := range states {
		crashes = append(crashes, crash{state, how.how, s.awaitPending(t, arrived[i].workflow, state.activity)})
	}
	require.NoError(t, how.worker(s.Worker))
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).Heal()
	}
	for _, d := range crashes {
		t.Logf("%s in %s; pending: %q", d.how, d.state, d.pending)
		if d.activity != "" {
			require.Contains(t, d.pending, d.activity, "the worker did not end in state %s", d.state)
		} else {
			require.Empty(t, d.pending, "the worker did not end in state %s", d.state)
		}
	}
	s.crashes = append(s.crashes, crashes...)
	require.NoError(t, s.Worker.Start(t.Context()))
	for _, at := range arrived {
		if at.heal != nil {
			at.heal()
		}
	}
}

// showCrashes prints the states in which workers ended.
func showCrashes(to io.Writer, crashes []crash) {
	if len(crashes) == 0 {
		return
	}
	crashes = slices.Clone(crashes)
	slices.SortStableFunc(crashes, func(a, b crash) int { return strings.Compare(a.workflow, b.workflow) })
	t := table.NewWriter()
	t.SetOutputMirror(to)
	t.AppendHeader(table.Row{"workflow", "state", "moment", "worker ended by", "pending activities"})
	for _, d := range crashes {
		t.AppendRow(table.Row{d.workflow, d.state.state, d.moment, d.how, strings.Join(d.pending, ", ")})
	}
	t.Render()
}

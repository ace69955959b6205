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
	// workflow is the type of the workflow, state the name of the state, and moment the step within it.
	workflow, state, moment string
	// activity is the pending activity of the workflow or of a child, as scenarioRun.pending names it; empty: none is pending.
	activity string
	// reach starts work and returns when the work is in the state and stays there.
	reach func(*testing.T, *scenarioRun, target) reached
}

// reached is work that is in a state.
type reached struct {
	// workflow is the ID of the workflow in the state.
	workflow string
	// beforeCrash, unless nil, runs immediately before the worker ends.
	beforeCrash func()
	// unblock, unless nil, lets the work continue. A worker runs again when it is called.
	unblock func()
	// injection, unless nil, stops the request that keeps the work in the state.
	injection *faultproxy.Injection
}

func (s state) String() string {
	return strings.TrimSuffix(s.workflow+" "+s.state+", "+s.moment, ", ")
}

// crash is a worker that ended, with the activities that were pending.
type crash struct {
	state
	how     string
	pending []string
}

// end is how a worker ends: a description, the signal, and the function that sends it.
type end struct {
	what, how string
	worker    func(*devstack.Process) error
}

var (
	killed  = end{"is killed", "SIGKILL", (*devstack.Process).Kill}
	stopped = end{"stops", "SIGTERM", (*devstack.Process).Stop}
)

// crashWorker brings work into all states at the same time, each on its own node, then ends the worker and starts another.
func (s *scenarioRun) crashWorker(t *testing.T, how end, targets []target, states ...state) {
	t.Helper()
	arrived := s.reachAll(t, targets, states...)
	for _, at := range arrived {
		if at.beforeCrash != nil {
			at.beforeCrash()
		}
	}
	var crashes []crash
	for i, state := range states {
		crashes = append(crashes, crash{state, how.how, s.awaitPending(t, arrived[i].workflow, state.activity)})
	}
	require.NoError(t, how.worker(s.Worker))
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).RemoveAll()
	}
	for _, c := range crashes {
		t.Logf("%s in %s; pending: %q", c.how, c.state, c.pending)
		if c.activity != "" {
			require.Contains(t, c.pending, c.activity, "the worker did not end in state %s", c.state)
		} else {
			require.Empty(t, slices.DeleteFunc(slices.Clone(c.pending), ofObject), "the worker did not end in state %s", c.state)
		}
	}
	s.crashes = append(s.crashes, crashes...)
	require.NoError(t, s.Worker.Start(t.Context()))
	for _, at := range arrived {
		if at.unblock != nil {
			at.unblock()
		}
	}
}

// ofObject reports whether an activity runs beside the work because an object requests it.
func ofObject(activity string) bool {
	return activity == "AwaitOtherPlan" || activity == "PublishStatus"
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
	for _, c := range crashes {
		t.AppendRow(table.Row{c.workflow, c.state.state, c.moment, c.how, strings.Join(c.pending, ", ")})
	}
	t.Render()
}

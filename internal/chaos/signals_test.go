package chaos

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// signals are scenarios with repeated, reordered and late signals, and with cancels in every state.
func signals() []scenario {
	all := []scenario{
		{name: "a requestor repeats its signals in the wrong order", short: true, run: repeatedRequestorSignals},
		{name: "a requestor is done before the node is ready", run: doneBeforeReady},
		{name: "a rollout receives repeated signals in the wrong order", short: true, run: repeatedRolloutSignals},

		{name: "maintenances are cancelled in every state", run: cancelMaintenances},
	}
	for _, m := range rolloutMoments() {
		all = append(all, cancelRollouts(m))
	}
	return all
}

// repeatedRequestorSignals: signals that do not apply to the state have no effect.
func repeatedRequestorSignals(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll()})
	s.awaitWaiting(t, w.workflow, "Drain")
	s.signalAll(t, w.workflow, temporal.SignalRecover, temporal.SignalFail, temporal.SignalRecover)
	endTermination(t, at, pod)
	s.awaitPhase(t, w.workflow, string(maintenancev1.NodeReady))
	s.signalAll(t, w.workflow, temporal.SignalRecover, temporal.SignalFail, temporal.SignalFail)
	s.awaitPhase(t, w.workflow, string(maintenancev1.NodeRequestorFailed))
	s.signalAll(t, w.workflow, temporal.SignalRecover, temporal.SignalRecover, temporal.SignalDone, temporal.SignalDone, temporal.SignalFail)
	s.requireEnd(t, w)
	s.requireSignalsRefused(t, w.workflow, temporal.SignalDone, temporal.SignalCancel, temporal.SignalFail, temporal.SignalRecover)
	for _, verb := range []string{"done", "cancel", "fail"} {
		s.requireRefused(t, commandAbout(verb, w.workflow)...)
	}
}

// doneBeforeReady: the node returns to service.
func doneBeforeReady(t *testing.T, s *scenarioRun) {
	at, w, unblock := s.blockedDrain(t)
	w.end = cancelled
	s.signalAll(t, w.workflow, temporal.SignalDone, temporal.SignalDone)
	s.requireEnd(t, w)
	unblock()
	s.requireNode(t, at, "is ready", ready)
}

// repeatedRolloutSignals: the last of pause and resume applies, and enable applies once.
func repeatedRolloutSignals(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(false) }, at.node, "worker-2")
	s.awaitCompleted(t, w.workflow, "PlanRollout")
	s.signalAll(t, w.workflow, temporal.SignalResume, temporal.SignalPause, temporal.SignalPause, temporal.SignalEnable, temporal.SignalEnable)
	s.requireNothingDone(t, at.spoke)
	s.signalAll(t, w.workflow, temporal.SignalResume, temporal.SignalResume)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	s.signalAll(t, w.workflow, temporal.SignalPause, temporal.SignalPause, temporal.SignalEnable, temporal.SignalResume, temporal.SignalResume)
	endTermination(t, at, pod)
	s.requireEnd(t, w)
	s.requireSignalsRefused(t, w.workflow, temporal.SignalPause, temporal.SignalResume, temporal.SignalEnable, temporal.SignalCancel)
	for _, verb := range []string{"pause", "resume", "enable", "cancel"} {
		s.requireRefused(t, commandAbout(verb, w.workflow)...)
	}
}

// signalAll sends signals. A workflow may close after the first SignalDone.
func (s *scenarioRun) signalAll(t *testing.T, workflow string, signals ...string) {
	t.Helper()
	for i, signal := range signals {
		err := s.temporal.SignalWorkflow(t.Context(), workflow, "", signal, temporal.SignalRequest{Actor: "ann", Reason: s.name})
		if _, closed := errors.AsType[*serviceerror.NotFound](err); closed && slices.Contains(signals[:i], temporal.SignalDone) {
			return
		}
		require.NoError(t, err, signal)
	}
}

// requireSignalsRefused requires that a closed workflow accepts no signals.
func (s *scenarioRun) requireSignalsRefused(t *testing.T, workflow string, signals ...string) {
	t.Helper()
	for _, signal := range signals {
		err := s.temporal.SignalWorkflow(t.Context(), workflow, "", signal, nil)
		_, closed := errors.AsType[*serviceerror.NotFound](err)
		require.True(t, closed, "%s after the end of %s: %v", signal, workflow, err)
	}
}

// requireRefused requires that a command about a closed workflow fails with an error of one line.
func (s *scenarioRun) requireRefused(t *testing.T, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := s.Command(t.Context(), args...)
	cmd.Stderr = &stderr
	_, failed := errors.AsType[*exec.ExitError](cmd.Run())
	require.True(t, failed, "drydock %v after the end", args)
	require.Contains(t, stderr.String(), "error: ")
	require.Len(t, strings.Split(strings.TrimSpace(stderr.String()), "\n"), 1, stderr.String())
}

// requireNothingDone requires that this scenario changed nothing on a spoke.
func (s *scenarioRun) requireNothingDone(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	for _, action := range fleet.ActionsOf(devstacktest.AuditEvents(t, spoke)) {
		require.False(t, action.ByDrydock() && action.At.After(s.began), "%s of %s", action.What, action.Object)
	}
}

// cancelMaintenances: a cancelled maintenance ends although it is blocked. One that is already cleaning up ends when its locks are active.
func cancelMaintenances(t *testing.T, s *scenarioRun) {
	states := nodeWaits()
	at := s.targets(t, len(states))
	end := func(st state, _ *work) string {
		if st.state == string(maintenancev1.NodeRequestorFailed) {
			return st.state // it has already failed
		}
		return cancelled
	}
	s.cancelIn(t, at, end, slices.DeleteFunc(states, func(st state) bool {
		return st.state == string(maintenancev1.NodeCleaningUp)
	})...)
}

// cancelRollouts is a scenario in which rollouts, or their clusters, are cancelled in the states of a moment. A rollout with only a
// cancelled cluster has failed.
func cancelRollouts(m moment) scenario {
	return scenario{name: "work is cancelled while " + m.when, run: func(t *testing.T, s *scenarioRun) {
		s.cancelIn(t, s.oneNodePerSpoke(), func(st state, w *work) string {
			switch {
			case st.state == string(ranv1.StepCleaningUp), st.state == afterCompletion:
				return w.end // the cancel is late
			case st.workflow == temporal.ClusterUpgrade:
				return ranv1.ReasonFailed
			}
			return cancelled
		}, m.states...)
	}}
}

// cancelIn brings work into all states at the same time and cancels its workflows. Stopped requests are released; other blocks stay until the work
// has ended.
func (s *scenarioRun) cancelIn(t *testing.T, targets []target, end func(state, *work) string, states ...state) {
	t.Helper()
	arrived := make([]reached, len(states))
	var reaching sync.WaitGroup
	for i, st := range states {
		reaching.Go(func() { arrived[i] = st.reach(t, s, targets[i]) })
	}
	reaching.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i, st := range states {
		w := s.workOf(t, arrived[i].workflow)
		w.end = end(st, w)
		s.cancel(t, i, arrived[i].workflow)
	}
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).RemoveAll()
	}
	s.requireEnds(t)
	for _, spoke := range s.Spokes {
		s.clear(t, spoke)
	}
}

// workOf returns the work of a workflow.
func (s *scenarioRun) workOf(t *testing.T, workflow string) *work {
	t.Helper()
	i := slices.IndexFunc(s.works, func(w *work) bool { return workflow == w.workflow || strings.HasPrefix(workflow, w.workflow+"/") })
	require.GreaterOrEqual(t, i, 0, workflow)
	return s.works[i]
}

// cancel cancels a workflow in one of several ways: with a signal, with Temporal's cancellation, twice, or with the CLI.
func (s *scenarioRun) cancel(t *testing.T, way int, workflow string) {
	t.Helper()
	command := commandAbout("cancel", workflow)
	switch {
	case way%4 == 3 && command != nil:
		s.drydock(t, command...)
	case way%4 == 2:
		s.signalAll(t, workflow, temporal.SignalCancel, temporal.SignalCancel)
	case way%4 == 1:
		require.NoError(t, s.temporal.CancelWorkflow(t.Context(), workflow, ""))
	default:
		s.signal(t, workflow, temporal.SignalCancel)
	}
}

// commandAbout returns the drydock command for a workflow; nil if there is none.
func commandAbout(verb, workflow string) []string {
	switch parts := strings.Split(workflow, "/"); {
	case parts[0] == "node":
		return []string{"node", verb, parts[3], "--cluster", parts[1], "-n", parts[2]}
	case parts[0] == "cgu" && len(parts) == 3:
		return []string{"upgrade", verb, parts[2], "-n", parts[1]}
	}
	return nil
}

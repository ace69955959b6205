package nodemaintenance

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// drain drains the node. With onDrainTimeout Retry it is repeated until it succeeds or is cancelled. Each attempt has more time than the one before and
// reports less often, so that an endless drain does not fill the history.
func (m *nodeMaintenance) drain(ctx workflow.Context) error {
	if m.spec.DrainSpec == nil {
		return nil
	}
	if err := m.awaitRelease(ctx); err != nil {
		return err
	}
	m.warn("")
	m.enter(ctx, drainNode)
	m.record.stages.Begin(ctx, maintenancev1.StageKubernetesDrained)
	in := &drain.Input{NodeRef: m.node, NodeUID: m.state.Node.UID, Cordoned: m.cordons()}
	m.state.Drain = in
	for pause := LockRefusedPause; m.spec.DrainSpec != nil; pause = min(2*pause, LockRefusedPauseLimit) {
		in.Attempt, in.Spec = in.Attempt+1, *m.spec.DrainSpec
		if m.unwanted() {
			return m.endDrain(ctx, in)
		}
		edited, err := m.unlessEdited(ctx, func(ctx workflow.Context) error {
			return m.whenReleased(ctx, func() error {
				in.Deadline, in.Closes = kit.DeadlineIn(ctx, drainTimeout(in.Spec, in.Attempt)), m.holds.Closes(m.in.Cluster)
				return m.tryToDrain(ctx, m.retrierUntilHeld(), in)
			})
		})
		if edited && m.unwanted() {
			continue
		}
		if edited {
			if m.in.Source != nil { // the note of another edit names its actor
				m.record.note(fmt.Sprintf("draining again: the request was edited (generation %d)", m.state.Object.Generation))
			}
			continue
		}
		if m.drainsAgain(err) {
			m.record.note("draining again: " + temporal.ErrorMessage(err))
			if temporal.ErrorType(err) == temporal.ErrDrainTimedOut {
				continue // after the time of the drain
			}
			if err = m.pauseAfter(ctx, err, pause); err == nil {
				continue
			}
		}
		m.record.stages.End(ctx, maintenancev1.StageKubernetesDrained, err, "")
		return err
	}
	m.record.stages.End(ctx, maintenancev1.StageKubernetesDrained, nil, "the drain was removed from the request")
	return nil
}

// drainsAgain reports whether the drain is repeated after an error. The requestor of an object may know no drain that fails: its request also waits for
// pods that may not be evicted.
func (m *nodeMaintenance) drainsAgain(err error) bool {
	switch temporal.ErrorType(err) {
	case temporal.ErrDrainTimedOut:
		return m.spec.OnDrainTimeout == maintenancev1.DrainTimeoutRetry
	case temporal.ErrPodsNotEvictable:
		return m.spec.OnDrainTimeout == maintenancev1.DrainTimeoutRetry && m.in.Source != nil
	}
	return false
}

// endDrain ends a drain that no requestor waits for. An attempt without time evicts nothing, and tells whether all pods have left: only then may
// requestors have worked on the node.
func (m *nodeMaintenance) endDrain(ctx workflow.Context, in *drain.Input) error {
	in.Deadline, in.Closes = new(workflow.Now(ctx)), nil
	err := m.tryToDrain(ctx, m.retrier(), in)
	switch temporal.ErrorType(err) {
	case temporal.ErrDrainTimedOut, temporal.ErrPodsNotEvictable:
		m.settleDone(false)
		err = nil
	}
	m.record.stages.End(ctx, maintenancev1.StageKubernetesDrained, err, "no requestor waits for it")
	return err
}

func (m *nodeMaintenance) tryToDrain(ctx workflow.Context, retrier kit.Retrier, in *drain.Input) error {
	m.record.log.Info("Drain attempt started", "attempt", in.Attempt)
	var result maintenancev1.DrainStatus
	err := m.awaitWith(ctx, retrier, "Drain", "drain "+m.node.Node, in.Deadline, temporal.ErrDrainTimedOut, m.drains.Drain, in, &result)
	if err == nil {
		m.state.Status.Drain = &result
	}
	m.logDrain("Drain attempt ended", m.state.Status.Drain, "error", err)
	return err
}

// observeDrain records the progress of the drain.
func (m *nodeMaintenance) observeDrain(status *maintenancev1.DrainStatus) {
	m.state.Status.Drain, m.state.Drain.Before = status, status
	m.state.Drain.Reports++
	m.logDrain("Drain progressed", status)
}

func (m *nodeMaintenance) logDrain(message string, status *maintenancev1.DrainStatus, more ...any) {
	if status != nil {
		more = append([]any{"evicted", status.Evicted, "evictionPods", status.EvictionPods, "blocked", len(status.Blocked)}, more...)
	}
	m.record.log.Info(message, append([]any{"attempt", m.state.Drain.Attempt}, more...)...)
}

// drainTimeout returns the limit of a drain attempt in seconds. The default of the first attempt is 300. Each further attempt has twice the time of the
// one before, up to the limit of any wait.
func drainTimeout(spec maintenancev1.DrainSpec, attempt int32) int32 {
	const longest = int32(kit.UnlimitedWait / time.Second)
	timeout := int32(300)
	if spec.TimeoutSeconds != nil {
		timeout = *spec.TimeoutSeconds
	}
	for ; attempt > 1 && timeout < longest; attempt-- {
		timeout = min(2*timeout, longest)
	}
	return timeout
}

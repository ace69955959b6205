package nodemaintenance

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// awaitPodCompletion lets the pods that are chosen for that end by themselves. When its time is over it goes on, also if nobody can look which are left: the
// drain looks for itself.
func (m *nodeMaintenance) awaitPodCompletion(ctx workflow.Context) error {
	if m.spec.WaitForPodCompletion == nil {
		return nil
	}
	m.record.enter(ctx, maintenancev1.NodeWaitForPodCompletion)
	in := drain.AwaitPodCompletionInput{
		NodeRef: m.node, NodeUID: m.nodeUID, Spec: *m.spec.WaitForPodCompletion, Drain: m.spec.DrainSpec, Cordoned: m.cordons(),
	}
	in.Deadline = kit.DeadlineIn(ctx, in.Spec.TimeoutSeconds)
	var result drain.AwaitPodCompletionResult
	err := m.await(ctx, "AwaitPodCompletion", "wait for pods of "+m.node.Node+" to finish", in.Deadline, temporal.ErrPodCompletionUnseen,
		m.drains.AwaitPodCompletion, in, &result)
	if result.Uncordoned {
		m.record.note("went on although somebody has uncordoned the node, and pods may come to it")
	}
	switch {
	case len(result.Remaining) > 0:
		m.record.note("went on without waiting longer for " + kit.JoinNames(result.Remaining))
	case temporal.ErrorType(err) == temporal.ErrPodCompletionUnseen:
		m.record.note("went on without knowing which pods have ended by themselves: " + temporal.ErrorMessage(err) + lastSeen(m.status.WaitForCompletion))
		err = nil
	}
	m.status.WaitForCompletion = nil
	return err
}

// lastSeen adds the pods to a message that were there when somebody could look.
func lastSeen(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return "; when they were seen last these had not: " + kit.JoinNames(pods)
}

// drain empties the node. With onDrainTimeout Retry it tries until it succeeds or is cancelled. Further attempts have more time, and report less often,
// so that one that cannot end does not fill its workflow's history.
func (m *nodeMaintenance) drain(ctx workflow.Context) error {
	if m.spec.DrainSpec == nil {
		return nil
	}
	if err := m.awaitRelease(ctx); err != nil {
		return err
	}
	m.record.enter(ctx, maintenancev1.NodeDraining)
	m.record.stages.Begin(ctx, maintenancev1.StageKubernetesDrained)
	in := &drain.Input{NodeRef: m.node, NodeUID: m.nodeUID, Spec: *m.spec.DrainSpec, Cordoned: m.cordons()}
	m.draining = in
	for {
		in.Attempt++
		err := m.whenReleased(ctx, func() error { return m.tryToDrain(ctx, in) })
		if temporal.ErrorType(err) == temporal.ErrDrainTimedOut && m.spec.OnDrainTimeout == maintenancev1.DrainTimeoutRetry {
			m.record.note("draining once more: " + temporal.ErrorMessage(err))
			continue
		}
		m.record.stages.End(ctx, maintenancev1.StageKubernetesDrained, err, "")
		return err
	}
}

func (m *nodeMaintenance) tryToDrain(ctx workflow.Context, in *drain.Input) error {
	in.Deadline, in.Closes = kit.DeadlineIn(ctx, drainTimeout(in.Spec, in.Attempt)), m.holds.Closes(m.in.Cluster)
	var result maintenancev1.DrainStatus
	err := m.awaitBy(ctx, m.retrierUntilHeld(), "Drain", "drain "+m.node.Node, in.Deadline, temporal.ErrDrainTimedOut, m.drains.Drain, in, &result)
	if err == nil {
		m.status.Drain = &result
	}
	return err
}

// drainTimeout is the limit of an attempt at a drain, in seconds: 300 for the first unless given, then twice that of the one before, up to as long as
// an attempt at any wait may take.
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

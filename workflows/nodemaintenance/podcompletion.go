package nodemaintenance

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// awaitPodCompletion waits until the selected pods finish. After the timeout the maintenance continues, even if the remaining pods are unknown: the drain
// lists them itself.
func (m *nodeMaintenance) awaitPodCompletion(ctx workflow.Context) error {
	for m.spec.WaitForPodCompletion != nil {
		m.enter(ctx, awaitCompletion)
		if edited, err := m.unlessEdited(ctx, m.awaitPods); !edited {
			return err
		}
	}
	return nil
}

func (m *nodeMaintenance) awaitPods(ctx workflow.Context) error {
	in := drain.AwaitPodCompletionInput{
		NodeRef: m.node, NodeUID: m.state.Node.UID, Spec: *m.spec.WaitForPodCompletion, Drain: m.spec.DrainSpec, Cordoned: m.cordons(),
	}
	in.Deadline = kit.DeadlineIn(ctx, in.Spec.TimeoutSeconds)
	var result drain.AwaitPodCompletionResult
	err := m.await(ctx, "AwaitPodCompletion", "wait for pods of "+m.node.Node+" to finish", in.Deadline, temporal.ErrPodCompletionUnseen,
		m.drains.AwaitPodCompletion, in, &result)
	m.record.log.Info("Wait for pods to finish ended", "remaining", len(result.Remaining), "error", err)
	if result.Uncordoned {
		m.record.note("continued although the node was uncordoned manually, and pods may come to it")
	}
	switch {
	case len(result.Remaining) > 0:
		m.record.note("continued without waiting longer for " + kit.JoinNames(result.Remaining))
	case temporal.ErrorType(err) == temporal.ErrPodCompletionUnseen:
		m.record.note("continued without knowing which pods have finished: " + temporal.ErrorMessage(err) + lastSeen(m.state.Status.WaitForCompletion))
		err = nil
	}
	m.state.Status.WaitForCompletion = nil
	return err
}

// lastSeen returns the end of a message with the last observed pods.
func lastSeen(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return "; when they were seen last these had not: " + kit.JoinNames(pods)
}

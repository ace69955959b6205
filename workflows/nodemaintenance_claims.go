package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// takeClaim takes in that another maintenance wants to share the node, and how its requestors stand.
func (m *nodeMaintenance) takeClaim(ctx workflow.Context, claim scheduling.Claim) {
	if claim.To != m.slots.asker {
		return // it is for one that had this id before
	}
	m.early = slices.DeleteFunc(m.early, func(c scheduling.Claim) bool { return c.From.WorkflowID == claim.From.WorkflowID })
	known := m.requestors.joined(claim.From.WorkflowID)
	switch {
	case known != nil && known.joiner == claim.From && !known.rejoins(claim):
		m.heed(known, claim)
		m.share(ctx, claim.From, "")
	case !claim.State.NeedsNode():
	case m.slots.waits():
		m.answerWhenGranted(ctx, claim)
	default:
		m.answer(ctx, claim)
	}
}

// answer lets another maintenance share the node, or says why not.
func (m *nodeMaintenance) answer(ctx workflow.Context, claim scheduling.Claim) {
	coverage := m.covers(claim)
	if coverage.Covered {
		// An earlier maintenance of that id must be over, or is one that had left.
		m.requestors.all = slices.DeleteFunc(m.requestors.all, func(r *requestor) bool { return r.Maintenance == claim.From.WorkflowID })
		m.admit(ctx, claim)
	}
	m.share(ctx, claim.From, coverage.Reason)
}

// grantOnItsWay is how long a grant may take longer than the claim of somebody whom the scheduler has told, in the same moment, who has the node.
const grantOnItsWay = 10 * time.Second

// answerWhenGranted answers a claim that may have overtaken the grant that it is about. Nobody waits for that for long: whoever claims may have the
// slot by now that this maintenance waits for.
func (m *nodeMaintenance) answerWhenGranted(ctx workflow.Context, claim scheduling.Claim) {
	m.early = append(m.early, claim)
	workflow.GoNamed(ctx, "answer "+claim.From.WorkflowID, func(ctx workflow.Context) {
		err := awaitFor(ctx, grantOnItsWay, "for the grant that "+claim.From.WorkflowID+" knows of", func() bool { return !m.slots.waits() || m.returning })
		at := slices.IndexFunc(m.early, func(c scheduling.Claim) bool { return c.From == claim.From && c.Number == claim.Number })
		if err == nil && at >= 0 { // it has not been said again, or taken back, meanwhile
			m.early = slices.Delete(m.early, at, at+1)
			m.answer(ctx, claim)
		}
	})
}

func (m *nodeMaintenance) covers(claim scheduling.Claim) scheduling.Coverage {
	switch {
	case m.in.Parent != "":
		return scheduling.Coverage{Reason: "it is part of the rollout " + m.in.Parent + ", which does not wait for others"}
	case m.returning:
		return scheduling.Coverage{Reason: "it is returning the node"}
	case !m.slots.granted(m.in.Object.Namespace, m.in.Object.Name):
		return scheduling.Coverage{Reason: "it does not have the node"}
	case m.openNode():
		return scheduling.Coverage{Reason: "somebody has uncordoned the node since, so that it may not be drained any more"}
	}
	return scheduling.Covers(m.spec, m.status.State, claim.Spec)
}

// admit adds a requestor that joins, and looks after it: whoever ends without a word needs the node no longer.
func (m *nodeMaintenance) admit(ctx workflow.Context, claim scheduling.Claim) {
	joined := &requestor{
		RequestorStatus: maintenancev1.RequestorStatus{RequestorID: claim.Spec.RequestorID, Maintenance: claim.From.WorkflowID, State: claim.State},
		joiner:          claim.From, claim: claim.Number, keepsOnFailure: claim.Spec.OnFailure == maintenancev1.FailureKeepCordoned,
	}
	m.requestors.all = append(m.requestors.all, joined)
	m.requestors.publish()
	m.record.note(joined.RequestorID + " joined with " + joined.Maintenance)
	m.lookAfterJoined(ctx, joined)
}

// lookAfterJoined looks whether the maintenance of a requestor that joined goes on, for as long as that needs the node.
func (m *nodeMaintenance) lookAfterJoined(ctx workflow.Context, joined *requestor) {
	watching, stop := workflow.WithCancel(ctx)
	workflow.GoNamed(watching, "look after "+joined.Maintenance, func(ctx workflow.Context) {
		if _, err := m.awaitEnd(ctx, joined.joiner); err == nil && joined.State.NeedsNode() {
			if m.status.HandedOver && joined.keepsOnFailure { // nobody can say any more that its work has not failed
				m.keepFor = joined
			}
			m.requestors.set(joined, maintenancev1.RequestorLeft, "its maintenance is over")
			m.withdrawUnneeded()
		}
	})
	workflow.GoNamed(ctx, "until "+joined.RequestorID+" is done", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return !joined.State.NeedsNode() })
		stop()
	})
}

// heed takes in how a requestor that joined stands now.
func (m *nodeMaintenance) heed(joined *requestor, claim scheduling.Claim) {
	if claim.Number <= joined.claim {
		return
	}
	joined.claim = claim.Number
	if !joined.State.NeedsNode() {
		return
	}
	if claim.State == maintenancev1.RequestorLeft && joined.State == maintenancev1.RequestorFailed && joined.keepsOnFailure {
		m.keepFor = joined
	}
	m.requestors.set(joined, claim.State, claim.Message)
	m.withdrawUnneeded()
}

// share tells a maintenance that wants to share the node how that is, or why it is refused.
func (m *nodeMaintenance) share(ctx workflow.Context, with scheduling.Asker, refused string) {
	m.shares++
	share := scheduling.Share{
		From: m.slots.asker, To: with, Number: m.shares, Refused: refused, Later: refused != "" && m.mayShareLater(),
		State: m.status.State, Ready: m.status.HandedOver && refused == "",
	}
	// One that is over needs not be told: nothing to do about an error.
	m.unheard++
	told := workflow.SignalExternalWorkflow(ctx, with.WorkflowID, "", temporal.SignalShare, share)
	workflow.GoNamed(ctx, "share with "+with.WorkflowID, func(ctx workflow.Context) {
		_ = told.Get(ctx, nil)
		m.unheard--
	})
}

// mayShareLater reports whether what stands in the way of sharing the node may pass: the maintenance has no slot, and waits for one, or will, or the node
// is to be cordoned again.
func (m *nodeMaintenance) mayShareLater() bool {
	return m.in.Parent == "" && !m.returning && (!m.slots.granted(m.in.Object.Namespace, m.in.Object.Name) || m.openNode())
}

// openNode reports whether somebody has uncordoned the node since it was handed over.
func (m *nodeMaintenance) openNode() bool { return m.status.HandedOver && m.ready.Uncordoned }

// shareStates tells those that joined how the node stands, whenever that changes.
func (m *nodeMaintenance) shareStates(ctx workflow.Context) {
	state, handedOver := m.status.State, m.status.HandedOver
	for workflow.Await(ctx, func() bool { return m.status.State != state || m.status.HandedOver != handedOver }) == nil {
		state, handedOver = m.status.State, m.status.HandedOver
		m.shareWithAll(ctx, "")
	}
}

// shareWithAll tells those that joined and need the node.
func (m *nodeMaintenance) shareWithAll(ctx workflow.Context, refused string) {
	for _, r := range m.requestors.sharing() {
		m.share(ctx, r.joiner, refused)
	}
}

// partWithAll tells those that joined that the node is on its way back, though they need it.
func (m *nodeMaintenance) partWithAll(ctx workflow.Context, err error) {
	m.returning = true
	reason := "it is returning the node"
	if err != nil && m.status.Failure != nil {
		reason += ": " + m.status.Failure.Message
	}
	m.part(ctx, reason)
}

// part tells those that joined and need the node why it is not shared any more. They wait for a slot of their own then.
func (m *nodeMaintenance) part(ctx workflow.Context, reason string) {
	m.shareWithAll(ctx, reason)
	for _, r := range m.requestors.sharing() {
		m.requestors.set(r, maintenancev1.RequestorLeft, reason)
	}
}

// giveSlotBack gives the slot back, or the request for it, of a node that was not taken. Whoever gets the node then knows nothing of those that joined.
func (m *nodeMaintenance) giveSlotBack(ctx workflow.Context, why string) {
	m.slots.release(scheduling.Release{Namespace: m.in.Object.Namespace, Name: m.in.Object.Name})
	m.part(ctx, why)
	m.withdrawUnneeded()
}

// awaitEnd waits until another maintenance is over, which is asked and not guessed.
func (m *nodeMaintenance) awaitEnd(ctx workflow.Context, other scheduling.Asker) (activities.Ending, error) {
	var ending activities.Ending
	hub := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}}
	err := hub.wait(ctx, "until "+other.WorkflowID+" is over", nil, "", m.scheduler.AwaitEnd, other, &ending)
	return ending, err
}

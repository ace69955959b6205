package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// ReasonJoined is why a maintenance waits that shares the node of another one, which prepares it.
const ReasonJoined = "Joined"

// sharing is how a maintenance that waits for a node stands with the one that has it.
type sharing struct {
	// holder is the maintenance that was asked to share; the zero value: none was.
	holder scheduling.Asker
	// heard is the last that it told.
	heard scheduling.Share
	// joined: it shares the node. lost is why it does no longer.
	joined bool
	lost   string
	// unplanned: the node does not say any more that this one waits for its turn.
	unplanned bool
	// ended is how the holder ended, once it has.
	ended *activities.Ending
	// vain: nothing came of it, and nobody waits for a slot instead.
	vain bool

	// said is what the holder was told last, number how many claims there were. again is the pause before the last that only said once more what was said.
	said   maintenancev1.RequestorState
	number int64
	again  time.Duration
	// want is what it is to be told.
	want    maintenancev1.RequestorState
	telling bool
	version int
}

// tellHolder tells the holder how our requestors stand, one message after the other, until ctx is cancelled.
func (m *nodeMaintenance) tellHolder(ctx workflow.Context) {
	s := &m.sharing
	for m.awaitClaim(ctx) == nil {
		s.number++
		s.said, s.telling = s.want, true
		claim := scheduling.Claim{
			From: m.slots.asker, To: s.holder, Number: s.number, Spec: m.spec, State: s.want, Message: cmp.Or(m.requestors.own().Message, s.lost),
		}
		// One that is over is found out otherwise.
		_ = workflow.SignalExternalWorkflow(ctx, s.holder.WorkflowID, "", temporal.SignalClaim, claim).Get(ctx, nil)
		s.telling = false
	}
}

// awaitClaim waits until the holder has to be told how our requestors stand: that has changed, or there is no answer, and what was said may be lost. It is
// asked again as a slot is: soon, and then less and less often.
func (m *nodeMaintenance) awaitClaim(ctx workflow.Context) error {
	s := &m.sharing
	for {
		err := workflow.Await(ctx, func() bool { return s.want != s.said || m.unanswered() })
		if err != nil || s.want != s.said {
			return err
		}
		pause := min(max(2*s.again, askAgainFirst), askAgainAtMost)
		err = awaitFor(ctx, pause, "ask "+s.holder.WorkflowID+" again to share "+m.node.Node, func() bool { return s.want != s.said || !m.unanswered() })
		switch {
		case err != nil || s.want != s.said:
			return err
		case m.unanswered():
			s.again = pause
			return nil
		}
	}
}

// unanswered reports whether the holder was asked to share the node that it has, and has not said yet whether it does.
func (m *nodeMaintenance) unanswered() bool {
	s, has := &m.sharing, m.in.Join
	if has == nil {
		has = m.slots.holder
	}
	return s.said.NeedsNode() && !s.joined && s.lost == "" && (s.heard.Number == 0 || s.heard.Later) && has != nil && *has == s.holder
}

// takeShare takes in what the holder tells.
func (m *nodeMaintenance) takeShare(share scheduling.Share) {
	s := &m.sharing
	if share.To != m.slots.asker || share.From != s.holder || share.Number <= s.heard.Number {
		return
	}
	s.heard = share
	s.version++
	switch {
	case share.Refused == "" && s.want.NeedsNode() && s.lost == "":
		s.joined = true
	case share.Refused != "" && s.joined:
		s.lost = share.Refused
	}
}

// askToShare asks who has the node to share it. A rollout is not asked: it does not wait for others.
func (m *nodeMaintenance) askToShare() {
	holder := m.slots.holder
	if holder == nil || *holder == m.sharing.holder {
		return
	}
	if _, _, _, rollout := temporal.ParseClusterUpgradeID(holder.WorkflowID); rollout {
		m.sharing = sharing{holder: *holder, number: m.sharing.number, heard: scheduling.Share{Refused: "it belongs to a rollout, which does not wait for others"}}
		return
	}
	m.sharing = sharing{holder: *holder, number: m.sharing.number, want: maintenancev1.RequestorAtWork}
}

// turnWait is why the maintenance waits for its turn, and why it cannot join the one that has the node.
func (m *nodeMaintenance) turnWait() *drydockv1.Wait {
	wait := cmp.Or(m.slots.trouble, m.slots.wait)
	if refused := m.sharing.heard.Refused; wait != nil && wait == m.slots.wait && m.slots.holder != nil && *m.slots.holder == m.sharing.holder && refused != "" {
		told := *wait
		told.Message += "; " + m.sharing.holder.WorkflowID + " cannot be joined: " + refused
		return &told
	}
	return wait
}

// useShared works on the node of another maintenance, which has it cordoned and drained, and returns it when all are done. It ends without an error
// when the requestors are done, or the node is lost.
func (m *nodeMaintenance) useShared(ctx workflow.Context) error {
	return within(ctx, func(watching workflow.Context) error {
		m.lookAfterHolder(watching)
		m.giveSlotBack(ctx, "it shares the node of "+m.sharing.holder.WorkflowID+" itself")
		return m.workTogether(ctx)
	})
}

// lookAfterHolder looks whether the holder goes on, until ctx is cancelled.
func (m *nodeMaintenance) lookAfterHolder(ctx workflow.Context) {
	s, holder := &m.sharing, m.sharing.holder
	workflow.GoNamed(ctx, "look after "+holder.WorkflowID, func(ctx workflow.Context) {
		ending, err := m.awaitEnd(ctx, holder)
		if err != nil || s.holder != holder {
			return
		}
		s.ended, s.version = &ending, s.version+1
		if s.lost == "" {
			s.lost = "it is over"
		}
	})
}

// workTogether works on the node of the holder, unless that is lost.
func (m *nodeMaintenance) workTogether(ctx workflow.Context) error {
	s := &m.sharing
	m.status.JoinedTo = s.holder.WorkflowID
	m.record.note("joined " + s.holder.WorkflowID + ", which has the node")
	if err := m.awaitHandOver(ctx); err != nil {
		return err
	}
	if s.lost == "" && m.plans() {
		if err := m.withdrawPlan(ctx); err != nil {
			return err
		}
		if err := m.awaitHandOver(ctx); err != nil { // that may have taken long
			return err
		}
	}
	m.record.reason.replace(nil)
	if s.lost == "" {
		m.setBegun(true) // the node is out of service for this one, too
		if err := m.work(ctx); err != nil {
			return err
		}
	}
	if s.lost != "" && (m.in.Join != nil || m.requestors.needed()) {
		return m.lose(ctx)
	}
	return nil
}

// plans reports whether the node says that this maintenance waits for its turn. A rollout's does not wait: it has its turn, or joins.
func (m *nodeMaintenance) plans() bool {
	return m.marked
}

// withdrawPlan takes back what plan did, as the cordon does for a maintenance that takes the node itself.
func (m *nodeMaintenance) withdrawPlan(ctx workflow.Context) error {
	m.sharing.unplanned = true
	return m.insist().effect(ctx, "mark "+m.node.Node+" as no longer planned", m.nodes.WithdrawPlan, m.node, nil)
}

// awaitHandOver waits until the holder has prepared the node, unless that is lost. The holder is left when a window closes before: it would be held up
// until the next opening. Whoever has no work on the node holds up nobody.
func (m *nodeMaintenance) awaitHandOver(ctx workflow.Context) error {
	s := &m.sharing
	for s.lost == "" {
		hold := m.holds.of(m.in.Cluster)
		switch shut := m.shut(); {
		case shut != nil && !m.in.DoneWhenReady:
			return m.leaveUntilOpening(ctx, *shut)
		case s.heard.Ready && (hold == nil || m.in.DoneWhenReady):
			return nil
		case s.heard.Ready:
			m.record.reason.hold(ctx, *hold)
		default:
			m.record.reason.set(ctx, ReasonJoined, s.holder.WorkflowID+" prepares node "+m.node.Node+" for both, and is "+string(s.heard.State))
		}
		version, number := s.version, m.holds.number()
		if err := workflow.Await(ctx, func() bool { return s.version != version || m.holds.number() != number }); err != nil {
			return err
		}
	}
	return nil
}

// leaveUntilOpening leaves a holder because a window has closed. It may be joined again when the window opens.
func (m *nodeMaintenance) leaveUntilOpening(ctx workflow.Context, hold drydockv1.Hold) error {
	m.sharing.lost = hold.Reason
	m.leaveHolder(ctx)
	if ctx.Err() == nil {
		m.sharing.holder = scheduling.Asker{}
	}
	return ctx.Err()
}

// lose gives up a node that the holder does not share any more: the maintenance waits for its own turn again.
func (m *nodeMaintenance) lose(ctx workflow.Context) error {
	m.record.note("does not share the node of " + m.status.JoinedTo + " any more: " + m.sharing.lost)
	m.status.JoinedTo = ""
	m.setBegun(false)
	m.record.stages.forget(maintenancev1.StageWorkDone)
	m.record.enter(ctx, maintenancev1.NodePending)
	if !m.sharing.unplanned {
		return nil
	}
	return m.plan(ctx)
}

// forgetHolder drops what is known of the one that shared the node. It is asked once more only if it waits for the node again, and has it then.
func (m *nodeMaintenance) forgetHolder() {
	before := m.sharing
	m.sharing = sharing{number: before.number}
	if !before.heard.Later {
		m.sharing.holder = before.holder
	}
}

// join shares the node that another maintenance has, for a rollout. What is the rollout's is done when the holder has returned the node well, as if it
// had been maintained for the rollout alone: until then the next batch would begin while the node is out of service.
func (m *nodeMaintenance) join(ctx workflow.Context) error {
	m.sharing.holder, m.sharing.want = *m.in.Join, maintenancev1.RequestorAtWork
	return within(ctx, func(watching workflow.Context) error {
		m.lookAfterHolder(watching)
		return m.shareUntilReturned(ctx)
	})
}

// shareUntilReturned asks the holder to share its node, and waits until the holder has returned it.
func (m *nodeMaintenance) shareUntilReturned(ctx workflow.Context) error {
	s := &m.sharing
	m.record.reason.set(ctx, ReasonJoined, s.holder.WorkflowID+" has node "+m.node.Node+", and is asked to share it")
	if err := workflow.Await(ctx, func() bool { return s.joined || s.heard.Refused != "" || s.lost != "" }); err != nil {
		return err
	}
	if !s.joined {
		m.record.note(s.holder.WorkflowID + " cannot be joined: " + cmp.Or(s.heard.Refused, s.lost))
		s.vain = true
		return nil
	}
	if err := m.workTogether(ctx); err != nil || s.lost != "" {
		s.vain = err == nil
		return err
	}
	m.record.reason.set(ctx, ReasonJoined, "the work on node "+m.node.Node+" is done; "+s.holder.WorkflowID+" returns it when all are done")
	if err := workflow.Await(ctx, func() bool { return s.ended != nil }); err != nil {
		return err
	}
	if s.vain = !s.ended.Completed; s.vain {
		return m.lose(ctx)
	}
	return nil
}

// informHolder keeps the holder informed of how our requestors stand.
func (m *nodeMaintenance) informHolder(ctx workflow.Context) {
	s := &m.sharing
	for workflow.Await(ctx, func() bool { return s.joined && s.lost == "" && s.want != m.requestors.sum() }) == nil {
		s.want = m.requestors.sum()
	}
}

// leaveHolder tells the one that was asked to share the node that it is not needed any more.
func (m *nodeMaintenance) leaveHolder(ctx workflow.Context) {
	s := &m.sharing
	if s.want == "" {
		return
	}
	if s.want = m.requestors.sum(); s.want.NeedsNode() {
		s.want = maintenancev1.RequestorLeft
	}
	_ = workflow.Await(ctx, func() bool { return s.want == s.said && !s.telling })
}

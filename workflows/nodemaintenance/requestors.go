package nodemaintenance

import (
	"slices"
	"strings"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// requestor needs a node: the one that asked for the maintenance, or an additional one.
type requestor struct {
	maintenancev1.RequestorStatus
	// failure of its work. One that left with it has not made it good.
	failure *WorkFailure
}

// WorkFailure is how the work of a requestor failed.
type WorkFailure struct {
	maintenancev1.Failure
	// Said is what was said of it, as the end of a sentence.
	Said string `json:"said,omitempty"`
}

// said is what was said of the failure; nothing where that is not known, as of one that an earlier program handed on.
func (f *WorkFailure) said() string {
	if f == nil {
		return ""
	}
	return f.Said
}

// spoken is what whoever says that the work failed says of it, as the end of a sentence.
func spoken(r temporal.SignalRequest) string {
	if r.Actor == "" {
		return kit.ActorSuffix(r)
	}
	return ", says" + strings.TrimPrefix(kit.ActorSuffix(r), " by")
}

// requestorKeeper keeps those who need a node: it is returned when the last of them does not any more.
type requestorKeeper struct {
	// all of them; the first is the one whose maintenance it is.
	all    []*requestor
	status *maintenancev1.NodeMaintenanceStatus
	show   func()
	// version counts the changes.
	version int
}

func newRequestorKeeper(spec maintenancev1.NodeMaintenanceSpec, status *maintenancev1.NodeMaintenanceStatus, show func()) *requestorKeeper {
	k := &requestorKeeper{status: status, show: show}
	for _, id := range append([]string{spec.RequestorID}, spec.AdditionalRequestors...) {
		k.all = append(k.all, &requestor{RequestorStatus: maintenancev1.RequestorStatus{RequestorID: id, State: maintenancev1.RequestorAtWork}})
	}
	k.publish()
	return k
}

func (k *requestorKeeper) own() *requestor { return k.all[0] }

// named finds a requestor; the empty name is that of the first. Nil: the maintenance has none of that name.
func (k *requestorKeeper) named(id string) *requestor {
	for _, r := range k.all {
		if id == "" || r.RequestorID == id {
			return r
		}
	}
	return nil
}

func (k *requestorKeeper) set(r *requestor, state maintenancev1.RequestorState, message string) {
	r.State, r.Message = state, strings.TrimSpace(strings.TrimPrefix(message, ":"))
	k.publish()
}

// publish shows them where there are several.
func (k *requestorKeeper) publish() {
	k.version++
	k.status.Requestors = nil
	for _, r := range k.all {
		if len(k.all) > 1 {
			k.status.Requestors = append(k.status.Requestors, r.RequestorStatus)
		}
	}
	k.show()
}

// who are those of whom a fact holds.
func (k *requestorKeeper) who(holds func(*requestor) bool) []*requestor {
	return slices.DeleteFunc(slices.Clone(k.all), func(r *requestor) bool { return !holds(r) })
}

// needed reports whether anybody needs the node still.
func (k *requestorKeeper) needed() bool { return len(k.who(needsNode)) > 0 }

func needsNode(r *requestor) bool { return r.State.NeedsNode() }

func hasFailed(r *requestor) bool { return r.State == maintenancev1.RequestorFailed }

// failing is one whose work has failed and who holds the node therefore; nil: there is none.
func (k *requestorKeeper) failing() *requestor {
	for _, r := range k.all {
		if r.State == maintenancev1.RequestorFailed {
			return r
		}
	}
	return nil
}

// worked reports whether any of them has finished work on the node.
func (k *requestorKeeper) worked() bool {
	return slices.ContainsFunc(k.all, func(r *requestor) bool { return r.State == maintenancev1.RequestorDone })
}

// names of requestors, for messages.
func names(requestors []*requestor) string {
	var texts []string
	for _, r := range requestors {
		texts = append(texts, r.RequestorID)
	}
	return kit.JoinNames(texts)
}

// spokenFor finds for whom a signal was sent, and notes when that is nobody of this maintenance.
func (m *nodeMaintenance) spokenFor(r temporal.SignalRequest, verb string) *requestor {
	who := m.requestors.named(r.Requestor)
	if who == nil {
		m.record.note(verb + " was said for " + r.Requestor + kit.ActorSuffix(r) + ", which is no requestor of this maintenance: nothing done")
	}
	return who
}

// said is what a note says of a signal that was sent for one of several requestors.
func (m *nodeMaintenance) said(verb string, who *requestor, r temporal.SignalRequest) string {
	if len(m.requestors.all) == 1 {
		return verb + " was said" + kit.ActorSuffix(r)
	}
	return verb + " was said for " + who.RequestorID + kit.ActorSuffix(r)
}

// takeDone takes in that a requestor has finished. Before the node is handed over that means it is not needed any more; later than
// that, and while a Job does the work, it changes nothing.
func (m *nodeMaintenance) takeDone(r temporal.SignalRequest) {
	switch who := m.spokenFor(r, "done"); {
	case who == nil || m.returning || !who.State.NeedsNode():
	case m.status.HandedOver:
		who.failure = nil
		m.requestors.set(who, maintenancev1.RequestorDone, kit.ActorSuffix(r))
		m.record.note(m.said("done", who, r))
		m.showFailure()
	case who == m.requestors.own() && m.status.State == maintenancev1.NodeReady:
		m.record.note(m.said("done", who, r) + ", but a job is at work: nothing done")
	default:
		m.leave("done", who, r)
	}
}

func (m *nodeMaintenance) takeFailure(r temporal.SignalRequest) {
	switch who := m.spokenFor(r, "fail"); {
	case who == nil:
	case !who.State.NeedsNode():
		m.record.note(m.said("fail", who, r) + ", but " + who.RequestorID + " does not need the node any more: nothing done")
	case !m.status.HandedOver:
		m.record.note(m.said("fail", who, r) + ", but the node is not handed over: nothing done")
	default:
		m.requestors.set(who, maintenancev1.RequestorFailed, kit.ActorSuffix(r))
		who.failure = &WorkFailure{Said: spoken(r)}
		who.failure.Failure = maintenancev1.Failure{Reason: "RequestorFailed", Message: "the work of " + who.RequestorID + " failed" + who.failure.Said}
		m.showFailure()
	}
}

func (m *nodeMaintenance) takeRecovery(r temporal.SignalRequest) {
	switch who := m.spokenFor(r, "recover"); {
	case who == nil:
	case who.State != maintenancev1.RequestorFailed:
		m.record.note(m.said("recover", who, r) + ", but the work of " + who.RequestorID + " has not failed: nothing done")
	default:
		who.failure = nil
		m.requestors.set(who, maintenancev1.RequestorAtWork, "")
		m.record.note(m.said("recover", who, r) + "; the work of " + who.RequestorID + ", which had failed, goes on")
		m.showFailure()
	}
}

// takeBack takes in that a requestor does not want the node any more.
func (m *nodeMaintenance) takeBack(r temporal.SignalRequest) {
	switch who := m.spokenFor(r, "cancel"); {
	case who == nil:
	case who != m.requestors.own() && !who.State.NeedsNode():
		m.record.note(m.said("cancel", who, r) + ", but " + who.RequestorID + " does not need the node any more: nothing done")
	default:
		m.leave("cancel", who, r)
	}
}

// takeBackAll takes in that no requestor is to have the node any more.
func (m *nodeMaintenance) takeBackAll(r temporal.SignalRequest) {
	for _, who := range m.requestors.all[1:] {
		if who.State.NeedsNode() {
			m.requestors.set(who, maintenancev1.RequestorLeft, kit.ActorSuffix(r))
		}
	}
	m.leave("cancel", m.requestors.own(), r)
}

// leave lets one requestor go, for what was said. When nobody else needs the node, everything is taken back; otherwise only what is at work for that
// one ends.
func (m *nodeMaintenance) leave(said string, who *requestor, r temporal.SignalRequest) {
	if who == m.requestors.own() && m.withdrawn == nil {
		m.withdrawn = &r
	}
	if who.State.NeedsNode() {
		m.requestors.set(who, maintenancev1.RequestorLeft, kit.ActorSuffix(r))
	}
	if who == m.requestors.own() && m.stopJob != nil {
		m.stopJob()
	}
	if m.requestors.needed() && !m.returning {
		m.record.note(m.said(said, who, r) + ": the node is kept for " + names(m.requestors.who(needsNode)))
	}
	m.withdrawUnneeded()
}

// withdrawUnneeded takes everything back when nobody needs the node. One on which somebody has worked is checked before.
func (m *nodeMaintenance) withdrawUnneeded() {
	if !m.requestors.needed() && !(m.status.HandedOver && m.requestors.worked()) {
		m.returning = true
		m.withdraw()
	}
}

// showFailure shows the first failure of the requestors that was not made good.
func (m *nodeMaintenance) showFailure() {
	m.status.Failure = nil
	for _, r := range m.requestors.all {
		if r.failure != nil && m.status.Failure == nil {
			m.status.Failure = &r.failure.Failure
		}
	}
}

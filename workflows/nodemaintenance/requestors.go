package nodemaintenance

import (
	"slices"
	"strings"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Requestor is the requestor of the maintenance, or an additional one.
type Requestor struct {
	maintenancev1.RequestorStatus
	// Failure of its work, also after it has left.
	Failure *WorkFailure `json:"failure,omitempty"`
	// Done was sent during the drain, and takes effect when the node is ready. A requestor may follow the conditions of the node, which a drain sets before
	// it ends.
	Done *temporal.SignalRequest `json:"done,omitempty"`
}

// WorkFailure is the failure of a requestor's work.
type WorkFailure struct {
	maintenancev1.Failure
	// Report is the message of the sender of the failure, as the end of a sentence.
	Report string `json:"report,omitempty"`
}

// report returns the report of the failure; "" if there is none.
func (f *WorkFailure) report() string {
	if f == nil {
		return ""
	}
	return f.Report
}

// reportOf returns the report of a failure by the sender of a signal, as the end of a sentence.
func reportOf(r temporal.SignalRequest) string {
	if r.Actor == "" {
		return kit.ActorSuffix(r)
	}
	return ", says" + strings.TrimPrefix(kit.ActorSuffix(r), " by")
}

// first returns the requestor that requested the maintenance.
func (s *State) first() *Requestor { return s.Requestors[0] }

// requestor returns the requestor with that name, or the first one for the empty name; nil: there is none.
func (s *State) requestor(id string) *Requestor {
	for _, r := range s.Requestors {
		if id == "" || r.RequestorID == id {
			return r
		}
	}
	return nil
}

// requestors returns the requestors for which a condition holds.
func (s *State) requestors(holds func(*Requestor) bool) []*Requestor {
	return slices.DeleteFunc(slices.Clone(s.Requestors), func(r *Requestor) bool { return !holds(r) })
}

// needed reports whether a requestor needs the node.
func (s *State) needed() bool { return slices.ContainsFunc(s.Requestors, needsNode) }

func needsNode(r *Requestor) bool { return r.State.NeedsNode() }

// wanted reports whether a requestor needs the node that has not sent done.
func (s *State) wanted() bool {
	return slices.ContainsFunc(s.Requestors, func(r *Requestor) bool { return r.State.NeedsNode() && r.Done == nil })
}

// failing returns a requestor whose work has failed and who keeps the node; nil: there is none.
func (s *State) failing() *Requestor {
	i := slices.IndexFunc(s.Requestors, func(r *Requestor) bool { return r.State == maintenancev1.RequestorFailed })
	if i < 0 {
		return nil
	}
	return s.Requestors[i]
}

// worked reports whether a requestor has finished work on the node.
func (s *State) worked() bool {
	return slices.ContainsFunc(s.Requestors, func(r *Requestor) bool { return r.State == maintenancev1.RequestorDone })
}

// firstFailure returns the first failure of a requestor that has not recovered; nil: there is none.
func (s *State) firstFailure() *maintenancev1.Failure {
	for _, r := range s.Requestors {
		if r.Failure != nil {
			return &r.Failure.Failure
		}
	}
	return nil
}

// names joins the names of requestors for a message.
func names(requestors []*Requestor) string {
	var texts []string
	for _, r := range requestors {
		texts = append(texts, r.RequestorID)
	}
	return kit.JoinNames(texts)
}

// setRequestor changes the state of a requestor.
func (m *nodeMaintenance) setRequestor(r *Requestor, state maintenancev1.RequestorState, message string) {
	r.State, r.Message = state, strings.TrimSpace(strings.TrimPrefix(message, ":"))
	m.record.log.Info("Requestor changed state", "changedRequestor", r.RequestorID, "state", string(state), "message", r.Message)
	m.showRequestors()
}

// showRequestors shows the requestors if there are several.
func (m *nodeMaintenance) showRequestors() {
	m.state.Status.Requestors = nil
	for _, r := range m.state.Requestors {
		if len(m.state.Requestors) > 1 {
			m.state.Status.Requestors = append(m.state.Status.Requestors, r.RequestorStatus)
		}
	}
	m.record.show()
}

// showFailure shows the first failure of a requestor that has not recovered.
func (m *nodeMaintenance) showFailure() { m.state.Status.Failure = m.state.firstFailure() }

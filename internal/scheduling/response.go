package scheduling

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// waitReportDelay is how long a reason must last before the owner receives it: most waits end sooner. When the reported reason no longer
	// holds, it is followingDelay for each waiting owner, if that is longer: with ten owners for each node, ten would learn of each maintenance and of its end.
	waitReportDelay, followingDelay = time.Second, time.Millisecond
	// messageInterval is the minimum time between messages of the same reason, for example when the slots go to other nodes. It grows to a tenth of the
	// time that the request has waited, up to maxMessageInterval, so that a wait of months does not fill the history of the owner.
	messageInterval, maxMessageInterval = time.Minute, time.Hour
	// reasonPace and messagePace are the minimum intervals for each waiting owner: together, thousands of them get no more than a hundred reasons, and one
	// further message, a second.
	reasonPace, messagePace = 10 * time.Millisecond, time.Second
	// maxResponses limits the responses of one decision: the server blocks a run with too many outgoing signals. maxReports is the same for reports.
	maxResponses, maxReports = 100, 100
	// maxBlockers limits the requests in a response: they have similar reasons.
	maxBlockers = 10
)

// respond adds the responses with new grants and ended requests.
func (s *SlotState) respond(out *Outcome, now time.Time) {
	for _, r := range s.Requesters {
		switch due := later(now, r.RetryAt); {
		case r.Closed || !r.hasNews():
		case due.After(now):
			out.Again = Earlier(out.Again, due)
		case len(out.Responses) == maxResponses:
			out.Again = now
		default:
			out.Responses = append(out.Responses, s.send(r, now))
		}
	}
}

// Reports returns responses that only say why requests wait, after the last decision. next is when the next one is due; zero: none is. Nothing depends on
// them but what people see, so they may be late if many owners wait.
func (s *SlotState) Reports(now time.Time) (reports []SlotResponse, next time.Time) {
	for _, r := range s.Requesters {
		if r.Closed || r.hasNews() {
			continue
		}
		switch due := s.reportDue(r, now); {
		case due.IsZero():
		case due.After(now):
			next = Earlier(next, due)
		case len(reports) == maxReports:
			next = now
		default:
			reports = append(reports, s.send(r, now))
		}
	}
	return reports, next
}

// ownerWait has the waiting requests of an owner.
type ownerWait struct {
	// count is their number, and requested the time of the first in order of rank.
	count     int
	requested time.Time
	// first are the first of them, as indexes in the decision.
	first []int
}

// noteWaits notes the waiting requests of each owner.
func (s *SlotState) noteWaits(decision Decision, waiting []ownedEntry) {
	s.decided, s.waiting, s.spent = decision, 0, decision.left.slots == 0
	for _, r := range s.Requesters {
		r.wait.count, r.wait.first = 0, r.wait.first[:0]
	}
	for i, entry := range waiting {
		wait := &entry.requester.wait
		if wait.count++; wait.count == 1 {
			s.waiting++
			wait.requested = entry.Since
		}
		if len(wait.first) < maxBlockers {
			wait.first = append(wait.first, i)
		}
	}
}

// waitOf returns why the first request of an owner waits; empty: none waits.
func (s *SlotState) waitOf(r *Requester) (reason, message string) {
	if r.wait.count == 0 {
		return "", ""
	}
	first := &s.decided.Waiting[r.wait.first[0]]
	if r.wait.count > 1 {
		return string(first.Reason), fmt.Sprintf("%s is next of %d: %s", first.Node, r.wait.count, first.Message)
	}
	return string(first.Reason), first.Message
}

// hasNews reports whether a grant or the end of a request is due to the owner.
func (r *Requester) hasNews() bool {
	for i := range r.Slots {
		switch e := &r.Slots[i]; e.Status {
		case SlotGranted:
			if !slices.Contains(r.Sent.Granted, e.Number) {
				return true
			}
		case SlotNodeGone:
			if !slices.Contains(r.Sent.NodesGone, e.Number) {
				return true
			}
		}
	}
	return false
}

// reportDue returns when to report why requests wait; zero: the owner knows. Another reason is due when the reported one has not held for waitReportDelay
// or followingDelay, and a new message of the same reason after messageInterval.
func (s *SlotState) reportDue(r *Requester, now time.Time) time.Time {
	reason, message := s.waitOf(r)
	if reason != r.Sent.Reason {
		if r.ChangedAt.IsZero() {
			r.ChangedAt = now
		}
		delay := waitReportDelay
		if r.Sent.Reason != "" {
			delay = max(delay, s.pace(followingDelay))
		}
		return later(later(r.ChangedAt.Add(delay), r.RetryAt), r.SentAt.Add(s.pace(reasonPace)))
	}
	r.ChangedAt = time.Time{}
	if message == r.Sent.Message {
		return time.Time{}
	}
	interval := min(max(messageInterval, r.SentAt.Sub(r.wait.requested)/10), maxMessageInterval)
	return r.SentAt.Add(max(interval, s.pace(messagePace)))
}

// Waiting returns the number of owners with requests that the last decision lets wait.
func (s *SlotState) Waiting() int { return s.waiting }

// pace returns the interval for each owner that gives all waiting owners the given one together.
func (s *SlotState) pace(interval time.Duration) time.Duration {
	return time.Duration(s.waiting) * interval
}

// send returns the whole response for an owner, and records it.
func (s *SlotState) send(r *Requester, now time.Time) SlotResponse {
	s.Responses++
	response := SlotResponse{Owner: r.Owner, Version: r.Version, Number: s.Responses}
	for i := range r.Slots {
		switch e := &r.Slots[i]; e.Status {
		case SlotGranted:
			response.Granted = append(response.Granted, e.Number)
		case SlotNodeGone:
			response.NodesGone = append(response.NodesGone, e.Number)
		}
	}
	reason, message := s.waitOf(r)
	if reason != "" {
		response.Wait = &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(now)}
	}
	for _, i := range r.wait.first {
		w := &s.decided.Waiting[i]
		response.Wait.Blockers = append(response.Wait.Blockers, drydockv1.Blocker{Kind: "Node", Name: w.Node, Reason: string(w.Reason), Message: w.Message})
	}
	r.Sent = SentResponse{Number: response.Number, Granted: response.Granted, NodesGone: response.NodesGone, Reason: reason, Message: message}
	r.SentAt, r.ChangedAt, r.RetryAt = now.Truncate(time.Second), time.Time{}, time.Time{}
	return response
}

// Undelivered records that a response did not reach its owner, which gets it again, but not before retryAt.
func (s *SlotState) Undelivered(response SlotResponse, retryAt time.Time) {
	if r := s.known(response.Owner); r != nil && r.Sent.Number <= response.Number {
		r.Sent, r.SentAt, r.ChangedAt, r.RetryAt, r.unreached = SentResponse{}, time.Time{}, time.Time{}, retryAt, true
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

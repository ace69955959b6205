package scheduling

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// waitReportDelay is how long a reason must last before the owner receives it: most waits end sooner.
	waitReportDelay = time.Second
	// messageInterval is the minimum time between messages of the same reason, for example when the slots go to other nodes. It grows to a tenth of the
	// time that the request has waited, up to maxMessageInterval, so that a wait of months does not fill the history of the owner.
	messageInterval, maxMessageInterval = time.Minute, time.Hour
	// maxResponses limits the responses of one decision: the server blocks a run with too many outgoing signals.
	maxResponses = 100
	// maxBlockers limits the requests in a response: they have similar reasons.
	maxBlockers = 10
)

// respond adds the responses that are due.
func (s *SlotState) respond(out *Outcome, now time.Time) {
	waits := s.waits(out.Waiting, now)
	for i := range s.Requesters {
		r := &s.Requesters[i]
		if r.Closed {
			continue
		}
		wait := waits[r.Owner]
		response := r.response(wait)
		switch due := r.responseDue(response, wait, now); {
		case due.IsZero():
		case due.After(now):
			out.Again = Earlier(out.Again, due)
		case len(out.Responses) == maxResponses:
			out.Again = now
		default:
			s.Responses++
			response.Number = s.Responses
			out.Responses = append(out.Responses, response)
			r.recordSent(response, now)
		}
	}
}

// ownerWait is the wait of an owner's first request, and the time of that request.
type ownerWait struct {
	drydockv1.Wait
	requested time.Time
}

// waits returns the wait of each owner with waiting requests, which are its blockers.
func (s *SlotState) waits(queue []Waiting, now time.Time) map[SlotOwner]*ownerWait {
	waiting, counts, waits := s.waiting(), map[SlotOwner]int{}, map[SlotOwner]*ownerWait{}
	for _, w := range queue {
		found := waiting[w.Request]
		if len(found) == 0 {
			continue
		}
		waiting[w.Request] = found[1:]
		owner := found[0].owner
		counts[owner]++
		wait := waits[owner]
		if wait == nil {
			wait = &ownerWait{
				requested: found[0].entry.Since, Wait: drydockv1.Wait{Reason: string(w.Reason), Message: w.Message, Since: metav1.NewTime(now)},
			}
			waits[owner] = wait
		}
		if len(wait.Blockers) < maxBlockers {
			wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "Node", Name: w.Node, Reason: string(w.Reason), Message: w.Message})
		}
	}
	for i := range s.Requesters {
		owner := s.Requesters[i].Owner
		if count := counts[owner]; count > 1 {
			wait := waits[owner]
			wait.Message = fmt.Sprintf("%s is next of %d: %s", wait.Blockers[0].Name, count, wait.Message)
		}
	}
	return waits
}

// response returns the whole response for an owner.
func (r *Requester) response(wait *ownerWait) SlotResponse {
	response := SlotResponse{Owner: r.Owner, Version: r.Version}
	for _, e := range r.Slots {
		switch e.Status {
		case SlotGranted:
			response.Granted = append(response.Granted, e.Number)
		case SlotNodeGone:
			response.NodesGone = append(response.NodesGone, e.Number)
		}
	}
	if wait != nil {
		response.Wait = &wait.Wait
	}
	return response
}

// responseDue returns when to send a response; zero: it has no news. A grant is due now. A new reason is due after waitReportDelay, and a new message of
// the same reason after messageInterval.
func (r *Requester) responseDue(next SlotResponse, wait *ownerWait, now time.Time) time.Time {
	if !includes(r.Sent.Granted, next.Granted) || !includes(r.Sent.NodesGone, next.NodesGone) {
		return later(now, r.RetryAt)
	}
	sentReason, sentMessage := reasonAndMessage(r.Sent.Wait)
	reason, message := reasonAndMessage(next.Wait)
	if reason != sentReason {
		if r.ChangedAt.IsZero() {
			r.ChangedAt = now
		}
		return later(r.ChangedAt.Add(waitReportDelay), r.RetryAt)
	}
	r.ChangedAt = time.Time{}
	if message == sentMessage {
		return time.Time{}
	}
	return r.SentAt.Add(min(max(messageInterval, r.SentAt.Sub(wait.requested)/10), maxMessageInterval))
}

// recordSent records a response for the comparison with later ones, without its blockers.
func (r *Requester) recordSent(response SlotResponse, now time.Time) {
	if response.Wait != nil {
		response.Wait = &drydockv1.Wait{Reason: response.Wait.Reason, Message: response.Wait.Message}
	}
	r.Sent, r.SentAt, r.ChangedAt, r.RetryAt = response, now, time.Time{}, time.Time{}
}

// includes reports whether known contains all numbers.
func includes(known, numbers []int64) bool {
	return !slices.ContainsFunc(numbers, func(number int64) bool { return !slices.Contains(known, number) })
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func reasonAndMessage(wait *drydockv1.Wait) (reason, message string) {
	if wait == nil {
		return "", ""
	}
	return wait.Reason, wait.Message
}

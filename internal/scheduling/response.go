package scheduling

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// waitSentAfter is how long a reason to wait has to last before the owner gets it: most waits end sooner.
	waitSentAfter = time.Second
	// messageSentAfter is how long an owner waits at least for another message of the same reason, for example when other nodes take the slots. It grows
	// to a tenth of the time that the request has waited, and to messageSentAtMost: a wait of months must not fill the history of the owner.
	messageSentAfter, messageSentAtMost = time.Minute, time.Hour
	// responsesAtOnce is how many owners get a response at a time: the server blocks a run with too many outgoing signals.
	responsesAtOnce = 100
	// mostBlockers is how many of its waiting requests an owner is told about: each waits for much the same.
	mostBlockers = 10
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
		case len(out.Responses) == responsesAtOnce:
			out.Again = now
		default:
			s.Responses++
			response.Number = s.Responses
			out.Responses = append(out.Responses, response)
			r.sent(response, now)
		}
	}
}

// ownerWait is why the first request of an owner waits, and since when that request does.
type ownerWait struct {
	drydockv1.Wait
	requested time.Time
}

// waits are the reasons of the owners that wait. Each names all requests of the owner as its blockers.
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
		if len(wait.Blockers) < mostBlockers {
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

// response is all that there is to tell an owner.
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

// responseDue is when a response has to be sent; the zero time: it says nothing new. A grant is sent at once. Another reason to wait is sent when it has
// lasted for a while, and another message of the same reason now and then.
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
		return later(r.ChangedAt.Add(waitSentAfter), r.RetryAt)
	}
	r.ChangedAt = time.Time{}
	if message == sentMessage {
		return time.Time{}
	}
	return r.SentAt.Add(min(max(messageSentAfter, r.SentAt.Sub(wait.requested)/10), messageSentAtMost))
}

// sent remembers a response. Blockers are not compared.
func (r *Requester) sent(response SlotResponse, now time.Time) {
	if response.Wait != nil {
		response.Wait = &drydockv1.Wait{Reason: response.Wait.Reason, Message: response.Wait.Message}
	}
	r.Sent, r.SentAt, r.ChangedAt, r.RetryAt = response, now, time.Time{}, time.Time{}
}

// includes reports whether all of the numbers are among those that are known.
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

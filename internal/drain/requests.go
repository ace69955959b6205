package drain

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

const (
	// budgetInterval is how often the drain retries for a budget that allows no disruption and has not changed.
	budgetInterval = 5 * time.Second
	// The pause after a refusal without a budget and without a given delay: it doubles from the first to the longest.
	firstPause, longestPause = time.Second, 16 * time.Second
	// rightInterval is how often the drain retries one of the pods that a missing right keeps.
	rightInterval = 2 * time.Second
)

// requests records the requested evictions and their answers, and decides which to request next. It does no I/O and has no clock. It never forgets a
// pod, so that a stale cache cannot make it look new.
type requests struct {
	byPod map[types.UID]*request
	// budgetTried is when each budget was last tried, by the key of its pods.
	budgetTried map[string]time.Time
	// rightTried is when each missing right was last tried, by the message of its refusals.
	rightTried map[string]time.Time
	// returns is, for each pod, how many pods of its controller were evicted before it, one after the other. returnedBefore are the pods, as
	// namespace/name, that an earlier run knew to return.
	returns        map[types.UID]int
	returnedBefore map[string]bool
}

// request is the eviction of one pod.
type request struct {
	inFlight, accepted bool
	// controller of the pod, which may replace it; empty: none, or the pod had ended.
	controller types.UID
	// requested is when the eviction was requested, and version the state of the pod and its budgets then.
	requested time.Time
	version   string
	key       string
	// refusal is the last answer, if it was a refusal.
	refusal  *refusal
	refusals int
	retryAt  time.Time
}

// newRequests continues from the progress of an earlier run of the same attempt. A new attempt evicts again the pods that returned in the previous one.
func newRequests(attempt int32, before *maintenancev1.DrainStatus) *requests {
	r := &requests{
		byPod: map[types.UID]*request{}, budgetTried: map[string]time.Time{}, rightTried: map[string]time.Time{}, returns: map[types.UID]int{}, returnedBefore: map[string]bool{},
	}
	if before != nil && before.Attempt == attempt {
		for _, pod := range before.Blocked {
			if pod.Reason == string(ReasonReturnsToNode) {
				r.returnedBefore[pod.Namespace+"/"+pod.Name] = true
			}
		}
	}
	return r
}

// due returns the pods to evict now, and when to check again without a change; zero: never. A pod waits only for its order, its own refusal, or its
// own budgets.
func (r *requests) due(remaining []Decision, now time.Time) (evict []Decision, next time.Time) {
	parked, denied := map[string][]Decision{}, map[string][]Decision{}
	for _, decision := range remaining {
		known, requested := r.byPod[decision.pod.UID]
		switch {
		case decision.Refused() || decision.held != "" || !decision.pod.DeletionTimestamp.IsZero():
		case !requested && decision.budget.key != "":
			parked[decision.budget.key] = append(parked[decision.budget.key], decision)
		case !requested:
			evict = append(evict, decision)
		case known.inFlight || known.accepted:
		case known.refusal.byBudget:
			parked[known.key] = append(parked[known.key], decision)
		case known.refusal.byRight:
			denied[known.refusal.message] = append(denied[known.refusal.message], decision)
		case now.Before(known.retryAt):
			next = earliest(next, known.retryAt)
		default:
			evict = append(evict, decision)
		}
	}
	for key, pods := range parked {
		released := r.release(key, pods, now)
		evict = append(evict, released...)
		if len(released) == 0 && !r.busy(key) {
			next = earliest(next, r.budgetTried[key].Add(budgetInterval))
		}
	}
	for right, pods := range denied {
		if again := r.rightTried[right].Add(rightInterval); now.Before(again) {
			next = earliest(next, again)
		} else { // one shows whether the right is granted
			evict = append(evict, slices.MinFunc(pods, r.longestWaiting))
		}
	}
	slices.SortFunc(evict, func(a, b Decision) int { return cmp.Compare(a.key(), b.key()) })
	return evict, next
}

// release returns which of the pods that wait for a budget to evict now: as many as the budget allows, but none again unless it has changed; and one,
// the longest waiting, if the budget was not tried for a while. More requests would only be refused, and each refusal is a write that delays the pods
// of others.
func (r *requests) release(key string, parked []Decision, now time.Time) (released []Decision) {
	slices.SortFunc(parked, r.longestWaiting)
	spent := r.inFlight(key)
	for _, decision := range parked {
		known, requested := r.byPod[decision.pod.UID]
		changed := !requested || decision.budget.version != known.version
		if !changed || decision.Reason != "" || decision.budget.counted && spent >= decision.budget.allowed {
			continue
		}
		if decision.budget.counted {
			spent++
		}
		released = append(released, decision)
	}
	if len(released) == 0 && !r.busy(key) && !now.Before(r.budgetTried[key].Add(budgetInterval)) {
		released = parked[:1]
	}
	return released
}

// longestWaiting sorts pods by the time of their last request.
func (r *requests) longestWaiting(a, b Decision) int {
	return cmp.Or(r.lastRequested(a).Compare(r.lastRequested(b)), cmp.Compare(a.key(), b.key()))
}

// lastRequested is when the eviction of a pod was last requested; zero: never.
func (r *requests) lastRequested(decision Decision) time.Time {
	if known, requested := r.byPod[decision.pod.UID]; requested {
		return known.requested
	}
	return time.Time{}
}

func (r *requests) busy(key string) bool { return r.inFlight(key) > 0 }

func (r *requests) inFlight(key string) (count int) {
	for _, request := range r.byPod {
		if request.inFlight && request.key == key {
			count++
		}
	}
	return count
}

// sent records that the eviction of a pod is requested.
func (r *requests) sent(decision Decision, now time.Time) {
	known, ok := r.byPod[decision.pod.UID]
	if !ok {
		known = &request{}
		r.byPod[decision.pod.UID] = known
	}
	if decision.Reason != ReasonFinished {
		known.controller = controllerOf(decision.pod)
	}
	known.inFlight, known.requested, known.version = true, now, decision.budget.version
	// A pod whose budget is not visible waits alone.
	known.key = cmp.Or(decision.budget.key, string(decision.pod.UID))
	r.budgetTried[known.key] = now
	if known.refusal != nil && known.refusal.byRight {
		r.rightTried[known.refusal.message] = now
	}
}

// unknownResult reports whether the eviction of a pod was requested with an unknown result.
func (r *requests) unknownResult(pod types.UID) bool {
	known := r.byPod[pod]
	return known != nil && known.refusal != nil && known.refusal.reason == ReasonServerError
}

// answered records the answer for a pod.
func (r *requests) answered(pod types.UID, err error, now time.Time) {
	known := r.byPod[pod]
	known.inFlight = false
	if err == nil {
		r.granted(known.refusal)
		known.accepted, known.refusal = true, nil
		return
	}
	refused := classify(err)
	known.refusal = &refused
	if refused.byRight {
		r.rightTried[refused.message] = now
	}
	pause := min(longestPause, firstPause<<known.refusals)
	known.retryAt = now.Add(cmp.Or(refused.delay, pause))
	known.refusals = min(known.refusals+1, 8) // more would overflow the shift without effect
}

// granted releases the pods that the same missing right has kept: the eviction of one of them was accepted.
func (r *requests) granted(before *refusal) {
	if before == nil || !before.byRight {
		return
	}
	for _, other := range r.byPod {
		if other.refusal != nil && other.refusal.byRight && other.refusal.message == before.message {
			other.refusal.byRight, other.retryAt = false, time.Time{}
		}
	}
}

// earliest returns the earlier of two times; zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

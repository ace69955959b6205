package scheduling

import (
	"cmp"
	"slices"
	"time"
)

// Ranked returns the waiting requests in order of rank. Requests that have waited too long come first, oldest first. Then come requests of requestors
// with a granted request, so that they finish; then of requestors with fewer waiting requests; then older requests. Names make the order total.
func Ranked(in Input) []Request {
	working, waiting := map[string]bool{}, map[string]int{}
	for i := range in.Requests {
		if request := &in.Requests[i]; request.Granted {
			working[request.Requestor] = true
		} else {
			waiting[request.Requestor]++
		}
	}
	var candidates []candidate
	for i := range in.Requests {
		if request := &in.Requests[i]; !request.Granted {
			candidates = append(candidates, candidate{
				SlotRequest: request, aged: aged(request, in), working: working[request.Requestor], waiting: waiting[request.Requestor],
			})
		}
	}
	slices.SortFunc(candidates, candidate.compare)
	ranked := make([]Request, len(candidates))
	for i, candidate := range candidates {
		ranked[i] = candidate.Request
	}
	return ranked
}

// candidate is a waiting request with the criteria of its rank.
type candidate struct {
	*SlotRequest
	aged, working bool
	// waiting is the number of waiting requests of the same requestor.
	waiting int
}

func (c candidate) compare(other candidate) int {
	if c.aged != other.aged {
		return trueFirst(c.aged, other.aged)
	}
	// Among requests that have waited too long, only the age counts: a busy requestor may have some of them at any time.
	if !c.aged {
		if order := cmp.Or(trueFirst(c.working, other.working), cmp.Compare(c.waiting, other.waiting)); order != 0 {
			return order
		}
	}
	return cmp.Or(c.Since.Compare(other.Since), c.Request.compare(other.Request))
}

// aged reports whether a request has waited for longer than agingSeconds. A request without a start time has not.
func aged(request *SlotRequest, in Input) bool {
	limit := time.Duration(in.Config.AgingSeconds) * time.Second
	return limit > 0 && !request.Since.IsZero() && in.Now.Sub(request.Since) > limit
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// compare orders requests by node, requestor, namespace and name.
func (r Request) compare(other Request) int {
	return cmp.Or(
		cmp.Compare(r.Node, other.Node),
		cmp.Compare(r.Requestor, other.Requestor),
		cmp.Compare(r.Namespace, other.Namespace),
		cmp.Compare(r.Name, other.Name),
	)
}

func (r Request) before(other Request) bool { return r.compare(other) < 0 }

package scheduling

import (
	"cmp"
	"slices"
	"time"
)

// Ranked returns the waiting requests in order of rank. Requests that have waited too long come first, oldest first. Then come requests of requestors
// with a granted request, so that they finish; then of requestors with fewer waiting requests; then older requests. Names make the order total.
func Ranked(in Input) []Request {
	candidates := candidatesOf(in)
	ranked := make([]Request, len(candidates))
	for i, candidate := range candidates {
		ranked[i] = candidate.Request
	}
	return ranked
}

// candidatesOf returns the waiting requests in order of rank. Equal requests have the order of the input.
func candidatesOf(in Input) []candidate {
	standings := map[string]*standing{}
	waiting := 0
	for i := range in.Requests {
		request := &in.Requests[i]
		of := standings[request.Requestor]
		if of == nil {
			of = &standing{}
			standings[request.Requestor] = of
		}
		if request.Granted {
			of.working = true
		} else {
			of.waiting++
			waiting++
		}
	}
	candidates := make([]candidate, 0, waiting)
	for i := range in.Requests {
		if request := &in.Requests[i]; !request.Granted {
			candidates = append(candidates, candidate{SlotRequest: request, index: i, class: standings[request.Requestor].class(aged(request, in), waiting)})
		}
	}
	slices.SortFunc(candidates, candidate.compare)
	return candidates
}

// standing is what the rank of a requestor's requests depends on.
type standing struct {
	// working: it has a granted request.
	working bool
	// waiting is the number of its waiting requests.
	waiting int
}

// class returns the class of a request of the requestor, of which lower ones go first. waiting is the number of all waiting requests. Among requests that have
// waited too long, only the age counts: a busy requestor may have some of them at any time.
func (s *standing) class(aged bool, waiting int) int {
	switch {
	case aged:
		return 0
	case s.working:
		return s.waiting
	}
	return waiting + s.waiting
}

// candidate is a waiting request with its index in the input and its class.
type candidate struct {
	*SlotRequest
	index, class int
}

func (c candidate) compare(other candidate) int {
	if c.class != other.class {
		return cmp.Compare(c.class, other.class)
	}
	if order := c.Since.Compare(other.Since); order != 0 {
		return order
	}
	return cmp.Or(c.Request.compare(other.Request), cmp.Compare(c.index, other.index))
}

// aged reports whether a request has waited for longer than agingSeconds. A request without a start time has not.
func aged(request *SlotRequest, in Input) bool {
	limit := time.Duration(in.Config.AgingSeconds) * time.Second
	return limit > 0 && !request.Since.IsZero() && in.Now.Sub(request.Since) > limit
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

package scheduling

import (
	"cmp"
	"slices"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ranked returns the pending requests in the order in which they are considered: requestors that already have a request in progress
// first, so that what was begun is finished; then requestors with fewer pending requests; then older requests. Names make the order
// total.
func ranked(requests []maintenancev1.NodeMaintenance) []*maintenancev1.NodeMaintenance {
	working, waiting := map[string]bool{}, map[string]int{}
	var candidates []*maintenancev1.NodeMaintenance
	for i := range requests {
		request := &requests[i]
		switch {
		case pending(request):
			candidates = append(candidates, request)
			waiting[request.Spec.RequestorID]++
		case inProgress(request):
			working[request.Spec.RequestorID] = true
		}
	}
	slices.SortFunc(candidates, func(a, b *maintenancev1.NodeMaintenance) int {
		return cmp.Or(
			trueFirst(working[a.Spec.RequestorID], working[b.Spec.RequestorID]),
			cmp.Compare(waiting[a.Spec.RequestorID], waiting[b.Spec.RequestorID]),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			nameOf(a).compare(nameOf(b)),
		)
	})
	return candidates
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

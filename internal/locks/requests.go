package locks

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// request is a ClusterMaintenanceRequest, a NodeMaintenanceRequest or a NodeDeletionRequest.
type request struct {
	uid     types.UID
	name    string
	created metav1.Time
	// release that is installed; "": none.
	release string
	// deletion: it is a NodeDeletionRequest.
	deletion bool
}

func requestOf(meta metav1.ObjectMeta) request {
	return request{uid: meta.UID, name: meta.Name, created: meta.CreationTimestamp}
}

// byAge orders requests: older first, then by name, because creation times are in whole seconds.
func byAge(a, b request) int {
	return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
}

// served returns the requests as the record of permits has them, sorted by UID, so that equal sets are equal lists.
func served(requests []request) []Served {
	var list []Served
	for _, r := range requests {
		list = append(list, Served{Name: r.name, UID: r.uid})
	}
	slices.SortFunc(list, func(a, b Served) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

// anyExists reports whether one of the served requests still exists. A request that was deleted and created again has another UID and is another
// request.
func anyExists(list []Served, requests []request) bool {
	return slices.ContainsFunc(requests, func(r request) bool {
		return slices.ContainsFunc(list, func(s Served) bool { return s.UID == r.uid })
	})
}

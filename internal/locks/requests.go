package locks

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// request is a ClusterMaintenanceRequest or a NodeMaintenanceRequest.
type request struct {
	uid     types.UID
	name    string
	created metav1.Time
}

func requestOf(meta metav1.ObjectMeta) request {
	return request{uid: meta.UID, name: meta.Name, created: meta.CreationTimestamp}
}

// byAge orders requests: older first, then by name, since creation times have whole seconds only.
func byAge(a, b request) int {
	return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
}

// uids are the requests' UIDs in alphabetical order: the same requests give the same list.
func uids(requests []request) []types.UID {
	var list []types.UID
	for _, r := range requests {
		list = append(list, r.uid)
	}
	slices.Sort(list)
	return list
}

// stands reports whether one of the requests that were served still exists. A request that was deleted and made again has another UID
// and is another request.
func stands(served []types.UID, requests []request) bool {
	return slices.ContainsFunc(requests, func(r request) bool { return slices.Contains(served, r.uid) })
}

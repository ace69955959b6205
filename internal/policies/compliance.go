package policies

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Compliance is the compliance of a cluster with one policy, as one letter: the history of a workflow has thousands of them.
type Compliance byte

// The compliances.
const (
	Compliant    Compliance = 'C'
	NonCompliant Compliance = 'N'
	Pending      Compliance = 'P'
	// Outdated: the cluster was Compliant before the policy was changed or enforced, and has not reported since.
	Outdated Compliance = 'O'
	// Unknown: the policy is bound to the cluster, but its compliance is not reported yet.
	Unknown Compliance = 'U'
	// Unbound: the policy is not bound to the cluster.
	Unbound Compliance = '-'
	// Unselected: the policy is not bound to the cluster, whose set is not bound in the namespace of the policy: no Placement there can select it.
	Unselected Compliance = 'S'
)

// String is the value in the status of a policy; empty for Unknown.
func (c Compliance) String() string {
	switch c {
	case Compliant:
		return "Compliant"
	case NonCompliant:
		return "NonCompliant"
	case Pending, Outdated, Unselected:
		return "Pending"
	case Unbound:
		return "Unbound"
	}
	return ""
}

// ComplianceOf reads a whole or trimmed replica; nil: it does not exist.
func ComplianceOf(replica *unstructured.Unstructured) Compliance {
	if replica == nil || replica.GetDeletionTimestamp() != nil {
		return Unbound
	}
	compliant, _, _ := unstructured.NestedString(replica.Object, "status", "compliant")
	for _, known := range []Compliance{Compliant, NonCompliant, Pending} {
		if compliant == known.String() {
			return known
		}
	}
	return Unknown
}

// ComplianceStatus is the compliance of a cluster with the policies of a rollout: one letter for each, in their order.
type ComplianceStatus string

// Of returns the compliance with the policy of that index.
func (s ComplianceStatus) Of(policy int) Compliance {
	if policy < 0 || policy >= len(s) {
		return Unknown
	}
	return Compliance(s[policy])
}

// Complete reports whether the cluster is Compliant with every policy that is bound to it, and with those that are planned. The compliance of a cluster
// without bound policies is unknown, so it is not complete. No Placement needs to select it for a policy that is not planned.
func (s ComplianceStatus) Complete(planned []bool) bool {
	bound := false
	for policy := range s {
		switch s.Of(policy) {
		case Compliant:
			bound = true
		case Unbound, Unselected:
			if policy < len(planned) && planned[policy] {
				return false
			}
		default:
			return false
		}
	}
	return bound
}

// Relapsed is the first policy with which a complete cluster no longer complies; NoItem: there is none. A cluster that lost a policy does not relapse, and
// neither does one that is yet to report: a policy that is no longer enforced has another spec.
func (s ComplianceStatus) Relapsed() int {
	for policy := range s {
		switch s.Of(policy) {
		case NonCompliant, Pending, Unknown:
			return policy
		}
	}
	return NoItem
}

// ClusterCompliance is the observed compliance status of one cluster.
type ClusterCompliance struct {
	Cluster string           `json:"cluster"`
	Status  ComplianceStatus `json:"status"`
	// Relapsed: the cluster was not Compliant with its current policy at some moment since the last report.
	Relapsed bool `json:"relapsed,omitempty"`
	// ClusterDeleted: the ManagedCluster was deleted.
	ClusterDeleted bool `json:"clusterDeleted,omitempty"`
	// Unselectable is why Placements cannot select the cluster for its current policy; empty: they can.
	Unselectable string `json:"unselectable,omitempty"`
	// Displaced: an object that enforces its current policy on the cluster was deleted, or changed by another user.
	Displaced bool `json:"displaced,omitempty"`
}

// KnownCluster is the known compliance of a cluster. An empty Status: none is known.
type KnownCluster struct {
	Cluster string           `json:"cluster"`
	Status  ComplianceStatus `json:"status,omitempty"`
	// Policy is the index of the current policy of the cluster. Placed: it is enforced on the cluster.
	Policy int  `json:"policy"`
	Placed bool `json:"placed,omitempty"`
	// Unselectable is as in ClusterCompliance.
	Unselectable string `json:"unselectable,omitempty"`
}

// Changed reports whether a new compliance status is relevant for a cluster with that current policy: its compliance with the policy changed, or a
// later policy was unbound. A first status is always relevant.
func Changed(known, now ComplianceStatus, policy int) bool {
	if len(known) != len(now) || known.Of(policy) != now.Of(policy) {
		return true
	}
	for later := policy + 1; later < len(now); later++ {
		if known.Of(later) != Unbound && now.Of(later) == Unbound {
			return true
		}
	}
	return false
}

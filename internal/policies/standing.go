package policies

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Compliance is how a cluster stands to a policy, as one letter: thousands of them go through a workflow's history.
type Compliance byte

// The compliances.
const (
	Compliant    Compliance = 'C'
	NonCompliant Compliance = 'N'
	Pending      Compliance = 'P'
	// Unknown: the policy is bound to the cluster, which has not said yet how it stands.
	Unknown Compliance = 'U'
	// Unbound: the policy is not bound to the cluster, or not any more.
	Unbound Compliance = '-'
)

// String is the word that a status has for it; empty for Unknown.
func (c Compliance) String() string {
	switch c {
	case Compliant:
		return "Compliant"
	case NonCompliant:
		return "NonCompliant"
	case Pending:
		return "Pending"
	case Unbound:
		return "Unbound"
	}
	return ""
}

// ComplianceOf reads a replica, whole or trimmed; nil is one that does not exist.
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

// Standing is how a cluster stands to the policies of a rollout: one Compliance for each, in their order.
type Standing string

// Of returns how the cluster stands to the policy of that number.
func (s Standing) Of(policy int) Compliance {
	if policy < 0 || policy >= len(s) {
		return Unknown
	}
	return Compliance(s[policy])
}

// Complete reports whether the cluster is Compliant with all that is bound to it. One to which nothing is bound is not: nobody can say.
func (s Standing) Complete() bool {
	bound := false
	for policy := range s {
		switch s.Of(policy) {
		case Compliant:
			bound = true
		case Unbound:
		default:
			return false
		}
	}
	return bound
}

// Has reports whether those policies are bound to the cluster.
func (s Standing) Has(bound []bool) bool {
	for policy := range bound {
		if bound[policy] && s.Of(policy) == Unbound {
			return false
		}
	}
	return true
}

// ClusterStanding is how one cluster stands.
type ClusterStanding struct {
	Cluster  string   `json:"cluster"`
	Standing Standing `json:"standing"`
	// Dipped: since it was said last, the cluster was not Compliant with the policy whose turn it is, if only for a moment.
	Dipped bool `json:"dipped,omitempty"`
	// Vanished: it is no ManagedCluster any more.
	Vanished bool `json:"vanished,omitempty"`
}

// KnownCluster is what is known of a cluster: nothing, if Standing is empty.
type KnownCluster struct {
	Cluster  string   `json:"cluster"`
	Standing Standing `json:"standing,omitempty"`
	// Policy is the number of the one whose turn it is.
	Policy int `json:"policy"`
}

// News reports whether a cluster stands in another way than was known, as far as it matters to one that has come to that policy: to the policy
// itself, or in that a later one is not bound any more. A cluster of which nothing was known is news.
func News(known, now Standing, policy int) bool {
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

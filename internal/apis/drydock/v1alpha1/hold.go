package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold is an emergency stop, or a maintenance window that is closed: no new disruption starts within its scope until it is released, or opens.
type Hold struct {
	Scope HoldScope `json:"scope"`
	// By is who held it last.
	// +optional
	By string `json:"by,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// Since is when it was held first.
	Since metav1.Time `json:"since"`
	// Window names the closed maintenance windows that hold it; empty for an emergency stop.
	// +optional
	Window string `json:"window,omitempty"`
	// Until is when they open next; absent if no opening is known, or for an emergency stop.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// OnOverrun is the rule for running work while they are closed.
	// +optional
	OnOverrun OverrunAction `json:"onOverrun,omitempty"`
}

// Same reports whether two holds say the same.
func (h Hold) Same(other Hold) bool {
	return h.Scope == other.Scope && h.By == other.By && h.Reason == other.Reason && h.Since.Equal(&other.Since) && h.Window == other.Window &&
		h.Until.Equal(other.Until) && h.OnOverrun == other.OnOverrun
}

// LetsFinish reports whether running work may finish, as the window that holds it allows.
func (h Hold) LetsFinish() bool {
	return h.Window != "" && h.OnOverrun != OverrunPause && h.OnOverrun != OverrunCancel
}

// HoldScope is what is held: "all", or "cluster/" and the name of one cluster.
type HoldScope string

// HoldAll is every cluster.
const HoldAll HoldScope = "all"

const holdClusterPrefix = "cluster/"

// HoldCluster is one cluster.
func HoldCluster(name string) HoldScope { return HoldScope(holdClusterPrefix + name) }

// Cluster returns the name of the cluster that is held; empty: all are.
func (s HoldScope) Cluster() string {
	name, one := strings.CutPrefix(string(s), holdClusterPrefix)
	if !one {
		return ""
	}
	return name
}

// String names the scope to a person: "cluster spoke-1", "every cluster".
func (s HoldScope) String() string {
	if name := s.Cluster(); name != "" {
		return "cluster " + name
	}
	return "every cluster"
}

// ByWhom says who holds it, and why: " by ann: flood in hall 2"; empty when neither is known.
func (h Hold) ByWhom() string {
	text := ""
	if h.By != "" {
		text = " by " + h.By
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

// String is e.g. "cluster spoke-1 is held since 2026-11-20 14:00:05Z by ann: flood in hall 2".
func (h Hold) String() string {
	if h.Window != "" {
		return h.Reason
	}
	return h.Scope.String() + " is held since " + h.Since.UTC().Format("2006-01-02 15:04:05Z") + h.ByWhom()
}

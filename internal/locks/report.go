package locks

import (
	"cmp"
	"fmt"
	"slices"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Report summarizes a decision for a status.
type Report struct {
	// Cluster is the cluster's lock.
	Cluster LockDecision `json:"cluster"`
	// Nodes are the locks of nodes that are requested or not active: the first MaxReported by name.
	Nodes []LockDecision `json:"nodes,omitempty"`
	// More were left out.
	More int `json:"more,omitempty"`
	// Waiting are the nodes that wait for others, in the order in which their locks are released: the first MaxReported.
	Waiting []string `json:"waiting,omitempty"`
	// Total is the number of node locks; the others count them by state.
	Total    int `json:"total"`
	Active   int `json:"active"`
	Inactive int `json:"inactive"`
	Failed   int `json:"failed"`
	// Progress of the maintenance.
	Progress Progress `json:"progress"`
}

// MaxReported is how many node locks a report names, so that it stays small in a large cluster.
const MaxReported = 100

// Report summarizes a decision that has been applied.
func (d Decision) Report() Report {
	report := Report{Progress: d.Progress, Waiting: d.Waiting[:min(len(d.Waiting), MaxReported)]}
	for _, lock := range d.Locks {
		switch {
		case lock.To == "":
			continue
		case lock.Kind == ClusterLockKind:
			report.Cluster = lock
			continue
		}
		report.count(lock.To)
		switch {
		case lock.To == lcmv1.LockActive && lock.Reason == NoRequest:
		case len(report.Nodes) == MaxReported:
			report.More++
		default:
			report.Nodes = append(report.Nodes, lock)
		}
	}
	return report
}

func (r *Report) count(state lcmv1.LockState) {
	r.Total++
	switch state {
	case lcmv1.LockActive:
		r.Active++
	case lcmv1.LockInactive:
		r.Inactive++
	case lcmv1.LockFailed:
		r.Failed++
	}
}

// Reasons of a controller that waits while no lock needs anything.
const (
	// NoMaintenance: no maintenance is requested.
	NoMaintenance Reason = "NoMaintenance"
	// InMaintenance: the requested locks are released.
	InMaintenance Reason = "InMaintenance"
)

// gravity orders the reasons of waiting locks: those that need a person first, those that resolve themselves last.
var gravity = []Reason{PodDeadlinePassed, MarkedFailed, PodNotBack, ClusterNotHealthy, PodNotReady, OtherRelease, MaxInactiveNodes}

// Wait returns the current reason of the controller: that of the gravest waiting lock, or that nothing waits. Blockers are all waiting locks. It has
// no Since.
func (r Report) Wait() drydockv1.Wait {
	var heldUp []LockDecision
	for _, lock := range append([]LockDecision{r.Cluster}, r.Nodes...) {
		if slices.Contains(gravity, lock.Reason) {
			heldUp = append(heldUp, lock)
		}
	}
	if len(heldUp) == 0 {
		return r.atRest()
	}
	slices.SortStableFunc(heldUp, func(a, b LockDecision) int {
		return cmp.Compare(slices.Index(gravity, a.Reason), slices.Index(gravity, b.Reason))
	})
	wait := drydockv1.Wait{Reason: string(heldUp[0].Reason), Message: heldUp[0].subject() + ": " + heldUp[0].Message}
	for _, lock := range heldUp[:min(len(heldUp), maxBlockers)] {
		wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: lock.Kind, Name: lock.Name, Reason: string(lock.Reason), Message: lock.Message})
	}
	return wait
}

// maxBlockers is how many blockers a wait names.
const maxBlockers = 20

func (r Report) atRest() drydockv1.Wait {
	if r.Inactive == 0 && r.Cluster.To != lcmv1.LockInactive {
		return drydockv1.Wait{Reason: string(NoMaintenance), Message: "no maintenance is requested"}
	}
	message := "the cluster is under maintenance"
	if r.Inactive > 0 {
		message = fmt.Sprintf("%d of %d nodes are under maintenance", r.Inactive, r.Total)
	}
	return drydockv1.Wait{Reason: string(InMaintenance), Message: message}
}

func (d LockDecision) subject() string {
	if d.Node == "" {
		return "the cluster"
	}
	return "node " + d.Node
}

package locks

import (
	"cmp"
	"fmt"
	"slices"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Report is a decision in a few words, for the status of whoever carries it out.
type Report struct {
	// Cluster is the cluster's lock.
	Cluster LockDecision `json:"cluster"`
	// Nodes are the locks of nodes that somebody asks for, or that are not active: the first MaxReported by name.
	Nodes []LockDecision `json:"nodes,omitempty"`
	// More of them were left out.
	More int `json:"more,omitempty"`
	// Total locks of nodes, and how many are in which state.
	Total    int `json:"total"`
	Active   int `json:"active"`
	Inactive int `json:"inactive"`
	Failed   int `json:"failed"`
	// Progress of the maintenance.
	Progress Progress `json:"progress"`
}

// MaxReported is how many node locks a report names, so that it stays small however large the cluster is.
const MaxReported = 100

// Report summarizes a decision that has been carried out.
func (d Decision) Report() Report {
	report := Report{Progress: d.Progress}
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

// Reasons of a controller that waits while none of its locks is held up.
const (
	// NoMaintenance: nobody asks for anything.
	NoMaintenance Reason = "NoMaintenance"
	// InMaintenance: what was asked for has been let go of.
	InMaintenance Reason = "InMaintenance"
)

// gravity orders the reasons of locks that are held up: what wants a person comes first, what passes by itself last.
var gravity = []Reason{PodDeadlinePassed, MarkedFailed, PodNotBack, ClusterNotHealthy, PodNotReady, MaxInactiveNodes}

// Wait is the one reason why the controller has nothing to do now: that of the lock that is held up most gravely, or else that all is as
// it was asked for. Blockers are all locks that are held up. It has no Since.
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

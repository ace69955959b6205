package policies

import (
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Turn is where a cluster stands in the sequence of a rollout's policies.
type Turn struct {
	// Begun: the cluster's first policy has begun, or it needed none.
	Begun bool
	// Policy is the number of the one whose turn it is, or will be as soon as the first may begin.
	Policy int
	// Bound are those that are known to have been bound to the cluster. They must stay so until their turn is over.
	Bound []bool
	// CompliantSince is since when the cluster has been seen to be Compliant with it.
	CompliantSince *time.Time
}

// NewTurn is that of a cluster that was not looked at, to which these policies are bound as far as is known.
func NewTurn(bound []bool) Turn { return Turn{Bound: bound} }

// Step is what a turn has come to.
type Step struct {
	// State is running while the policy is enforced, soaking while it must stay Compliant, complete, or failed.
	State ranv1.ClusterState
	// Until is when the soak is over.
	Until *time.Time
	// Waits: the policy may not begin, or its turn is over and the next may not.
	Waits bool
}

// Next takes a look at a cluster. Soaks has for each policy how long a cluster must stay Compliant with it; mayBegin says whether another policy may
// begin.
//
// The first policy is the first that is bound to the cluster and with which it is not Compliant. Every later one that is bound has its turn: one with
// which it is Compliant already is over as soon as it has soaked. A cluster to which no policy is bound, or from which one that must still
// have its turn was unbound, has failed: nobody can say that it is as it should be.
func (t Turn) Next(seen ClusterStanding, soaks []time.Duration, now time.Time, mayBegin bool) (Turn, Step) {
	t.Bound = slices.Clone(t.Bound)
	first := t.Policy
	if !t.Begun {
		first = 0 // it was only to be
	}
	for policy := first; policy < len(soaks); policy++ {
		bound := seen.Standing.Of(policy) != Unbound
		if t.Bound[policy] && !bound {
			t.Policy = policy
			return t, Step{State: ranv1.ClusterFailed}
		}
		t.Bound[policy] = bound
	}
	if !t.Begun {
		return t.begin(seen.Standing, soaks, now, mayBegin)
	}
	if seen.Dipped {
		t.CompliantSince = nil
	}
	return t.goOn(seen.Standing, soaks, now, mayBegin)
}

// begin looks for the policy that is the first. One that may not begin is not enforced, and another may be the first by the time that it may.
func (t Turn) begin(standing Standing, soaks []time.Duration, now time.Time, mayBegin bool) (Turn, Step) {
	toEnforce := func(policy int) bool { return t.Bound[policy] && standing.Of(policy) != Compliant }
	t.Policy = 0
	for t.Policy < len(soaks) && !toEnforce(t.Policy) {
		t.Policy++
	}
	switch {
	case t.Policy < len(soaks) && !mayBegin:
		return t, Step{State: ranv1.ClusterRunning, Waits: true}
	case t.Policy < len(soaks):
		t.Begun = true
		return t.goOn(standing, soaks, now, true)
	}
	t.Begun, t.Policy = true, 0
	if !slices.Contains(t.Bound, true) {
		return t, Step{State: ranv1.ClusterFailed}
	}
	return t, Step{State: ranv1.ClusterComplete}
}

// goOn passes over the policies whose turn is over.
func (t Turn) goOn(standing Standing, soaks []time.Duration, now time.Time, mayBegin bool) (Turn, Step) {
	for {
		if standing.Of(t.Policy) != Compliant {
			t.CompliantSince = nil
			return t, Step{State: ranv1.ClusterRunning}
		}
		if t.CompliantSince == nil {
			t.CompliantSince = &now
		}
		if until := t.CompliantSince.Add(soaks[t.Policy]); now.Before(until) {
			return t, Step{State: ranv1.ClusterSoaking, Until: &until}
		}
		next := t.Policy + 1
		for next < len(soaks) && !t.Bound[next] {
			next++
		}
		switch {
		case next == len(soaks):
			return t, Step{State: ranv1.ClusterComplete}
		case !mayBegin:
			return t, Step{State: ranv1.ClusterRunning, Waits: true}
		}
		t.Policy, t.CompliantSince = next, nil
	}
}

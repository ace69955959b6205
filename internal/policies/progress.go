package policies

import (
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Progress is the progress of a cluster through the policies of a rollout.
type Progress struct {
	// Begun: the first policy of the cluster has started, or the cluster needed none.
	Begun bool
	// Policy is the index of the current policy, or before the start of the first one.
	Policy int
	// Bound are the policies that were observed to be bound to the cluster. Each must stay bound until the cluster has passed it.
	Bound []bool
	// CompliantSince is when the cluster became Compliant with its current policy; nil: it is not.
	CompliantSince *time.Time
}

// NewProgress is the progress of a cluster before the first observation.
func NewProgress(bound []bool) Progress { return Progress{Bound: bound} }

// Step is the next step of a cluster.
type Step struct {
	// State is running while the policy is enforced, soaking while the cluster must stay Compliant, complete, or failed.
	State ranv1.ClusterState
	// Until is the end of the soak.
	Until *time.Time
	// Waiting: the next policy, or the first one, may not start yet.
	Waiting bool
}

// Next returns the progress and the next step of a cluster after an observation. soaks has for each policy how long the cluster must stay Compliant
// with it. mayBegin: another policy may start.
// The first policy is the first one that is bound to the cluster, and that the cluster does not comply with. All later bound policies follow in
// order, and a policy that the cluster complies with already takes only its soak. The cluster fails if no policy is bound to it, or if a policy that
// it has not passed is unbound: its compliance is unknown. It waits for a policy that no Placement can bind to it.
func (p Progress) Next(observed ClusterCompliance, soaks []time.Duration, now time.Time, mayBegin bool) (Progress, Step) {
	p.Bound = slices.Clone(p.Bound)
	first := p.Policy
	if !p.Begun {
		first = 0
	}
	for policy := first; policy < len(soaks); policy++ {
		switch compliance := observed.Status.Of(policy); {
		case compliance == Unselected: // it may be bound again
		case compliance == Unbound && p.Bound[policy]:
			p.Policy = policy
			return p, Step{State: ranv1.ClusterFailed}
		default:
			p.Bound[policy] = compliance != Unbound
		}
	}
	if !p.Begun {
		return p.begin(observed.Status, soaks, now, mayBegin)
	}
	if observed.Relapsed {
		p.CompliantSince = nil
	}
	return p.advance(observed.Status, soaks, now, mayBegin)
}

// begin finds the first policy. A policy that may not start is not enforced, and another may be the first one by then.
func (p Progress) begin(status ComplianceStatus, soaks []time.Duration, now time.Time, mayBegin bool) (Progress, Step) {
	toEnforce := func(policy int) bool { return p.Bound[policy] && status.Of(policy) != Compliant }
	p.Policy = 0
	for p.Policy < len(soaks) && !toEnforce(p.Policy) {
		p.Policy++
	}
	switch {
	case p.Policy < len(soaks) && !mayBegin:
		return p, Step{State: ranv1.ClusterRunning, Waiting: true}
	case p.Policy < len(soaks):
		p.Begun = true
		return p.advance(status, soaks, now, true)
	}
	p.Begun, p.Policy = true, 0
	if !slices.Contains(p.Bound, true) {
		return p, Step{State: ranv1.ClusterFailed}
	}
	return p, Step{State: ranv1.ClusterComplete}
}

// advance passes the policies that the cluster complies with and has soaked for.
func (p Progress) advance(status ComplianceStatus, soaks []time.Duration, now time.Time, mayBegin bool) (Progress, Step) {
	for {
		if status.Of(p.Policy) != Compliant {
			p.CompliantSince = nil
			return p, Step{State: ranv1.ClusterRunning}
		}
		if p.CompliantSince == nil {
			p.CompliantSince = &now
		}
		if until := p.CompliantSince.Add(soaks[p.Policy]); now.Before(until) {
			return p, Step{State: ranv1.ClusterSoaking, Until: &until}
		}
		next := p.Policy + 1
		for next < len(soaks) && !p.Bound[next] {
			next++
		}
		switch {
		case next == len(soaks):
			return p, Step{State: ranv1.ClusterComplete}
		case !mayBegin:
			return p, Step{State: ranv1.ClusterRunning, Waiting: true}
		}
		p.Policy, p.CompliantSince = next, nil
	}
}

package policies

import (
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Progress is how far a cluster has come in the sequence of a rollout's policies.
type Progress struct {
	// Begun: the cluster's first policy has begun, or the cluster needed none.
	Begun bool
	// Policy is the number of the current policy, or of the one that begins first.
	Policy int
	// Bound are the policies that are known to have been bound to the cluster. Each must stay bound until the cluster has passed it.
	Bound []bool
	// CompliantSince is when the cluster was first seen Compliant with its current policy; nil: it is not.
	CompliantSince *time.Time
}

// NewProgress is that of a cluster before it is first observed. Bound are the policies that are known to be bound to it.
func NewProgress(bound []bool) Progress { return Progress{Bound: bound} }

// Step is what a cluster does next.
type Step struct {
	// State is running while the policy is enforced, soaking while the cluster must stay Compliant, complete, or failed.
	State ranv1.ClusterState
	// Until is when the soak ends.
	Until *time.Time
	// Waiting: the cluster is done with a policy, or has none yet, and the next may not begin.
	Waiting bool
}

// Next takes in the observed compliance of a cluster. Soaks has for each policy how long the cluster must stay Compliant with it; mayStart says whether
// another policy may begin.
//
// The first policy is the first that is bound to the cluster and with which it is not Compliant. Every later bound policy follows in order; the cluster passes
// one with which it is Compliant already as soon as it has soaked. A cluster fails if no policy is bound to it, or if a policy is unbound that it has not passed
// yet: its compliance is unknown.
func (p Progress) Next(seen ClusterCompliance, soaks []time.Duration, now time.Time, mayBegin bool) (Progress, Step) {
	p.Bound = slices.Clone(p.Bound)
	first := p.Policy
	if !p.Begun {
		first = 0 // Policy was only the expected one
	}
	for policy := first; policy < len(soaks); policy++ {
		bound := seen.Status.Of(policy) != Unbound
		if p.Bound[policy] && !bound {
			p.Policy = policy
			return p, Step{State: ranv1.ClusterFailed}
		}
		p.Bound[policy] = bound
	}
	if !p.Begun {
		return p.begin(seen.Status, soaks, now, mayBegin)
	}
	if seen.Relapsed {
		p.CompliantSince = nil
	}
	return p.advance(seen.Status, soaks, now, mayBegin)
}

// begin looks for the first policy. A policy that may not begin is not enforced, and another may be the first by the time that it may.
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

// advance passes the policies that the cluster is done with.
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

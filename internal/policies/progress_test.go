package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

// look is one look at a cluster, so many seconds after noon, and what must come of it.
type look struct {
	at       int
	status   policies.ComplianceStatus
	relapsed bool
	paused   bool
	state    ranv1.ClusterState
	policy   int
	until    int
	waits    bool
}

func TestPoliciesOfAClusterFollowEachOther(t *testing.T) {
	none, ten := []time.Duration{0, 0, 0}, []time.Duration{10 * time.Second, 0, 10 * time.Second}
	tests := []struct {
		name    string
		soaks   []time.Duration
		planned int
		looks   []look
	}{
		{"each in progress", none, 0, []look{
			{status: "NNN", state: "running", policy: 0},
			{status: "CNN", state: "running", policy: 1},
			{status: "CCN", state: "running", policy: 2},
			{status: "CCC", state: "complete", policy: 2},
		}},
		{"it begins with the first that it does not comply with", none, 1, []look{{status: "CNN", state: "running", policy: 1}}},
		{"one that it complies with when its progress comes is passed over", none, 0, []look{
			{status: "NCN", state: "running", policy: 0},
			{status: "CCN", state: "running", policy: 2},
		}},
		{"one that is not bound has no progress", none, 0, []look{
			{status: "N-N", state: "running", policy: 0},
			{status: "C-N", state: "running", policy: 2},
			{status: "C-C", state: "complete", policy: 2},
		}},
		{"one that is bound later has its progress", none, 0, []look{
			{status: "N-C", state: "running", policy: 0},
			{status: "NNC", state: "running", policy: 0},
			{status: "CNC", state: "running", policy: 1},
		}},
		{"neither pending nor unknown is compliant", none, 0, []look{
			{status: "PUU", state: "running", policy: 0},
			{status: "UUU", state: "running", policy: 0},
			{status: "CPU", state: "running", policy: 1},
		}},
		{"a cluster that complies with all by then is complete", none, 0, []look{{status: "CCC", state: "complete"}}},
		{"a cluster to which none is bound has failed", none, -1, []look{{status: "---", state: "failed"}}},
		{"a cluster that was planned for one that is not bound any more has failed", none, 1, []look{{status: "C-C", state: "failed", policy: 1}}},
		{"one that is unbound in its progress fails the cluster", none, 0, []look{
			{status: "NNN", state: "running"}, {status: "-NN", state: "failed"},
		}},
		{"one that is unbound before its progress fails the cluster", none, 0, []look{
			{status: "NNN", state: "running"}, {status: "NN-", state: "failed", policy: 2},
		}},
		{"one that is unbound after its progress does not", none, 0, []look{
			{status: "NNN", state: "running"}, {status: "CNN", state: "running", policy: 1}, {status: "-CN", state: "running", policy: 2},
		}},
		{"it soaks, and a relapse restarts the clock", ten, 0, []look{
			{at: 0, status: "NNN", state: "running"},
			{at: 1, status: "CNN", state: "soaking", until: 11},
			{at: 10, status: "CNN", state: "soaking", until: 11},
			{at: 10, status: "NNN", state: "running"},
			{at: 12, status: "CNN", state: "soaking", until: 22},
			{at: 22, status: "CNN", state: "running", policy: 1},
		}},
		{"a relapse that is over when it is told restarts the clock, too", ten, 0, []look{
			{at: 1, status: "NNN", state: "running"},
			{at: 2, status: "CNN", state: "soaking", until: 12},
			{at: 12, status: "CNN", relapsed: true, state: "soaking", until: 22},
		}},
		{"the last one soaks as well", ten, 2, []look{
			{at: 0, status: "CCN", state: "running", policy: 2},
			{at: 5, status: "CCC", state: "soaking", policy: 2, until: 15},
			{at: 15, status: "CCC", state: "complete", policy: 2},
		}},
		{"paused, none begins, and what is at work goes on", ten, 0, []look{
			{at: 0, status: "NNC", state: "running"},
			{at: 1, status: "CNC", paused: true, state: "soaking", until: 11},
			{at: 11, status: "CNC", paused: true, state: "running", waits: true},
			{at: 20, status: "CCC", paused: true, state: "running", waits: true},
			{at: 30, status: "CCC", state: "soaking", policy: 2, until: 40},
			{at: 40, status: "CCC", paused: true, state: "complete", policy: 2},
		}},
		{"paused, not even the first begins", none, 0, []look{
			{status: "NNN", paused: true, state: "running", waits: true},
			{status: "CNN", paused: true, state: "running", policy: 1, waits: true},
			{status: "NNN", paused: true, state: "running", waits: true},
			{status: "CNN", state: "running", policy: 1},
		}},
		{"paused, one that is unbound before it began fails the cluster", none, 0, []look{
			{status: "CNN", paused: true, state: "running", policy: 1, waits: true},
			{status: "-NN", paused: true, state: "failed"},
		}},
		{"paused, a cluster that needs none is complete", none, 0, []look{{status: "CCC", paused: true, state: "complete"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bound := make([]bool, len(test.soaks))
			if test.planned >= 0 {
				bound[test.planned] = true
			}
			progress := policies.NewProgress(bound)
			for i, look := range test.looks {
				var step policies.Step
				seen := policies.ClusterCompliance{Status: look.status, Relapsed: look.relapsed}
				progress, step = progress.Next(seen, test.soaks, noon.Add(time.Duration(look.at)*time.Second), !look.paused)
				require.Equal(t, look.state, step.State, "look %d", i)
				require.Equal(t, look.policy, progress.Policy, "look %d", i)
				require.Equal(t, look.waits, step.Waiting, "look %d", i)
				if look.until > 0 {
					require.Equal(t, noon.Add(time.Duration(look.until)*time.Second), *step.Until, "look %d", i)
				}
			}
		})
	}
}

func TestAClusterThatLosesAPolicyBeforeItsFirstReportFails(t *testing.T) {
	progress, step := policies.NewProgress([]bool{false, true, true}).Next(policies.ClusterCompliance{Status: "-N-"}, make([]time.Duration, 3), noon, true)
	require.Equal(t, ranv1.ClusterFailed, step.State)
	require.Equal(t, 2, progress.Policy, "the one that is not bound any more; the first never was")
}

// Whatever is seen: a cluster is complete only after each policy that is bound to it was seen to be Compliant since it was last seen not to be, in
// order, for as long as it had to soak; no policy is gone back to.
func TestACompleteClusterWasCompliantWithEachPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const count = 3
		var soaks []time.Duration
		for range count {
			soaks = append(soaks, time.Duration(rapid.IntRange(0, 3).Draw(t, "soak"))*time.Second)
		}
		progress := policies.NewProgress(make([]bool, count))
		now, before := noon, 0
		// since is when each was first seen to be Compliant without a break.
		since := make([]*time.Time, count)
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "pause")) * time.Second)
			status := policies.ComplianceStatus(rapid.StringMatching(`[CNPU]{3}`).Draw(t, "status"))
			at := now
			for policy := range count {
				switch {
				case status.Of(policy) != policies.Compliant:
					since[policy] = nil
				case since[policy] == nil:
					since[policy] = &at
				}
			}
			var step policies.Step
			mayBegin := rapid.Bool().Draw(t, "may begin")
			progress, step = progress.Next(policies.ClusterCompliance{Status: status}, soaks, now, mayBegin)
			if !progress.Begun {
				require.True(t, step.Waiting)
				require.False(t, mayBegin)
				continue
			}
			require.GreaterOrEqual(t, progress.Policy, before)
			before = progress.Policy
			switch step.State {
			case ranv1.ClusterComplete:
				last := progress.Policy
				require.NotNil(t, since[last])
				return
			case ranv1.ClusterSoaking:
				require.NotNil(t, since[progress.Policy], "only who complies soaks")
				require.True(t, step.Until.After(now))
				require.False(t, step.Until.Before(since[progress.Policy].Add(soaks[progress.Policy])))
			case ranv1.ClusterRunning:
				require.True(t, step.Waiting || since[progress.Policy] == nil, "who complies goes on, or waits for his progress")
			default:
				t.Fatalf("state %s", step.State)
			}
		}
	})
}

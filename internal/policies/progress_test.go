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

// observation is an observation of a cluster, at seconds after noon, with the expected step.
type observation struct {
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
		name         string
		soaks        []time.Duration
		planned      int
		observations []observation
	}{
		{"one policy after the other", none, 0, []observation{
			{status: "NNN", state: "running", policy: 0},
			{status: "CNN", state: "running", policy: 1},
			{status: "CCN", state: "running", policy: 2},
			{status: "CCC", state: "complete", policy: 2},
		}},
		{"the first policy is the first that is not compliant", none, 1, []observation{{status: "CNN", state: "running", policy: 1}}},
		{"a policy that is already compliant is skipped", none, 0, []observation{
			{status: "NCN", state: "running", policy: 0},
			{status: "CCN", state: "running", policy: 2},
		}},
		{"a policy that is not bound is skipped", none, 0, []observation{
			{status: "N-N", state: "running", policy: 0},
			{status: "C-N", state: "running", policy: 2},
			{status: "C-C", state: "complete", policy: 2},
		}},
		{"a policy that is bound later is enforced", none, 0, []observation{
			{status: "N-C", state: "running", policy: 0},
			{status: "NNC", state: "running", policy: 0},
			{status: "CNC", state: "running", policy: 1},
		}},
		{"neither pending nor unknown is compliant", none, 0, []observation{
			{status: "PUU", state: "running", policy: 0},
			{status: "UUU", state: "running", policy: 0},
			{status: "CPU", state: "running", policy: 1},
		}},
		{"a cluster that complies with all policies is complete", none, 0, []observation{{status: "CCC", state: "complete"}}},
		{"a cluster without bound policies fails", none, -1, []observation{{status: "---", state: "failed"}}},
		{"a cluster whose planned policy was unbound fails", none, 1, []observation{{status: "C-C", state: "failed", policy: 1}}},
		{"the cluster fails if its current policy is unbound", none, 0, []observation{
			{status: "NNN", state: "running"}, {status: "-NN", state: "failed"},
		}},
		{"the cluster fails if a later policy is unbound", none, 0, []observation{
			{status: "NNN", state: "running"}, {status: "NN-", state: "failed", policy: 2},
		}},
		{"the cluster continues if an earlier policy is unbound", none, 0, []observation{
			{status: "NNN", state: "running"}, {status: "CNN", state: "running", policy: 1}, {status: "-CN", state: "running", policy: 2},
		}},
		{"a relapse restarts the soak", ten, 0, []observation{
			{at: 0, status: "NNN", state: "running"},
			{at: 1, status: "CNN", state: "soaking", until: 11},
			{at: 10, status: "CNN", state: "soaking", until: 11},
			{at: 10, status: "NNN", state: "running"},
			{at: 12, status: "CNN", state: "soaking", until: 22},
			{at: 22, status: "CNN", state: "running", policy: 1},
		}},
		{"a relapse between two reports restarts the soak", ten, 0, []observation{
			{at: 1, status: "NNN", state: "running"},
			{at: 2, status: "CNN", state: "soaking", until: 12},
			{at: 12, status: "CNN", relapsed: true, state: "soaking", until: 22},
		}},
		{"the last policy soaks as well", ten, 2, []observation{
			{at: 0, status: "CCN", state: "running", policy: 2},
			{at: 5, status: "CCC", state: "soaking", policy: 2, until: 15},
			{at: 15, status: "CCC", state: "complete", policy: 2},
		}},
		{"a pause starts no policy, and the current one continues", ten, 0, []observation{
			{at: 0, status: "NNC", state: "running"},
			{at: 1, status: "CNC", paused: true, state: "soaking", until: 11},
			{at: 11, status: "CNC", paused: true, state: "running", waits: true},
			{at: 20, status: "CCC", paused: true, state: "running", waits: true},
			{at: 30, status: "CCC", state: "soaking", policy: 2, until: 40},
			{at: 40, status: "CCC", paused: true, state: "complete", policy: 2},
		}},
		{"a pause does not start the first policy", none, 0, []observation{
			{status: "NNN", paused: true, state: "running", waits: true},
			{status: "CNN", paused: true, state: "running", policy: 1, waits: true},
			{status: "NNN", paused: true, state: "running", waits: true},
			{status: "CNN", state: "running", policy: 1},
		}},
		{"during a pause the cluster fails if its policy is unbound", none, 0, []observation{
			{status: "CNN", paused: true, state: "running", policy: 1, waits: true},
			{status: "-NN", paused: true, state: "failed"},
		}},
		{"during a pause a compliant cluster is complete", none, 0, []observation{{status: "CCC", paused: true, state: "complete"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bound := make([]bool, len(test.soaks))
			if test.planned >= 0 {
				bound[test.planned] = true
			}
			progress := policies.NewProgress(bound)
			for i, observation := range test.observations {
				var step policies.Step
				seen := policies.ClusterCompliance{Status: observation.status, Relapsed: observation.relapsed}
				progress, step = progress.Next(seen, test.soaks, noon.Add(time.Duration(observation.at)*time.Second), !observation.paused)
				require.Equal(t, observation.state, step.State, "look %d", i)
				require.Equal(t, observation.policy, progress.Policy, "look %d", i)
				require.Equal(t, observation.waits, step.Waiting, "look %d", i)
				if observation.until > 0 {
					require.Equal(t, noon.Add(time.Duration(observation.until)*time.Second), *step.Until, "look %d", i)
				}
			}
		})
	}
}

func TestAClusterThatLosesAPolicyBeforeItsFirstReportFails(t *testing.T) {
	progress, step := policies.NewProgress([]bool{false, true, true}).Next(policies.ClusterCompliance{Status: "-N-"}, make([]time.Duration, 3), noon, true)
	require.Equal(t, ranv1.ClusterFailed, step.State)
	require.Equal(t, 2, progress.Policy, "the unbound policy; the first one was never bound")
}

// For any observations: a cluster is complete only after it was Compliant with each bound policy, in order, without a break and for the whole soak.
// It never returns to an earlier policy.
func TestACompleteClusterWasCompliantWithEachPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const count = 3
		var soaks []time.Duration
		for range count {
			soaks = append(soaks, time.Duration(rapid.IntRange(0, 3).Draw(t, "soak"))*time.Second)
		}
		progress := policies.NewProgress(make([]bool, count))
		now, before := noon, 0
		// since is when each policy became Compliant.
		since := make([]*time.Time, count)
		for range rapid.IntRange(1, 20).Draw(t, "observations") {
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
				require.NotNil(t, since[progress.Policy], "only a compliant cluster soaks")
				require.True(t, step.Until.After(now))
				require.False(t, step.Until.Before(since[progress.Policy].Add(soaks[progress.Policy])))
			case ranv1.ClusterRunning:
				require.True(t, step.Waiting || since[progress.Policy] == nil, "a compliant cluster continues, or waits")
			default:
				t.Fatalf("state %s", step.State)
			}
		}
	})
}

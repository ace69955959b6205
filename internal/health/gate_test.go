package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

var (
	passing = health.Result{Healthy: true, Message: "all checks pass"}
	failing = health.Result{Reason: health.ReasonNodeNotReady, Message: "Node w1: down", Blockers: []drydockv1.Blocker{{Kind: "Node", Name: "w1"}}}
)

func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func TestAGateOpensFailsAndSchedulesItsNextCheck(t *testing.T) {
	type pass struct {
		at      int
		results []health.Result
	}
	limited := health.Check{Name: "web", Deadline: new(after(60))}
	stable := health.Check{Name: "db", Stable: 10 * time.Second}
	both := health.Check{Name: "web", Deadline: new(after(60)), Stable: 10 * time.Second}
	for _, test := range []struct {
		name      string
		checks    []health.Check
		passes    []pass
		verdict   health.Verdict
		reason    string
		message   string
		recheckAt *time.Time
	}{
		{
			name: "a gate without checks is open", passes: []pass{{at: 0}}, verdict: health.Open,
		},
		{
			name: "a healthy check opens it", checks: []health.Check{limited},
			passes: []pass{{5, []health.Result{passing}}}, verdict: health.Open,
		},
		{
			name: "the gate waits for an unhealthy check until its deadline", checks: []health.Check{limited},
			passes: []pass{{5, []health.Result{failing}}, {8, []health.Result{failing}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down", recheckAt: new(after(60)),
		},
		{
			name: "without a deadline the gate waits for a change", checks: []health.Check{{Name: "web"}},
			passes: []pass{{5, []health.Result{failing}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down",
		},
		{
			name: "at its deadline an unhealthy check fails", checks: []health.Check{limited},
			passes: []pass{{5, []health.Result{failing}}, {60, []health.Result{failing}}}, verdict: health.Failed,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down; seen so since 10:00:05Z, for 55s",
		},
		{
			name: "a late healthy result opens the gate", checks: []health.Check{limited},
			passes: []pass{{5, []health.Result{failing}}, {90, []health.Result{passing}}}, verdict: health.Open,
		},
		{
			name: "the stable time begins with the first healthy result", checks: []health.Check{stable},
			passes: []pass{{5, []health.Result{failing}}, {8, []health.Result{passing}}, {12, []health.Result{passing}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "db: healthy, must stay so for 10s", recheckAt: new(after(18)),
		},
		{
			name: "the gate opens after the stable time", checks: []health.Check{stable},
			passes: []pass{{8, []health.Result{passing}}, {18, []health.Result{passing}}}, verdict: health.Open,
		},
		{
			name: "an unhealthy result restarts the stable time", checks: []health.Check{stable},
			passes: []pass{{8, []health.Result{passing}}, {10, []health.Result{failing}}, {11, []health.Result{passing}}, {18, []health.Result{passing}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "db: healthy, must stay so for 10s", recheckAt: new(after(21)),
		},
		{
			name: "a deadline does not end a stable time that has begun", checks: []health.Check{both},
			passes: []pass{{55, []health.Result{passing}}, {60, []health.Result{passing}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "web: healthy, must stay so for 10s", recheckAt: new(after(65)),
		},
		{
			name: "an unhealthy result after the deadline fails", checks: []health.Check{both},
			passes: []pass{{55, []health.Result{passing}}, {61, []health.Result{failing}}}, verdict: health.Failed,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down; seen so since 10:01:01Z, for 0s",
		},
		{
			name: "an unhealthy check is reported before one that must stay healthy", checks: []health.Check{stable, limited},
			passes: []pass{{5, []health.Result{passing, failing}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down", recheckAt: new(after(15)),
		},
		{
			name: "a result from before the step does not count", checks: []health.Check{limited},
			passes: []pass{{-3, []health.Result{passing}}}, verdict: health.Waiting,
			reason: health.ReasonNotBegun, message: "the clock of this worker is behind: results count from 10:00:00Z on", recheckAt: new(after(0)),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := health.NewGate(began, test.checks...)
			var decision health.Decision
			for _, pass := range test.passes {
				gate, decision = gate.Observe(after(pass.at), pass.results)
			}
			require.Equal(t, test.verdict, decision.Verdict)
			require.Equal(t, test.recheckAt, decision.RecheckAt)
			if test.verdict == health.Open {
				require.Nil(t, decision.Wait)
				return
			}
			require.Equal(t, test.reason, decision.Wait.Reason)
			require.Equal(t, test.message, decision.Wait.Message)
		})
	}
}

func TestAGateNamesTheBlockersOfAllItsChecks(t *testing.T) {
	other := health.Result{Reason: health.ReasonNothingFound, Message: "none", Blockers: []drydockv1.Blocker{{Kind: "Node", Name: "w2"}}}
	gate := health.NewGate(began, health.Check{Name: "a"}, health.Check{Name: "b"}, health.Check{Name: "c"})
	_, decision := gate.Observe(began, []health.Result{passing, failing, other})
	require.Equal(t, "b: Node w1: down", decision.Wait.Message)
	require.Equal(t, []string{"Node w1", "Node w2"}, namesOf(decision.Wait.Blockers))
}

func TestTheTimesOfADeclaredCheckCountFromTheStartOfTheStep(t *testing.T) {
	require.Equal(t, health.Check{Name: "web", Deadline: new(after(300))}, health.Declared(drydockv1.HealthCheck{Name: "web"}, began))
	require.Equal(t, health.Check{Name: "web", Stable: time.Minute},
		health.Declared(drydockv1.HealthCheck{Name: "web", TimeoutSeconds: new(int32(0)), StableSeconds: 60}, began))
}

// For random checks and times, the verdict must be one that all results so far allow.
func TestGatesKeepTheirInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checks := rapid.SliceOfN(rapid.Custom(anyCheck), 1, 3).Draw(t, "checks")
		gate := health.NewGate(began, checks...)
		healthySince := make([]*time.Time, len(checks))
		now := after(rapid.IntRange(-5, 5).Draw(t, "first pass"))
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			results := make([]health.Result, len(checks))
			for i := range checks {
				results[i] = rapid.SampledFrom([]health.Result{passing, failing}).Draw(t, "result")
				switch {
				case now.Before(began):
				case !results[i].Healthy:
					healthySince[i] = nil
				case healthySince[i] == nil:
					healthySince[i] = new(now)
				}
			}
			var decision health.Decision
			gate, decision = gate.Observe(now, results)

			require.Equal(t, mayOpen(checks, healthySince, now), decision.Verdict == health.Open)
			require.Equal(t, mustFail(checks, healthySince, now), decision.Verdict == health.Failed)
			require.Equal(t, decision.Verdict == health.Open, decision.Wait == nil)
			if decision.Verdict == health.Waiting && decision.RecheckAt != nil {
				require.True(t, decision.RecheckAt.After(now), "the next check is in the future")
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pause")) * time.Second)
		}
	})
}

func anyCheck(t *rapid.T) health.Check {
	check := health.Check{Name: "check", Stable: time.Duration(rapid.IntRange(0, 20).Draw(t, "stable")) * time.Second}
	if rapid.Bool().Draw(t, "limited") {
		check.Deadline = new(after(rapid.IntRange(0, 60).Draw(t, "deadline")))
	}
	return check
}

func mayOpen(checks []health.Check, healthySince []*time.Time, now time.Time) bool {
	for i, check := range checks {
		if healthySince[i] == nil || now.Before(healthySince[i].Add(check.Stable)) {
			return false
		}
	}
	return true
}

func mustFail(checks []health.Check, healthySince []*time.Time, now time.Time) bool {
	for i, check := range checks {
		if !now.Before(began) && healthySince[i] == nil && check.Deadline != nil && !now.Before(*check.Deadline) {
			return true
		}
	}
	return false
}

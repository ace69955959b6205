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
	well = health.Result{Healthy: true, Message: "all is well"}
	ill  = health.Result{Reason: health.ReasonNodeNotReady, Message: "Node w1: down", Blockers: []drydockv1.Blocker{{Kind: "Node", Name: "w1"}}}
)

func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func TestAGateOpensFailsAndSchedulesItsNextCheck(t *testing.T) {
	type look struct {
		at      int
		results []health.Result
	}
	limited := health.Check{Name: "web", Deadline: new(after(60))}
	stable := health.Check{Name: "db", Stable: 10 * time.Second}
	both := health.Check{Name: "web", Deadline: new(after(60)), Stable: 10 * time.Second}
	for _, test := range []struct {
		name    string
		checks  []health.Check
		looks   []look
		verdict health.Verdict
		reason  string
		message string
		again   *time.Time
	}{
		{
			name: "no check holds nobody up", looks: []look{{at: 0}}, verdict: health.Open,
		},
		{
			name: "a healthy check opens it", checks: []health.Check{limited},
			looks: []look{{5, []health.Result{well}}}, verdict: health.Open,
		},
		{
			name: "an unhealthy check is waited for until its deadline", checks: []health.Check{limited},
			looks: []look{{5, []health.Result{ill}}, {8, []health.Result{ill}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down", again: new(after(60)),
		},
		{
			name: "without a deadline it is waited for until something changes", checks: []health.Check{{Name: "web"}},
			looks: []look{{5, []health.Result{ill}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down",
		},
		{
			name: "at its deadline it has failed", checks: []health.Check{limited},
			looks: []look{{5, []health.Result{ill}}, {60, []health.Result{ill}}}, verdict: health.Failed,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down; seen so since 10:00:05Z, for 55s",
		},
		{
			name: "who looks late and sees it healthy goes on", checks: []health.Check{limited},
			looks: []look{{5, []health.Result{ill}}, {90, []health.Result{well}}}, verdict: health.Open,
		},
		{
			name: "a stable time begins at the first healthy look", checks: []health.Check{stable},
			looks: []look{{5, []health.Result{ill}}, {8, []health.Result{well}}, {12, []health.Result{well}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "db: healthy, must stay so for 10s", again: new(after(18)),
		},
		{
			name: "when it has passed the gate opens", checks: []health.Check{stable},
			looks: []look{{8, []health.Result{well}}, {18, []health.Result{well}}}, verdict: health.Open,
		},
		{
			name: "a relapse begins it again", checks: []health.Check{stable},
			looks: []look{{8, []health.Result{well}}, {10, []health.Result{ill}}, {11, []health.Result{well}}, {18, []health.Result{well}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "db: healthy, must stay so for 10s", again: new(after(21)),
		},
		{
			name: "a deadline does not cut off a stable time that has begun", checks: []health.Check{both},
			looks: []look{{55, []health.Result{well}}, {60, []health.Result{well}}}, verdict: health.Waiting,
			reason: health.ReasonStabilizing, message: "web: healthy, must stay so for 10s", again: new(after(65)),
		},
		{
			name: "but a relapse after the deadline fails", checks: []health.Check{both},
			looks: []look{{55, []health.Result{well}}, {61, []health.Result{ill}}}, verdict: health.Failed,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down; seen so since 10:01:01Z, for 0s",
		},
		{
			name: "what is unhealthy goes before what must stay healthy", checks: []health.Check{stable, limited},
			looks: []look{{5, []health.Result{well, ill}}}, verdict: health.Waiting,
			reason: health.ReasonNodeNotReady, message: "web: Node w1: down", again: new(after(15)),
		},
		{
			name: "a look from before the step is no evidence", checks: []health.Check{limited},
			looks: []look{{-3, []health.Result{well}}}, verdict: health.Waiting,
			reason: health.ReasonNotBegun, message: "the clock of this worker is behind: results count from 10:00:00Z on", again: new(after(0)),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := health.NewGate(began, test.checks...)
			var decision health.Decision
			for _, look := range test.looks {
				gate, decision = gate.Observe(after(look.at), look.results)
			}
			require.Equal(t, test.verdict, decision.Verdict)
			require.Equal(t, test.again, decision.RecheckAt)
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
	_, decision := gate.Observe(began, []health.Result{well, ill, other})
	require.Equal(t, "b: Node w1: down", decision.Wait.Message)
	require.Equal(t, []string{"Node w1", "Node w2"}, namesOf(decision.Wait.Blockers))
}

func TestTheTimesOfADeclaredCheckCountFromTheStartOfTheStep(t *testing.T) {
	require.Equal(t, health.Check{Name: "web", Deadline: new(after(300))}, health.Declared(drydockv1.HealthCheck{Name: "web"}, began))
	require.Equal(t, health.Check{Name: "web", Stable: time.Minute},
		health.Declared(drydockv1.HealthCheck{Name: "web", TimeoutSeconds: new(int32(0)), StableSeconds: 60}, began))
}

// TestGatesKeepTheirInvariants looks at random checks at random times, and recomputes from all looks what the gate may say.
func TestGatesKeepTheirInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checks := rapid.SliceOfN(rapid.Custom(anyCheck), 1, 3).Draw(t, "checks")
		gate := health.NewGate(began, checks...)
		healthySince := make([]*time.Time, len(checks))
		now := after(rapid.IntRange(-5, 5).Draw(t, "first look"))
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			results := make([]health.Result, len(checks))
			for i := range checks {
				results[i] = rapid.SampledFrom([]health.Result{well, ill}).Draw(t, "result")
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
				require.True(t, decision.RecheckAt.After(now), "who looks again at the time that was said gets on")
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

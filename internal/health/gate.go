package health

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Gate is a set of checks that must all pass at the same time, each for its stable time. It is a value with the results so far; Observe returns the
// next one.
//
// A gate starts without results. A new gate after a worker crash starts every stable time again, because there were no results in between.
type Gate struct {
	since   time.Time
	checks  []Check
	streaks []streak
}

// Check is one of the checks of a gate.
type Check struct {
	Name string
	// Deadline is when the check fails if it is not healthy then, or becomes unhealthy later. nil: it never fails.
	Deadline *time.Time
	// Stable is how long every result of the check must be healthy.
	Stable time.Duration
	// RecheckEvery is the interval of checks without change events. 0: changes trigger them.
	RecheckEvery time.Duration
}

// streak is how long a check has been continuously healthy, or unhealthy.
type streak struct {
	result Result
	since  time.Time
}

// Verdict is whether a gate is open.
type Verdict string

// The verdicts.
const (
	Open    Verdict = "Open"
	Waiting Verdict = "Waiting"
	Failed  Verdict = "Failed"
)

// Reasons of a gate that waits although no check is unhealthy.
const (
	ReasonStabilizing = "Stabilizing"
	ReasonNotBegun    = "NotBegun"
)

// Decision is the verdict of a gate, and why it is not open.
type Decision struct {
	Verdict Verdict
	// Wait is the one reason why the gate is not open; nil when it is.
	Wait *drydockv1.Wait
	// RecheckAt is when the decision changes without an event; nil: never.
	RecheckAt *time.Time
}

// defaultTimeout is the default of HealthCheck.timeoutSeconds for checks that were not read through the API.
const defaultTimeout = 300 * time.Second

// Declared returns the check with its times. They count from the start of the step, so that a worker that takes over does not start them again.
func Declared(check drydockv1.HealthCheck, since time.Time) Check {
	timeout := defaultTimeout
	if check.TimeoutSeconds != nil {
		timeout = time.Duration(*check.TimeoutSeconds) * time.Second
	}
	declared := Check{Name: check.Name, Stable: time.Duration(check.StableSeconds) * time.Second}
	if needsRequest(check) {
		declared.RecheckEvery = requestInterval
	}
	if check.Prometheus != nil {
		// Prometheus returns the last sample, which may be from before the step. After the check has passed for the maximum age of a sample, the last
		// sample is newer than the step.
		declared.Stable = max(declared.Stable, maxAge(*check.Prometheus))
	}
	if timeout > 0 {
		deadline := since.Add(timeout)
		declared.Deadline = &deadline
	}
	return declared
}

// NewGate returns a gate for a step that started at since.
func NewGate(since time.Time, checks ...Check) Gate {
	return Gate{since: since, checks: checks, streaks: make([]streak, len(checks))}
}

// Observe adds the current results, one for each check, in order. It ignores results from before the step, which differing clocks can cause.
func (g Gate) Observe(now time.Time, results []Result) (Gate, Decision) {
	if now.Before(g.since) {
		return g, Decision{Verdict: Waiting, RecheckAt: &g.since, Wait: &drydockv1.Wait{
			Reason: ReasonNotBegun, Message: "the clock of this worker is behind: results count from " + clock(g.since) + " on", Since: metav1.NewTime(now),
		}}
	}
	g.streaks = slices.Clone(g.streaks)
	for i, result := range results {
		if g.streaks[i].since.IsZero() || g.streaks[i].result.Healthy != result.Healthy {
			g.streaks[i].since = now
		}
		g.streaks[i].result = result
	}
	return g, g.decide(now)
}

// decide reports the first failed check, then the first unhealthy one, then the first that must stay healthy longer.
func (g Gate) decide(now time.Time) Decision {
	unhealthy, unsettled := -1, -1
	var recheckAt []time.Time
	for i, check := range g.checks {
		if check.RecheckEvery > 0 {
			recheckAt = append(recheckAt, now.Add(check.RecheckEvery))
		}
		switch settled := g.streaks[i].since.Add(check.Stable); {
		case !g.streaks[i].result.Healthy && check.Deadline != nil && !now.Before(*check.Deadline):
			return Decision{Verdict: Failed, Wait: g.failed(i, now)}
		case !g.streaks[i].result.Healthy:
			unhealthy = first(unhealthy, i)
			if check.Deadline != nil {
				recheckAt = append(recheckAt, *check.Deadline)
			}
		case now.Before(settled):
			unsettled = first(unsettled, i)
			recheckAt = append(recheckAt, settled)
		}
	}
	decision := Decision{Verdict: Waiting, RecheckAt: earliest(recheckAt)}
	switch {
	case unhealthy >= 0:
		decision.Wait = g.waiting(unhealthy)
	case unsettled >= 0:
		decision.Wait = g.stabilizing(unsettled)
	default:
		decision = Decision{Verdict: Open}
	}
	return decision
}

// failed is the wait for a failed check: its name, the observation and its start.
func (g Gate) failed(i int, now time.Time) *drydockv1.Wait {
	wait := g.waiting(i)
	since := g.streaks[i].since
	wait.Message = fmt.Sprintf("%s; seen so since %s, for %s", wait.Message, clock(since), now.Sub(since).Round(time.Second))
	return wait
}

func (g Gate) waiting(i int) *drydockv1.Wait {
	result := g.streaks[i].result
	return &drydockv1.Wait{
		Reason:   result.Reason,
		Message:  g.checks[i].Name + ": " + result.Message,
		Since:    metav1.NewTime(g.streaks[i].since),
		Until:    optional(g.checks[i].Deadline),
		Blockers: g.blockers(),
	}
}

func (g Gate) stabilizing(i int) *drydockv1.Wait {
	settled := g.streaks[i].since.Add(g.checks[i].Stable)
	return &drydockv1.Wait{
		Reason:  ReasonStabilizing,
		Message: fmt.Sprintf("%s: healthy, must stay so for %s", g.checks[i].Name, g.checks[i].Stable),
		Since:   metav1.NewTime(g.streaks[i].since),
		Until:   optional(&settled),
	}
}

// blockers returns the blockers of all checks, so that a person can fix them together.
func (g Gate) blockers() []drydockv1.Blocker {
	results := make([]Result, len(g.streaks))
	for i := range g.streaks {
		results[i] = g.streaks[i].result
	}
	return All(results...).Blockers
}

// first keeps an index that was found before.
func first(found, i int) int {
	if found >= 0 {
		return found
	}
	return i
}

func earliest(instants []time.Time) *time.Time {
	if len(instants) == 0 {
		return nil
	}
	e := slices.MinFunc(instants, time.Time.Compare)
	return &e
}

func optional(instant *time.Time) *metav1.Time {
	if instant == nil {
		return nil
	}
	t := metav1.NewTime(*instant)
	return &t
}

func clock(instant time.Time) string { return instant.UTC().Format("15:04:05Z") }

package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// CheckResult is the result of a health check.
type CheckResult struct {
	// Check is the name of the check.
	Check   string
	Healthy bool
	// Message is the problem if the result is not healthy.
	Message string
}

// Examine evaluates the health of the application if it is needed: a maintenance of the cluster is requested, and the lock is not released yet.
// Errors name the check: health.ErrInvalid, and failed reads.
func (s *Snapshot) Examine(ctx context.Context, policy drydockv1.WorkloadLockPolicySpec, objects health.Objects) error {
	s.Health = nil
	// Decide reports the same error.
	if a, err := view(policy, *s, time.Time{}); err != nil || len(a.requests) == 0 || a.released() {
		return nil
	}
	for _, check := range policy.ClusterHealth {
		result, err := health.Evaluate(ctx, check, "", objects)
		if err != nil {
			return err
		}
		s.Health = append(s.Health, CheckResult{Check: check.Name, Healthy: result.Healthy, Message: result.Message})
	}
	return nil
}

// releaseWhenHealthy applies the policy's checks.
func (a *application) releaseWhenHealthy() {
	d := &a.cluster
	failing := a.failingChecks()
	switch {
	case failing == "":
		d.be(lcmv1.LockInactive, ClusterHealthy, "")
	case d.From == lcmv1.LockFailed:
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
	default:
		d.be(lcmv1.LockActive, ClusterNotHealthy, failing)
	}
}

// failingChecks describes the checks of the policy that fail, or have not passed for long enough; empty: none.
func (a *application) failingChecks() string {
	var failing []string
	for _, declared := range a.policy.ClusterHealth {
		check := health.Declared(declared, a.now)
		if wrong := a.problem(check); wrong != "" {
			failing = append(failing, check.Name+": "+wrong)
			a.recheck(check)
		}
	}
	return strings.Join(failing, "; ")
}

// problem describes why a check does not pass; empty: it passes.
func (a *application) problem(check health.Check) string {
	i := slices.IndexFunc(a.health, func(r CheckResult) bool { return r.Check == check.Name })
	switch {
	case i < 0:
		return "not evaluated"
	case !a.health[i].Healthy:
		return a.health[i].Message
	case check.Stable > 0:
		return a.unsettled(check)
	}
	return ""
}

// unsettled returns for how long a passing check must still hold; empty: it is settled. Only the time while the lock is requested counts.
func (a *application) unsettled(check health.Check) string {
	since, known := a.before.HealthySince[check.Name]
	if !known {
		since = metav1.NewTime(a.wholeNow().Add(time.Second)) // whole seconds: less than that was not observed
	}
	if a.after.HealthySince == nil {
		a.after.HealthySince = map[string]metav1.Time{}
	}
	a.after.HealthySince[check.Name] = since
	settled := since.Add(check.Stable)
	if !a.now.Before(settled) {
		return ""
	}
	a.recheckBy(settled)
	return fmt.Sprintf("healthy since %s, must stay so for %s", since.UTC().Format(time.RFC3339), check.Stable)
}

// recheck schedules the next evaluation of a check that no event triggers. Every evaluation before it computes the same time.
func (a *application) recheck(check health.Check) {
	if check.RecheckEvery > 0 {
		a.recheckBy(a.now.Truncate(check.RecheckEvery).Add(check.RecheckEvery))
	}
}

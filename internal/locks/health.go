package locks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// CheckResult is what a health check found.
type CheckResult struct {
	// Check is its name.
	Check   string
	Healthy bool
	// Message says what is wrong when it is not healthy.
	Message string
}

// Examine looks at the health of the application, if it matters: somebody wants to maintain the cluster, and the application has not let go of
// it yet. Errors name the check: health.ErrInvalid, and what kept the objects from being read.
func (s *Snapshot) Examine(policy drydockv1.WorkloadLockPolicySpec, objects health.Objects) error {
	s.Health = nil
	// What cannot be viewed cannot be decided about either; Decide says why.
	if a, err := view(policy, *s, time.Time{}); err != nil || len(a.requests) == 0 || a.hasLetGo() {
		return nil
	}
	for _, check := range policy.ClusterHealth {
		result, err := health.Evaluate(check, "", objects)
		if err != nil {
			return err
		}
		s.Health = append(s.Health, CheckResult{Check: check.Name, Healthy: result.Healthy, Message: result.Message})
	}
	return nil
}

// letGoWhenHealthy applies the policy's checks.
func (a *application) letGoWhenHealthy() {
	d := &a.cluster
	sick := a.sickness()
	switch {
	case sick == "":
		d.be(lcmv1.LockInactive, ClusterHealthy, "")
	case d.From == lcmv1.LockFailed:
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
	default:
		d.be(lcmv1.LockActive, ClusterNotHealthy, sick)
	}
}

// sickness says which of the policy's checks do not hold, or not for as long as they must, or nothing.
func (a *application) sickness() string {
	var sick []string
	for _, declared := range a.policy.ClusterHealth {
		check := health.Declared(declared, a.now)
		if wrong := a.symptom(check); wrong != "" {
			sick = append(sick, check.Name+": "+wrong)
			a.lookAgain(check)
		}
	}
	return strings.Join(sick, "; ")
}

// symptom says what is wrong with a check, or nothing.
func (a *application) symptom(check health.Check) string {
	i := slices.IndexFunc(a.health, func(r CheckResult) bool { return r.Check == check.Name })
	switch {
	case i < 0:
		return "not looked at"
	case !a.health[i].Healthy:
		return a.health[i].Message
	case check.Stable > 0:
		return a.unsettled(check)
	}
	return ""
}

// unsettled says of a check that holds that it must do so for longer, or nothing. Only what was seen while the lock was asked for counts.
func (a *application) unsettled(check health.Check) string {
	since, known := a.before.HealthySince[check.Name]
	if !known {
		since = metav1.NewTime(a.wholeNow().Add(time.Second)) // less than that second was not seen
	}
	if a.after.HealthySince == nil {
		a.after.HealthySince = map[string]metav1.Time{}
	}
	a.after.HealthySince[check.Name] = since
	settled := since.Add(check.Stable)
	if !a.now.Before(settled) {
		return ""
	}
	a.lookAt(settled)
	return fmt.Sprintf("healthy since %s, must stay so for %s", since.UTC().Format(time.RFC3339), check.Stable)
}

// lookAgain has a check looked at again that no change tells of. The instant is the same for all who look before it.
func (a *application) lookAgain(check health.Check) {
	if check.LookEvery > 0 {
		a.lookAt(a.now.Truncate(check.LookEvery).Add(check.LookEvery))
	}
}

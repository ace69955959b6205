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

// Examine looks at the health of the application. It matters only while someone wants to maintain the cluster, and is not looked at
// otherwise. Errors name the check: health.ErrInvalid, and what kept the objects from being read.
func (s *Snapshot) Examine(policy drydockv1.WorkloadLockPolicySpec, objects health.Objects) error {
	s.Health = nil
	if len(s.ClusterRequests) == 0 {
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
	for _, check := range a.policy.ClusterHealth {
		i := slices.IndexFunc(a.health, func(r CheckResult) bool { return r.Check == check.Name })
		switch {
		case i < 0:
			sick = append(sick, check.Name+": not looked at")
		case !a.health[i].Healthy:
			sick = append(sick, check.Name+": "+a.health[i].Message)
		case check.StableSeconds > 0:
			if unsettled := a.unsettled(check); unsettled != "" {
				sick = append(sick, check.Name+": "+unsettled)
			}
		}
	}
	return strings.Join(sick, "; ")
}

// unsettled says of a check that holds that it must do so for longer, or nothing. Only what was seen while the lock was asked for counts.
func (a *application) unsettled(check drydockv1.HealthCheck) string {
	since, known := a.before.HealthySince[check.Name]
	if !known {
		since = metav1.NewTime(a.wholeNow().Add(time.Second)) // less than that second was not seen
	}
	if a.after.HealthySince == nil {
		a.after.HealthySince = map[string]metav1.Time{}
	}
	a.after.HealthySince[check.Name] = since
	stable := time.Duration(check.StableSeconds) * time.Second
	settled := since.Add(stable)
	if !a.now.Before(settled) {
		return ""
	}
	a.lookAt(settled)
	return fmt.Sprintf("healthy since %s, must stay so for %s", since.UTC().Format(time.RFC3339), stable)
}

package locks

import (
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
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

package activitytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

// Signals records the observations that are sent to a workflow.
type Signals struct {
	mu       sync.Mutex
	Observed []temporal.Observation
}

func (s *Signals) SignalWorkflow(_ context.Context, _, _, _ string, payload any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Observed = append(s.Observed, payload.(temporal.Observation))
	return nil
}

// Reasons returns the reasons of the reported waits.
func (s *Signals) Reasons() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var reasons []string
	for _, observation := range s.Observed {
		reasons = append(reasons, observation.Wait.Reason)
	}
	return reasons
}

func (s *Signals) Last() (last temporal.Observation, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Observed) > 0 {
		last = s.Observed[len(s.Observed)-1]
	}
	return last, len(s.Observed)
}

// WaitsFor returns the first report of a wait with that reason.
func (s *Signals) WaitsFor(t *testing.T, reason string) temporal.Observation {
	t.Helper()
	var found temporal.Observation
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.Observed) == 0 {
			return false
		}
		found = s.Observed[len(s.Observed)-1]
		return found.Wait != nil && found.Wait.Reason == reason
	}, EventTimeout, 10*time.Millisecond)
	return found
}

package activities

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

// signals keeps what is reported to a workflow.
type signals struct {
	mu       sync.Mutex
	observed []temporal.Observation
}

func (s *signals) SignalWorkflow(_ context.Context, _, _, _ string, payload any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed = append(s.observed, payload.(temporal.Observation))
	return nil
}

// reasons are the reasons of the waits that were reported.
func (s *signals) reasons() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var reasons []string
	for _, observation := range s.observed {
		reasons = append(reasons, observation.Wait.Reason)
	}
	return reasons
}

func (s *signals) last() (last temporal.Observation, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.observed) > 0 {
		last = s.observed[len(s.observed)-1]
	}
	return last, len(s.observed)
}

// waitsFor returns when what is reported waits for a reason.
func (s *signals) waitsFor(t *testing.T, reason string) temporal.Observation {
	t.Helper()
	var found temporal.Observation
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.observed) == 0 {
			return false
		}
		found = s.observed[len(s.observed)-1]
		return found.Wait != nil && found.Wait.Reason == reason
	}, newsLimit, 10*time.Millisecond)
	return found
}

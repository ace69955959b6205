package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/manifest"
	rollouts "drydock.dev/drydock/internal/rollout"
)

// An edit gets its defaults before it is compared with the running rollout.
func TestTheRolloutOfAnOnboardingHasAllDefaults(t *testing.T) {
	for _, managed := range [][]string{nil, {"a"}} {
		started := rollouts.OnboardingRollout("spoke-1", managed)
		edited := *started.DeepCopy()
		require.NoError(t, manifest.Complete(&edited))
		require.Empty(t, rollouts.ChangedFields(started.Spec, edited.Spec))
	}
}

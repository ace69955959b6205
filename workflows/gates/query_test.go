package gates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit/kittest"
)

// A replay has no queries, so commands must not depend on the result of a query.
func TestAQueryDoesNotChangeTheCachedDecisions(t *testing.T) {
	held := kittest.Run(t, func(ctx workflow.Context) (*drydockv1.Hold, error) {
		opens := workflow.Now(ctx).Add(time.Hour)
		holds := HoldsOfWindow(ctx, windows.Snapshot{Window: "prod/night", Number: 1, Next: &opens})
		hold := holds.ForQuery().Of("c1")
		require.Empty(t, holds.Windows.decisions)
		return hold, nil
	})
	require.Equal(t, "prod/night", held.Window)
}

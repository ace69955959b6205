package manifestworks

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

func TestNoWorkIsCreatedWhenTheWindowsHaveClosed(t *testing.T) {
	waits := activitykit.Waits{Workflows: &activitytest.HeldWorkflow{}}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := activitytest.Attempt{Number: 1, At: closes}
	m := newWorkScene(t)
	works := &Activities{Clusters: activitytest.Clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}, Closes: &closes}
	late.RequireClosed(t, works.PlaceManifestWorks, bring)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "no work exists")
}

func TestALaterAttemptCreatesNoWorkOnAClusterThatIsHeld(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	m := newWorkScene(t)
	works := &Activities{Clusters: activitytest.Clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}}
	workflow.RequireHeld(t, works.PlaceManifestWorks, bring, temporal.QueryHeld, bring.Desired[0].Clusters)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "no work exists")
	require.NoError(t, activitytest.RunAttempt(2, works.PlaceManifestWorks, bring))
	require.Equal(t, "PU", string(m.compliance(m.clusters[0])))
}

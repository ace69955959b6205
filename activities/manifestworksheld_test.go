package activities

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

func TestNoWorkIsCreatedWhenTheWindowsHaveClosed(t *testing.T) {
	waits := Waits{Workflows: &heldWorkflow{}}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := attempt{number: 1, at: closes}
	m := newWorkScene(t)
	works := &ManifestWorks{Clusters: clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}, Closes: &closes}
	late.requireClosed(t, works.PlaceManifestWorks, bring)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "there is no work")
}

func TestALaterAttemptCreatesNoWorkOnAClusterThatIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	m := newWorkScene(t)
	works := &ManifestWorks{Clusters: clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}}
	workflow.requireHeld(t, works.PlaceManifestWorks, bring, temporal.QueryHeld, bring.Desired[0].Clusters)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "there is no work")
	require.NoError(t, runAttempt(2, works.PlaceManifestWorks, bring))
	require.Equal(t, "PU", string(m.compliance(m.clusters[0])))
}

package policies

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

func TestPoliciesArePlacedOnNoClusterWhenTheWindowsHaveClosed(t *testing.T) {
	waits := activitykit.Waits{Workflows: &activitytest.HeldWorkflow{}}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := activitytest.Attempt{Number: 1, At: closes}
	s := newPolicyScene(t, byCopy, nil)
	places := &Activities{Clusters: activitytest.Clusters, Waits: waits}
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}, Closes: &closes}
	late.RequireClosed(t, places.PlacePolicies, place)
	require.NoError(t, activitytest.Attempt{Number: 1, At: closes.Add(-1)}.Run(places.PlacePolicies, place, nil))
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, late.Run(places.PlacePolicies, place, nil), "a removal of a cluster is allowed")
}

func TestALaterAttemptPlacesNoPolicyOnAClusterThatIsHeld(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	s := newPolicyScene(t, byCopy, nil)
	places := &Activities{Clusters: activitytest.Clusters, Waits: waits}
	s.place(0, s.clusters[0])
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}}
	workflow.RequireHeld(t, places.PlacePolicies, place, temporal.QueryHeld, s.clusters[1:])
	require.NoError(t, activitytest.RunAttempt(2, places.PlacePolicies, place))
	workflow.Hold = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, activitytest.RunAttempt(2, places.PlacePolicies, place), "a removal of a held cluster is allowed")
}

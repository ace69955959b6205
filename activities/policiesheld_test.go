package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

func TestPoliciesArePlacedOnNoClusterWhenTheWindowsHaveClosed(t *testing.T) {
	waits := Waits{Workflows: &heldWorkflow{}}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := attempt{number: 1, at: closes}
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	places := &Policies{Clusters: clusters, Waits: waits}
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}, Closes: &closes}
	late.requireClosed(t, places.PlacePolicies, place)
	require.NoError(t, attempt{number: 1, at: closes.Add(-1)}.run(places.PlacePolicies, place, nil))
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, late.run(places.PlacePolicies, place, nil), "a cluster is taken off all the same")
}

func TestALaterAttemptPlacesNoPolicyOnAClusterThatIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	places := &Policies{Clusters: clusters, Waits: waits}
	s.place(0, s.clusters[0])
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}}
	workflow.requireHeld(t, places.PlacePolicies, place, temporal.QueryHeld, s.clusters[1:])
	require.NoError(t, runAttempt(2, places.PlacePolicies, place))
	workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, runAttempt(2, places.PlacePolicies, place), "a cluster is taken off also while it is held")
}

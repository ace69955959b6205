package emergency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

func TestARestartedEmergencyStopHasAHigherNumber(t *testing.T) {
	require.Greater(t, Initial(noon.Add(time.Second)).Number, Initial(noon).Number+900)
	require.Empty(t, Initial(noon).Holds)
}

func TestEveryClusterIsHeldWhileTheSavedHoldsAreUnknown(t *testing.T) {
	state := Initial(noon).HoldUnknown("the hub does not answer", noon)
	require.Equal(t, "every cluster is held since 2026-11-20 12:00:00Z by drydock: the saved holds are unknown: the hub does not answer", state.Of("c1").String())
	require.NoError(t, state.CheckRelease(all), "a person may release it")
}

func TestSavedHoldsAreAddedToCurrentOnes(t *testing.T) {
	bob := Request{Clusters: []string{"c1"}, Actor: "bob", Reason: "fire"}
	for _, tt := range []struct {
		name          string
		since, before State
		holds         []drydockv1.HoldScope
		why           string // of c1
	}{
		{"no holds", Initial(noon), State{}, []drydockv1.HoldScope{}, ""},
		{"only saved holds", Initial(noon), held(named("c2", "c1")), []drydockv1.HoldScope{"cluster/c1", "cluster/c2"}, "flood"},
		{"the hold for unknown holds ends", Initial(noon).HoldUnknown("no answer", noon), held(named("c1")), []drydockv1.HoldScope{"cluster/c1"}, "flood"},
		{"a person's hold of everything stays", held(all), held(named("c1")), []drydockv1.HoldScope{"all", "cluster/c1"}, ""},
		{"the current hold overrides the saved one", held(bob), held(named("c1")), []drydockv1.HoldScope{"cluster/c1"}, "fire"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := tt.since.Load(tt.before)
			require.ElementsMatch(t, tt.holds, scopes(state))
			require.Greater(t, state.Number, max(tt.since.Number, tt.before.Number))
			if hold := state.Of("c1"); tt.why != "" {
				require.Equal(t, tt.why, hold.Reason)
			}
		})
	}
}

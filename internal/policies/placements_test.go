package policies_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

func TestDesiredPlacementsAreTheTargetsByItem(t *testing.T) {
	require.Empty(t, policies.Desired(nil))
	require.Equal(t, []policies.DesiredPlacement{
		{Item: policies.NoItem, Clusters: []string{"c5"}},
		{Item: 0, Clusters: []string{"c1", "c3"}, Held: []string{"c2"}},
		{Item: 2, Held: []string{"c4"}},
	}, policies.Desired([]policies.Target{
		{Cluster: "c3", Item: 0},
		{Cluster: "c4", Item: 2, Held: true},
		{Cluster: "c2", Item: 0, Held: true},
		{Cluster: "c5", Item: policies.NoItem},
		{Cluster: "c1", Item: 0},
	}))
}

// lists are observed placements that are as they were written.
func lists(clusters ...[]string) []policies.ObservedPlacement {
	observed := make([]policies.ObservedPlacement, len(clusters))
	for item := range clusters {
		observed[item].Clusters = clusters[item]
	}
	return observed
}

func TestOnlyTheDifferenceBetweenDesiredAndObservedChanges(t *testing.T) {
	tests := []struct {
		name     string
		desired  []policies.DesiredPlacement
		observed []policies.ObservedPlacement
		changes  []policies.PlacementChange
		waiting  []string
	}{
		{
			"no cluster is placed",
			[]policies.DesiredPlacement{{Item: 1, Clusters: []string{"c1", "c2"}}},
			lists(nil, nil),
			[]policies.PlacementChange{{Item: 1, Clusters: []string{"c1", "c2"}, Added: []string{"c1", "c2"}}},
			nil,
		},
		{"nothing differs", []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c1"}}}, lists([]string{"c1"}, nil), nil, nil},
		{"only the order differs", []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c1", "c2"}}}, lists([]string{"c2", "c1"}), nil, nil},
		{
			"a cluster that continues is removed from one item before it is added to the next",
			[]policies.DesiredPlacement{{Item: 0, Clusters: []string{"c1"}}},
			lists(nil, []string{"c1", "c2"}),
			[]policies.PlacementChange{{Item: 1, Removed: []string{"c1", "c2"}}, {Item: 0, Clusters: []string{"c1"}, Added: []string{"c1"}}},
			nil,
		},
		{
			"no placement is desired", nil,
			lists([]string{"c1"}, []string{"c2"}),
			[]policies.PlacementChange{{Item: 0, Removed: []string{"c1"}}, {Item: 1, Removed: []string{"c2"}}},
			nil,
		},
		{"a held cluster keeps its item, and gets no new one", []policies.DesiredPlacement{{Item: 0, Held: []string{"c1", "c2"}}}, lists([]string{"c1"}), nil, []string{"c2"}},
		{
			"a held cluster loses the wrong item",
			[]policies.DesiredPlacement{{Item: 1, Held: []string{"c1"}}},
			lists([]string{"c1"}, nil),
			[]policies.PlacementChange{{Item: 0, Removed: []string{"c1"}}},
			[]string{"c1"},
		},
		{
			"a change of other clusters does not affect a held one",
			[]policies.DesiredPlacement{{Item: 0, Clusters: []string{"c2"}, Held: []string{"c1", "c3"}}},
			lists([]string{"c1"}),
			[]policies.PlacementChange{{Item: 0, Clusters: []string{"c1", "c2"}, Added: []string{"c2"}}},
			[]string{"c3"},
		},
		{
			"with a void placement, no cluster has its item, and a held one does not keep it",
			[]policies.DesiredPlacement{{Item: 0, Clusters: []string{"c2"}, Held: []string{"c1"}}},
			[]policies.ObservedPlacement{{Clusters: []string{"c1", "c2"}, Void: true}},
			[]policies.PlacementChange{{Item: 0, Clusters: []string{"c2"}, Added: []string{"c2"}, Removed: []string{"c1"}}},
			[]string{"c1"},
		},
		{
			"an altered placement loses the clusters that it lists",
			[]policies.DesiredPlacement{{Item: 1, Clusters: []string{"c1"}}},
			[]policies.ObservedPlacement{{Clusters: []string{"c1"}, Altered: true}, {}},
			[]policies.PlacementChange{{Item: 0, Removed: []string{"c1"}}, {Item: 1, Clusters: []string{"c1"}, Added: []string{"c1"}}},
			nil,
		},
		{"an altered placement is written although no cluster changes", nil, []policies.ObservedPlacement{{Altered: true}}, []policies.PlacementChange{{Item: 0}}, nil},
		{"a void placement without clusters stays", nil, []policies.ObservedPlacement{{Void: true}}, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changes, waiting := policies.Changes(test.desired, test.observed)
			require.Len(t, changes, len(test.changes))
			for i, want := range test.changes {
				require.Equal(t, want.Item, changes[i].Item)
				require.ElementsMatch(t, want.Clusters, changes[i].Clusters)
				require.ElementsMatch(t, want.Added, changes[i].Added)
				require.ElementsMatch(t, want.Removed, changes[i].Removed)
			}
			require.Equal(t, test.waiting, waiting)
		})
	}
}

// For any observation: after the changes each cluster has only its item, a held one has no new item, and nothing is left to change.
func TestChangesMakeTheObservedPlacementsTheDesiredOnes(t *testing.T) {
	const items = 3
	names := []string{"c1", "c2", "c3", "c4", "c5"}
	rapid.Check(t, func(t *rapid.T) {
		var targets []policies.Target
		for _, name := range names {
			if rapid.Bool().Draw(t, "named") {
				targets = append(targets, policies.Target{Cluster: name, Item: rapid.IntRange(policies.NoItem, items-1).Draw(t, "item"), Held: rapid.Bool().Draw(t, "held")})
			}
		}
		observed := make([]policies.ObservedPlacement, items)
		for item := range observed {
			observed[item].Clusters = rapid.Permutation(names).Draw(t, "observed")[:rapid.IntRange(0, len(names)).Draw(t, "count")]
			observed[item].Altered, observed[item].Void = rapid.IntRange(0, 3).Draw(t, "altered") == 0, rapid.IntRange(0, 3).Draw(t, "void") == 0
		}
		desired := policies.Desired(targets)
		changes, waiting := policies.Changes(desired, observed)
		after := slices.Clone(observed)
		gaining := false
		for _, change := range changes {
			require.False(t, gaining && len(change.Added) == 0, "an item that only loses clusters comes first")
			gaining = gaining || len(change.Added) > 0
			after[change.Item] = policies.ObservedPlacement{Clusters: change.Clusters, Void: len(change.Added) == 0 && after[change.Item].Void}
		}
		for item := range after {
			for _, name := range names {
				i := slices.IndexFunc(targets, func(target policies.Target) bool { return target.Cluster == name })
				had := slices.Contains(observed[item].Clusters, name) && !observed[item].Altered && !observed[item].Void
				wanted := i >= 0 && targets[i].Item == item && (!targets[i].Held || had)
				require.Equal(t, wanted, slices.Contains(after[item].Clusters, name), "%s on %d", name, item)
			}
		}
		changes, again := policies.Changes(desired, after)
		require.Empty(t, changes)
		require.Equal(t, waiting, again)
	})
}

func TestThePlacedClustersAreReadAsTheyWereWritten(t *testing.T) {
	for _, enforcement := range []ranv1.EnforcementStatus{copyAndRule, copying, override} {
		names, err := policies.NamesFor(june, aName, enforcement.By)
		require.NoError(t, err)
		for _, clusters := range [][]string{nil, {"c1"}, {"c1", "c2"}} {
			require.Equal(t, clusters, policies.PlacedClusters(policies.Placement(june, names, aName.Name, enforcement, clusters)), "%s", enforcement)
		}
	}
}

package emergency

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func named(clusters ...string) Request {
	return Request{Clusters: clusters, Actor: "ann", Reason: "flood"}
}

var all = Request{All: true, Actor: "bob"}

// held is the state after requests to hold, a minute apart.
func held(requests ...Request) State {
	state := State{Number: 1}
	for i, r := range requests {
		state, _ = state.Hold(r, noon.Add(time.Duration(i)*time.Minute))
	}
	return state
}

// A window may let running work finish; the emergency stop does not.
func TestAHoldOfAPersonComesBeforeClosedWindows(t *testing.T) {
	window := drydockv1.Hold{Scope: drydockv1.HoldAll, Window: "ops/night"}
	state := held(named("c1"))
	state.Holds = append(state.Holds, window)
	require.Equal(t, "ann", state.Of("c1").By)
	require.Equal(t, &window, state.Of("c2"))
	about := state.ForCluster("c1")
	require.Equal(t, &window, about.Closed("c1"))
	require.Nil(t, held(named("c1"), all).Closed("c1"))
	require.Nil(t, held(named("c1")).Of(""), "not every cluster is held")
}

func TestAnAnnouncedClosingOfWindowsAppliesFromItsStart(t *testing.T) {
	window := drydockv1.Hold{Scope: drydockv1.HoldAll, Window: "ops/night", OnOverrun: drydockv1.OverrunFinish}
	finishes := State{Number: 2, Closes: &Closing{At: noon, Hold: window}}
	stops := State{Number: 2, Closes: &Closing{At: noon, Hold: window, StopsAt: noon.Add(time.Hour)}}
	for _, state := range []State{finishes, stops} {
		require.Nil(t, state.At(noon.Add(-1)).Of("c1"))
		require.True(t, state.At(noon).Of("c1").LetsFinish(), "no work starts, and running work may finish")
		require.True(t, state.At(noon.Add(time.Hour-1)).Of("c1").LetsFinish())
	}
	require.True(t, finishes.At(noon.Add(time.Hour)).Of("c1").LetsFinish())
	stops.Holds = []drydockv1.Hold{window}
	require.True(t, stops.At(noon).Of("c1").LetsFinish(), "the cutoff was announced")
	require.False(t, stops.At(noon.Add(time.Hour)).Of("c1").LetsFinish())
	require.False(t, stops.Same(finishes))
}

func TestAHoldAppliesOnlyToTheClustersItNames(t *testing.T) {
	state := held(named("c2", "c1"))
	require.Equal(t, int64(2), state.Number)
	require.Equal(t, drydockv1.Hold{Scope: "cluster/c1", By: "ann", Reason: "flood", Since: metav1.NewTime(noon)}, *state.Of("c1"))
	require.NotNil(t, state.Of("c2"))
	require.Nil(t, state.Of("c3"))
	require.Nil(t, state.All())
}

func TestAHoldOfAllHoldsEveryCluster(t *testing.T) {
	state := held(named("c1"), all)
	require.Equal(t, drydockv1.HoldAll, state.Of("c1").Scope)
	require.Equal(t, drydockv1.HoldAll, state.Of("c9").Scope)
	require.Equal(t, []drydockv1.HoldScope{"all", "cluster/c1"}, scopes(state))
}

func TestHoldingAgainKeepsTheStartAndReturnsTheFormerHold(t *testing.T) {
	state, changes := held(named("c1")).Hold(Request{Clusters: []string{"c1"}, Actor: "bob", Reason: "fire"}, noon.Add(time.Hour))
	require.Equal(t, drydockv1.Hold{Scope: "cluster/c1", By: "bob", Reason: "fire", Since: metav1.NewTime(noon)}, *state.Of("c1"))
	require.Len(t, changes, 1)
	require.Equal(t, "flood", changes[0].Before.Reason)
	require.Equal(t, "fire", changes[0].After.Reason)
}

func TestAClusterHeldByNameAndWithAllNeedsTwoReleases(t *testing.T) {
	state, changes := held(named("c1"), all).Release(all)
	require.Equal(t, drydockv1.HoldScope("cluster/c1"), state.Of("c1").Scope)
	require.Nil(t, state.Of("c2"))
	require.Equal(t, "bob", changes[0].Before.By)

	state, _ = held(named("c1"), all).Release(named("c1"))
	require.Equal(t, drydockv1.HoldAll, state.Of("c1").Scope)
}

func TestAStateCanBeLimitedToOneCluster(t *testing.T) {
	state := held(named("c1", "c2"), all)
	require.Equal(t, []drydockv1.HoldScope{"all", "cluster/c2"}, scopes(state.ForCluster("c2")))
	require.Equal(t, state.Number, state.ForCluster("c2").Number)
	require.Equal(t, state, state.ForCluster(""))
}

func TestAnInvalidRequestIsRefusedWithItsField(t *testing.T) {
	var many []string
	for i := range maxHolds + 1 {
		many = append(many, fmt.Sprintf("c%d", i))
	}
	for _, tt := range []struct {
		name    string
		state   State
		check   func(State, Request) error
		request Request
		message string
	}{
		{"a hold without clusters", State{}, State.CheckHold, Request{}, "clusters: name at least one, or set all"},
		{"a release without clusters", held(all), State.CheckRelease, Request{}, "clusters: name at least one, or set all"},
		{
			"all clusters and named ones",
			State{},
			State.CheckHold,
			Request{All: true, Clusters: []string{"c1"}},
			"all: clusters are named as well; set one of the two",
		},
		{"an empty name", State{}, State.CheckHold, named("c1", ""), `clusters[1]: "" is not a name of a cluster`},
		{"a name twice", State{}, State.CheckHold, named("c1", "c1"), `clusters[1]: c1 is named twice`},
		{"a reason that is too long", State{}, State.CheckHold, Request{All: true, Reason: strings.Repeat("x", 1001)}, "reason: has 1001 bytes, more than 1000"},
		{
			"two problems",
			State{},
			State.CheckHold,
			Request{Clusters: []string{" c1", "c2", "c2"}},
			`clusters[0]: " c1" is not a name of a cluster; clusters[2]: c2 is named twice`,
		},
		{
			"too many named clusters",
			State{},
			State.CheckHold,
			Request{Clusters: many},
			"clusters: 201 would be held by name, more than 200: hold all instead",
		},
		{
			"a release without holds",
			State{},
			State.CheckRelease, named("c1"),
			"clusters[0]: c1 is not held by its name; nothing is held",
		},
		{
			"a release of another cluster", held(named("c1")), State.CheckRelease, named("c2"),
			"clusters[0]: c2 is not held by its name; held is cluster c1 (`drydock release --cluster c1`)",
		},
		{
			"a release of one cluster while all are held", held(all), State.CheckRelease, named("c2"),
			"clusters[0]: c2 is not held by its name; held is every cluster (`drydock release --all`)",
		},
		{
			"a release of all while some are held", held(named("c1", "c2", "c3", "c4", "c5")), State.CheckRelease, all,
			"all: not every cluster is held; held is cluster c1 (`drydock release --cluster c1`), " +
				"cluster c2 (`drydock release --cluster c2`), cluster c3 (`drydock release --cluster c3`), 2 more",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.EqualError(t, tt.check(tt.state, tt.request), tt.message)
		})
	}
}

func TestTheMessageOfAHoldNamesActorReasonStartAndReleaseCommand(t *testing.T) {
	require.Equal(t, "cluster c1 is held since 2026-11-20 12:00:00Z by ann: flood; running steps finish, no new one starts; `drydock release --cluster c1` continues",
		Message(*held(named("c1")).Of("c1")))
	require.Equal(t, "every cluster is held since 2026-11-20 12:00:00Z by bob; running steps finish, no new one starts; `drydock release --all` continues",
		Message(*held(all).All()))
}

// For any requests in any order: a request that passes its check changes exactly its scopes.
func TestHoldsAndReleasesDoNotInterfere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, expected := State{Number: 1}, map[drydockv1.HoldScope]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "requests") {
			r := Request{All: rapid.Bool().Draw(t, "all")}
			if !r.All {
				r.Clusters = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"c1", "c2", "c3"}), 1, 3, rapid.ID).Draw(t, "clusters")
			}
			before := state.Number
			if rapid.Bool().Draw(t, "hold") {
				require.NoError(t, state.CheckHold(r))
				state, _ = state.Hold(r, noon)
				for _, scope := range r.Scopes() {
					expected[scope] = true
				}
			} else if state.CheckRelease(r) == nil {
				state, _ = state.Release(r)
				for _, scope := range r.Scopes() {
					require.True(t, expected[scope])
					delete(expected, scope)
				}
			} else {
				continue
			}
			require.Greater(t, state.Number, before)
			require.Len(t, state.Holds, len(expected))
			for _, cluster := range []string{"c1", "c2", "c3", "c4"} {
				require.Equal(t, expected[drydockv1.HoldAll] || expected[drydockv1.HoldCluster(cluster)], state.Of(cluster) != nil)
			}
		}
	})
}

func scopes(s State) []drydockv1.HoldScope {
	var scopes []drydockv1.HoldScope
	for _, hold := range s.Holds {
		scopes = append(scopes, hold.Scope)
	}
	return scopes
}

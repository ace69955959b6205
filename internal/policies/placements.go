package policies

import (
	"cmp"
	"slices"
)

// NoItem is the item of a cluster without one.
const NoItem = -1

// Target is the desired item of one cluster.
type Target struct {
	Cluster string
	// Item is the index of the policy or manifest work, or NoItem.
	Item int
	// Held: no item may start on the cluster now. Its current item stays.
	Held bool
	// Displaced: what places the item on the cluster was deleted or changed.
	Displaced bool
}

// DesiredPlacement has the desired clusters of one item. The names are sorted.
type DesiredPlacement struct {
	Item     int      `json:"item"`
	Clusters []string `json:"clusters,omitempty"`
	// Held are clusters on which no item may start now: the item stays on those that have it, and is not placed on the others.
	Held []string `json:"held,omitempty"`
	// Displaced: what places the item on some clusters was deleted or changed.
	Displaced bool `json:"displaced,omitempty"`
}

// Desired groups targets by item. NoItem comes first, and items without clusters are left out.
func Desired(targets []Target) []DesiredPlacement {
	targets = slices.SortedFunc(slices.Values(targets), func(a, b Target) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Cluster, b.Cluster))
	})
	var desired []DesiredPlacement
	for i, target := range targets {
		if i == 0 || target.Item != targets[i-1].Item {
			desired = append(desired, DesiredPlacement{Item: target.Item})
		}
		placement := &desired[len(desired)-1]
		placement.Displaced = placement.Displaced || target.Displaced
		if target.Held {
			placement.Held = append(placement.Held, target.Cluster)
		} else {
			placement.Clusters = append(placement.Clusters, target.Cluster)
		}
	}
	return desired
}

// PlacementChange is the change of the clusters of one item. The names are sorted.
type PlacementChange struct {
	Item int
	// Clusters are all desired clusters of the item.
	Clusters       []string
	Added, Removed []string
}

// ObservedPlacement is the placement of one item on the hub.
type ObservedPlacement struct {
	// Clusters are those that it lists.
	Clusters []string
	// Altered: another user changed the placement. It may select other clusters.
	Altered bool
	// Void: other objects that place the item were deleted or changed. No cluster has the item.
	Void bool
}

// Changes compares the desired placements of all items with the observed ones. A cluster that desired does not name gets no item. With a placement
// that is altered or void, each desired cluster counts as added, and a held one does not keep its item. Items that only lose clusters come first, so that the
// number of running clusters never exceeds the limit. Waiting are the held clusters that do not have their item.
func Changes(desired []DesiredPlacement, observed []ObservedPlacement) (changes []PlacementChange, waiting []string) {
	wanted := make([]DesiredPlacement, len(observed))
	for _, placement := range desired {
		if placement.Item != NoItem {
			wanted[placement.Item] = placement
		}
	}
	for item, want := range wanted {
		has := setOf(observed[item].Clusters)
		if observed[item].Altered || observed[item].Void {
			has = nil
		}
		clusters := slices.Clone(want.Clusters)
		for _, cluster := range want.Held {
			if has[cluster] {
				clusters = append(clusters, cluster)
			} else {
				waiting = append(waiting, cluster)
			}
		}
		slices.Sort(clusters)
		wants := setOf(clusters)
		change := PlacementChange{
			Item: item, Clusters: clusters,
			Added:   slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return has[cluster] }),
			Removed: slices.DeleteFunc(slices.Clone(observed[item].Clusters), func(cluster string) bool { return wants[cluster] }),
		}
		if len(change.Added)+len(change.Removed) > 0 || observed[item].Altered {
			changes = append(changes, change)
		}
	}
	slices.SortStableFunc(changes, func(a, b PlacementChange) int { return min(len(a.Added), 1) - min(len(b.Added), 1) })
	return changes, waiting
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

package gates

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// selectedPlaces returns selected by indexes, to carry it over: the names of clusters are in the plan already, which is long.
func (k *Windows) selectedPlaces() [][]int {
	if k.selected == nil {
		return nil
	}
	var selected [][]int
	for _, cluster := range k.clusters() {
		names, known := k.selected[cluster]
		if !known {
			return nil
		}
		places := []int{}
		for _, name := range names {
			places = append(places, slices.Index(k.Names, name))
		}
		selected = append(selected, places)
	}
	return selected
}

// restoreSelection restores the windows of the clusters from the run before. They are valid until the next selection.
func (k *Windows) restoreSelection() {
	clusters := k.clusters()
	if k.carriedSelection == nil || len(k.carriedSelection) != len(clusters) {
		return
	}
	k.selected = map[string][]string{}
	for i, cluster := range clusters {
		k.selected[cluster] = []string{}
		for _, place := range k.carriedSelection[i] {
			k.selected[cluster] = append(k.selected[cluster], k.Names[place])
		}
	}
}

// selective reports whether a window has a selector.
func (k *Windows) selective() bool {
	return slices.ContainsFunc(k.Names, func(name string) bool { return k.told[name].Selector != nil })
}

// Known reports whether the windows of the clusters are known.
func (k *Windows) Known() bool { return !k.selective() || k.selected != nil }

// selectAtOnce is the number of clusters in one activity.
const selectAtOnce = 500

// keepSelecting selects the windows of the clusters again whenever a window changes: labels may have changed since. A failure is shown and retried: another
// worker may know the hub.
func (k *Windows) keepSelecting(ctx workflow.Context) {
	pause := kit.UsualRound
	for workflow.Await(ctx, func() bool { return k.selective() && k.outdated && len(k.clusters()) > 0 }) == nil {
		k.outdated = false
		selected, err := k.selectClusters(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.setTrouble(temporal.ErrorMessage(err))
			if kit.AwaitFor(ctx, pause, "retry to select the windows of the clusters", func() bool { return k.outdated }) != nil {
				return
			}
			k.outdated, pause = true, min(2*pause, kit.LongestRound)
		case !k.outdated:
			k.selected, pause = selected, kit.UsualRound
			k.notify()
		}
	}
}

// selectClusters returns the windows of each cluster.
func (k *Windows) selectClusters(ctx workflow.Context) (map[string][]string, error) {
	retrier := kit.HubRetrier(func(_ workflow.Context, _, message string) { k.setTrouble(message) })
	var hub *rollouts.Activities
	selected, names := map[string][]string{}, k.Names
	in := rollouts.SelectClustersInput{}
	for _, name := range names {
		in.Selectors = append(in.Selectors, k.told[name].Selector)
	}
	for some := range slices.Chunk(k.clusters(), selectAtOnce) {
		in.Clusters = some
		var found [][]string
		if err := retrier.Run(ctx, "select the windows of the clusters", hub.SelectClusters, in, &found); err != nil {
			return nil, err
		}
		for _, cluster := range some {
			selected[cluster] = []string{}
		}
		for i, clusters := range found {
			for _, cluster := range clusters {
				selected[cluster] = append(selected[cluster], names[i])
			}
		}
	}
	k.setTrouble("")
	return selected, nil
}

// setTrouble records why the selection failed; empty: it succeeded.
func (k *Windows) setTrouble(trouble string) {
	if k.trouble != trouble {
		k.trouble = trouble
		k.notify()
	}
}

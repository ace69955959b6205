package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/temporal"
)

// selectedPlaces returns selected by indexes, to carry it over: the names of clusters are in the plan already, which is long.
func (k *windowKeeper) selectedPlaces() [][]int {
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
			places = append(places, slices.Index(k.names, name))
		}
		selected = append(selected, places)
	}
	return selected
}

// recall restores the windows of the clusters from the run before. They are valid until the next selection.
func (k *windowKeeper) recall() {
	clusters := k.clusters()
	if k.recalled == nil || len(k.recalled) != len(clusters) {
		return
	}
	k.selected = map[string][]string{}
	for i, cluster := range clusters {
		k.selected[cluster] = []string{}
		for _, place := range k.recalled[i] {
			k.selected[cluster] = append(k.selected[cluster], k.names[place])
		}
	}
}

// selective reports whether a window has a selector.
func (k *windowKeeper) selective() bool {
	return slices.ContainsFunc(k.names, func(name string) bool { return k.told[name].Selector != nil })
}

// known reports whether the windows of the clusters are known.
func (k *windowKeeper) known() bool { return !k.selective() || k.selected != nil }

// selectAtOnce is the number of clusters in one activity.
const selectAtOnce = 500

// keepSelecting selects the windows of the clusters again whenever a window changes: labels may have changed since. A failure is shown and retried: another
// worker may know the hub.
func (k *windowKeeper) keepSelecting(ctx workflow.Context) {
	pause := usualRound
	for workflow.Await(ctx, func() bool { return k.selective() && k.outdated && len(k.clusters()) > 0 }) == nil {
		k.outdated = false
		selected, err := k.selectClusters(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.say(temporal.ErrorMessage(err))
			if awaitFor(ctx, pause, "retry to select the windows of the clusters", func() bool { return k.outdated }) != nil {
				return
			}
			k.outdated, pause = true, min(2*pause, longestRound)
		case !k.outdated:
			k.selected, pause = selected, usualRound
			k.news()
		}
	}
}

// selectClusters returns the windows of each cluster.
func (k *windowKeeper) selectClusters(ctx workflow.Context) (map[string][]string, error) {
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(_ workflow.Context, _, message string) { k.say(message) }}
	var hub *activities.Rollouts
	selected, names := map[string][]string{}, k.names
	in := activities.SelectClustersInput{}
	for _, name := range names {
		in.Selectors = append(in.Selectors, k.told[name].Selector)
	}
	for some := range slices.Chunk(k.clusters(), selectAtOnce) {
		in.Clusters = some
		var found [][]string
		if err := insist.effect(ctx, "select the windows of the clusters", hub.SelectClusters, in, &found); err != nil {
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
	k.say("")
	return selected, nil
}

// say records why the selection failed; empty: it succeeded.
func (k *windowKeeper) say(trouble string) {
	if k.trouble != trouble {
		k.trouble = trouble
		k.news()
	}
}

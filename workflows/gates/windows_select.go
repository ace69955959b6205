package gates

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// selectedIndexes returns the selection as indexes, to carry it over. The next run has the names of the clusters in the plan.
func (k *Windows) selectedIndexes() [][]int {
	if k.selected == nil {
		return nil
	}
	var selected [][]int
	for _, cluster := range k.clusters() {
		names, known := k.selected[cluster]
		if !known {
			return nil
		}
		indexes := []int{}
		for _, name := range names {
			indexes = append(indexes, slices.Index(k.Names, name))
		}
		selected = append(selected, indexes)
	}
	return selected
}

// restoreSelection restores the selection of the previous run. It is valid until the next selection.
func (k *Windows) restoreSelection() {
	clusters := k.clusters()
	if k.carriedSelection == nil || len(k.carriedSelection) != len(clusters) {
		return
	}
	k.selected = map[string][]string{}
	for i, cluster := range clusters {
		k.selected[cluster] = []string{}
		for _, index := range k.carriedSelection[i] {
			k.selected[cluster] = append(k.selected[cluster], k.Names[index])
		}
	}
}

// selective reports whether a window has a selector.
func (k *Windows) selective() bool {
	return slices.ContainsFunc(k.Names, func(name string) bool { return k.snapshots[name].Selector != nil })
}

// Known reports whether the windows of the clusters are known.
func (k *Windows) Known() bool { return !k.selective() || k.selected != nil }

// clustersPerSelection limits the clusters of one activity.
const clustersPerSelection = 500

// selectOnChange selects the windows of the clusters whenever a window changes, since labels may have changed, too. A failure is shown and retried:
// another worker may serve the hub.
func (k *Windows) selectOnChange(ctx workflow.Context) {
	pause := kit.UsualRound
	for workflow.Await(ctx, func() bool { return k.selective() && k.selectionOutdated && len(k.clusters()) > 0 }) == nil {
		k.selectionOutdated = false
		selected, err := k.selectClusters(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.setTrouble(temporal.ErrorMessage(err))
			if kit.AwaitFor(ctx, pause, "retry to select the windows of the clusters", func() bool { return k.selectionOutdated }) != nil {
				return
			}
			k.selectionOutdated, pause = true, min(2*pause, kit.LongestRound)
		case !k.selectionOutdated:
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
		in.Selectors = append(in.Selectors, k.snapshots[name].Selector)
	}
	for some := range slices.Chunk(k.clusters(), clustersPerSelection) {
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

// setTrouble records the error of a selection; empty: it succeeded.
func (k *Windows) setTrouble(trouble string) {
	if k.trouble != trouble {
		k.trouble = trouble
		k.notify()
	}
}

package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// manyNodes returns a view of five thousand nodes.
func manyNodes() view {
	now := view{nodes: map[string]scheduling.ObservedNode{}}
	for i := range 5000 {
		name := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
		now.nodes[name] = scheduling.ObservedNode{Node: scheduling.Node{Name: name}, Maintenance: "node/production-eu-central-1/default/" + name}
	}
	return now
}

// zoned returns the same nodes with the labels of a new budget.
func (v view) zoned() view {
	nodes := maps.Clone(v.nodes)
	for name, node := range nodes {
		node.Labels = map[string]string{corev1.LabelTopologyZone: "eu-central-1a", "rack": strings.Repeat("r", 63)}
		nodes[name] = node
	}
	return view{nodes: nodes, config: maintenancev1.MaintenanceOperatorConfigSpec{AgingSeconds: 1}}
}

// requireSeen checks the size of each part, and the state of the scheduler after all parts.
func requireSeen(t *testing.T, state *scheduling.SlotState, parts []scheduling.NodeUpdate, want view) {
	t.Helper()
	for _, part := range parts {
		text, err := json.Marshal(part)
		require.NoError(t, err)
		require.Less(t, len(text), 256<<10)
		state.Update(part, time.Now())
		require.Equal(t, part.Last || len(parts) == 1, state.AllListed, "no decision is based on a part")
	}
	seen := map[string]scheduling.ObservedNode{}
	for _, node := range state.Nodes {
		seen[node.Name] = node
	}
	require.Equal(t, want.nodes, seen)
	require.Equal(t, want.config, state.Config)
}

func TestUpdatesOfALargeClusterAreSplitToTheMessageLimit(t *testing.T) {
	var state scheduling.SlotState
	from, bare := time.Unix(1, 0), manyNodes()
	requireSeen(t, &state, fullUpdate(bare, from), bare)

	zoned := bare.zoned()
	relabelled := changes(bare, zoned, from)
	require.Greater(t, len(relabelled), 5)
	requireSeen(t, &state, relabelled, zoned)

	empty := view{nodes: map[string]scheduling.ObservedNode{}, config: zoned.config}
	requireSeen(t, &state, changes(zoned, empty, from), empty)
}

func TestASmallChangeIsOneMessage(t *testing.T) {
	var state scheduling.SlotState
	from, before := time.Unix(1, 0), manyNodes()
	requireSeen(t, &state, fullUpdate(before, from), before)
	now := view{nodes: maps.Clone(before.nodes)}
	delete(now.nodes, "ip-10-0-3-7.eu-central-1.compute.internal")
	now.nodes["new"] = scheduling.ObservedNode{Node: scheduling.Node{Name: "new", Unavailable: true}}
	update := changes(before, now, from)
	require.Len(t, update, 1)
	require.False(t, update[0].First)
	require.Len(t, update[0].Nodes, 1)
	requireSeen(t, &state, update, now)
}

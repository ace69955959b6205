package scheduling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// zoned returns a node in a pool and a zone. Without a zone it has no such label.
func zoned(name, pool, zone string, changes ...func(*corev1.Node)) corev1.Node {
	n := node(name, changes...)
	n.Labels = map[string]string{"pool": pool}
	if zone != "" {
		n.Labels["zone"] = zone
	}
	return n
}

// twoZones returns nodes a1 to a3 and b1 to b3. The last of each zone has no GPU.
func twoZones() []corev1.Node {
	return []corev1.Node{
		zoned("a1", "gpu", "a"), zoned("a2", "gpu", "a"), zoned("a3", "cpu", "a"),
		zoned("b1", "gpu", "b"), zoned("b2", "gpu", "b"), zoned("b3", "cpu", "b"),
	}
}

// requestsFor returns a request for each node, with the name of the node, oldest first.
func requestsFor(nodes ...string) []maintenancev1.NodeMaintenance {
	var requests []maintenancev1.NodeMaintenance
	for i, node := range nodes {
		requests = append(requests, pending(node, "x.example.com", node, time.Duration(len(nodes)-i)*time.Second))
	}
	return requests
}

func working(node string) maintenancev1.NodeMaintenance {
	return request("w-"+node, "w.example.com", node, time.Hour, maintenancev1.NodeDraining)
}

func count(n int32) *intstr.IntOrString    { return new(intstr.FromInt32(n)) }
func percent(p string) *intstr.IntOrString { return new(intstr.FromString(p)) }
func having(label string, value maintenancev1.LabelValue) *maintenancev1.BudgetSelector {
	return &maintenancev1.BudgetSelector{MatchLabels: map[string]maintenancev1.LabelValue{label: value}}
}

func TestBudgets(t *testing.T) {
	tests := []struct {
		name     string
		nodes    []corev1.Node
		requests []maintenancev1.NodeMaintenance
		budgets  []maintenancev1.Budget
		granted  []string
		// waiting is the message by request; all wait for the budget "b".
		waiting map[string]string
	}{
		{
			name:     "a budget limits only the nodes that its selector matches",
			nodes:    twoZones(),
			requests: requestsFor("a1", "b1", "a3", "b3"),
			budgets:  []maintenancev1.Budget{{Name: "b", NodeSelector: having("pool", "gpu"), MaxParallelOperations: count(1)}},
			granted:  []string{"a1", "a3", "b3"},
			waiting:  map[string]string{"b1": "budget b: maxParallelOperations allows 1 of 4 nodes under maintenance at once (a1 for x.example.com)"},
		},
		{
			name:     "nodes under maintenance count in their budget",
			nodes:    twoZones(),
			requests: append(requestsFor("a1", "a3"), working("b1")),
			budgets:  []maintenancev1.Budget{{Name: "b", NodeSelector: having("pool", "gpu"), MaxParallelOperations: count(1)}},
			granted:  []string{"a3"},
			waiting:  map[string]string{"a1": "budget b: maxParallelOperations allows 1 of 4 nodes under maintenance at once (b1 for w.example.com)"},
		},
		{
			name:     "unavailable nodes count once, and an unavailable target costs nothing",
			nodes:    []corev1.Node{zoned("a1", "gpu", "a", notReady), zoned("a2", "gpu", "a", cordoned), zoned("a3", "gpu", "a"), zoned("a4", "gpu", "a")},
			requests: append(requestsFor("a2", "a3", "a4"), working("a1")),
			budgets:  []maintenancev1.Budget{{Name: "b", MaxUnavailable: count(3)}},
			granted:  []string{"a2", "a3"},
			waiting:  map[string]string{"a4": "budget b: maxUnavailable allows 3 of 4 nodes to be unavailable (a1 for w.example.com, a2 and 1 more)"},
		},
		{
			name:     "with a topology key each zone is limited by itself",
			nodes:    twoZones(),
			requests: requestsFor("a1", "a2", "b1", "b2"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelOperations: count(1)}},
			granted:  []string{"a1", "b1"},
			waiting: map[string]string{
				"a2": "budget b, zone a: maxParallelOperations allows 1 of 3 nodes under maintenance at once (a1 for x.example.com)",
				"b2": "budget b, zone b: maxParallelOperations allows 1 of 3 nodes under maintenance at once (b1 for x.example.com)",
			},
		},
		{
			name:     "percentages refer to the covered nodes of the zone; operations round up, unavailable nodes down",
			nodes:    append(twoZones(), zoned("a4", "gpu", "a")),
			requests: requestsFor("a1", "a2", "a4", "b1", "b2"),
			budgets: []maintenancev1.Budget{{
				Name: "b", NodeSelector: having("pool", "gpu"), TopologyKey: "zone", MaxParallelOperations: percent("40%"), MaxUnavailable: percent("99%"),
			}},
			granted: []string{"a1", "a2", "b1"},
			waiting: map[string]string{
				"a4": "budget b, zone a: maxParallelOperations (40%) allows 2 of 3 nodes under maintenance at once (a1 for x.example.com, a2 for x.example.com)",
				"b2": "budget b, zone b: maxParallelOperations (40%) allows 1 of 2 nodes under maintenance at once (b1 for x.example.com)",
			},
		},
		{
			name:     "an unavailability that rounds down to zero allows none",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxUnavailable: percent("33%")}},
			waiting:  map[string]string{"a1": "budget b, zone a: maxUnavailable (33%) allows 0 of 3 nodes to be unavailable: no maintenance starts until it is raised"},
		},
		{
			name:     "one zone at a time: a busy zone continues, another waits",
			nodes:    twoZones(),
			requests: append(requestsFor("a1", "b1", "b2", "b3", "a2"), working("b1")),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(1))}},
			granted:  []string{"b2", "b3"},
			waiting: map[string]string{
				"a1": "budget b, zone a: maxParallelZones allows 1 zone under maintenance at once: zone b (b1 for w.example.com)",
				"a2": "budget b, zone a: maxParallelZones allows 1 zone under maintenance at once: zone b (b1 for w.example.com, b2 for x.example.com and 1 more)",
			},
		},
		{
			name:     "a zone with unavailable nodes only is not under maintenance",
			nodes:    append(twoZones(), zoned("b4", "gpu", "b", notReady)),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(1))}},
			granted:  []string{"a1"},
		},
		{
			name:     "a limit of zero zones allows none",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(0))}},
			waiting:  map[string]string{"a1": "budget b, zone a: maxParallelZones allows 0 zones under maintenance at once"},
		},
		{
			name:     "a limit below the number of busy zones also stops busy zones",
			nodes:    twoZones(),
			requests: append(requestsFor("a2", "b2"), working("a1"), working("b1")),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(1))}},
			waiting: map[string]string{
				"a2": "budget b, zone a: maxParallelZones allows 1 zone under maintenance at once: zone a (a1 for w.example.com) and 1 more",
				"b2": "budget b, zone b: maxParallelZones allows 1 zone under maintenance at once: zone a (a1 for w.example.com) and 1 more",
			},
		},
		{
			name:     "a limit of zero zones also stops a busy zone",
			nodes:    twoZones(),
			requests: append(requestsFor("a2"), working("a1")),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(0))}},
			waiting: map[string]string{
				"a2": "budget b, zone a: maxParallelZones allows 0 zones under maintenance at once: zone a (a1 for w.example.com)",
			},
		},
		{
			name:     "the message names the first busy zone and counts the others",
			nodes:    []corev1.Node{zoned("b1", "gpu", "b"), zoned("a1", "gpu", "a"), zoned("a2", "gpu", "a"), zoned("c1", "gpu", "c")},
			requests: append(requestsFor("c1"), working("b1"), working("a2"), working("a1")),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(1))}},
			waiting: map[string]string{
				"c1": "budget b, zone c: maxParallelZones allows 1 zone under maintenance at once: zone a (a1 for w.example.com, a2 for w.example.com) and 1 more",
			},
		},
		{
			name:     "nodes without the topology label form one zone",
			nodes:    []corev1.Node{zoned("a1", "gpu", "a"), zoned("u1", "gpu", ""), zoned("u2", "gpu", "")},
			requests: requestsFor("u1", "u2", "a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(1)), MaxParallelOperations: count(1)}},
			granted:  []string{"u1"},
			waiting: map[string]string{
				"u2": "budget b, no zone: maxParallelOperations allows 1 of 2 nodes under maintenance at once (u1 for x.example.com)",
				"a1": "budget b, zone a: maxParallelZones allows 1 zone under maintenance at once: no zone (u1 for x.example.com)",
			},
		},
		{
			name:     "a node must fit into every budget that covers it, and a refusal uses no other budget",
			nodes:    twoZones(),
			requests: requestsFor("a1", "a2", "b1"),
			budgets: []maintenancev1.Budget{
				{Name: "gpus", NodeSelector: having("pool", "gpu"), MaxParallelOperations: count(2)},
				{Name: "b", TopologyKey: "zone", MaxParallelOperations: count(1)},
			},
			granted: []string{"a1", "b1"},
			waiting: map[string]string{"a2": "budget b, zone a: maxParallelOperations allows 1 of 3 nodes under maintenance at once (a1 for x.example.com)"},
		},
		{
			name:     "the first budget by name that refuses a node is the reason",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "z", MaxUnavailable: count(0)}, {Name: "b", MaxUnavailable: count(0)}, {Name: "c", MaxUnavailable: count(0)}},
			waiting:  map[string]string{"a1": "budget b: maxUnavailable allows 0 of 6 nodes to be unavailable: no maintenance starts until it is raised"},
		},
		{
			name:     "an invalid selector may match any node, so none may start",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets: []maintenancev1.Budget{{Name: "b", MaxUnavailable: count(5), NodeSelector: &maintenancev1.BudgetSelector{
				MatchExpressions: []maintenancev1.LabelDemand{{Key: "pool", Operator: "Is"}},
			}}},
			waiting: map[string]string{"a1": `budget b: nodeSelector cannot be read, so nothing may start: "Is" is not a valid label selector operator`},
		},
		{
			name:     "a limit that is neither a number nor a percentage allows nothing",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", MaxParallelOperations: percent("some")}},
			waiting: map[string]string{
				"a1": `budget b: maxParallelOperations is "some", so nothing may start: it must be a number of at least 0 or a percentage from 0% to 100%`,
			},
		},
		{
			name:     "a negative number of nodes allows nothing",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxUnavailable: count(-2)}},
			waiting: map[string]string{
				"a1": "budget b, zone a: maxUnavailable is -2, so nothing may start: it must be a number of at least 0 or a percentage from 0% to 100%",
			},
		},
		{
			name:     "a negative number of zones allows nothing",
			nodes:    twoZones(),
			requests: requestsFor("a1"),
			budgets:  []maintenancev1.Budget{{Name: "b", TopologyKey: "zone", MaxParallelZones: new(int32(-1))}},
			waiting:  map[string]string{"a1": "budget b, zone a: maxParallelZones is -1, so nothing may start: it must be a number of at least 0"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := limits(10, nil)
			config.Budgets = test.budgets
			decision := schedule(test.nodes, test.requests, config)
			require.Equal(t, test.granted, grantedNames(decision))
			messages := map[string]string{}
			for _, waiting := range decision.Waiting {
				if waiting.Reason == scheduling.BudgetReason("b") {
					messages[waiting.Name] = waiting.Message
				} else {
					require.Equal(t, scheduling.NodeBusy, waiting.Reason)
				}
			}
			if test.waiting == nil {
				test.waiting = map[string]string{}
			}
			require.Equal(t, test.waiting, messages)
		})
	}
}

func TestTheErrorOfSeveralInvalidLabelsIsDeterministic(t *testing.T) {
	config := limits(10, nil)
	config.Budgets = []maintenancev1.Budget{{Name: "b", MaxUnavailable: count(5), NodeSelector: &maintenancev1.BudgetSelector{
		MatchLabels: map[string]maintenancev1.LabelValue{"pool": "not a value", "arch": "nor this", "zone": "nor that"},
	}}}
	for range 20 {
		require.Contains(t, schedule(twoZones(), requestsFor("a1"), config).Waiting[0].Message, `nothing may start: values[0][arch]: Invalid value: "nor this"`)
	}
}

func TestAging(t *testing.T) {
	const busy, idle = "busy.example.com", "idle.example.com"
	requests := []maintenancev1.NodeMaintenance{
		request("at-work", busy, "n0", time.Hour, maintenancev1.NodeReady),
		pending("busy-1", busy, "n1", 9*time.Minute), pending("busy-2", busy, "n2", 20*time.Minute),
		pending("idle-1", idle, "n3", 30*time.Minute), pending("idle-2", idle, "n4", 10*time.Minute), pending("idle-3", idle, "n5", time.Minute),
	}
	tests := []struct {
		name   string
		aging  int32
		ranked []string
	}{
		{name: "without aging a busy requestor always goes first", ranked: []string{"busy-2", "busy-1", "idle-1", "idle-2", "idle-3"}},
		{
			name: "requests that have waited for longer go first, the oldest before all", aging: 600,
			ranked: []string{"idle-1", "busy-2", "busy-1", "idle-2", "idle-3"},
		},
		{name: "if all have waited too long, only their age counts", aging: 30, ranked: []string{"idle-1", "busy-2", "idle-2", "busy-1", "idle-3"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := limits(10, nil)
			config.AgingSeconds = test.aging
			in := scheduling.InputOf(nodes(6, 0), requests, config, noon)
			var names []string
			for _, request := range scheduling.Ranked(in) {
				names = append(names, request.Name)
			}
			require.Equal(t, test.ranked, names)
			require.Equal(t, test.ranked, grantedNames(scheduling.Schedule(in)))
		})
	}
}

func TestARequestWithoutAStartHasNotWaitedTooLong(t *testing.T) {
	config := limits(1, nil)
	config.AgingSeconds = 600
	undated := pending("undated", "a.example.com", "n1", 0)
	undated.CreationTimestamp = metav1.Time{}
	decision := schedule(nodes(3, 0), []maintenancev1.NodeMaintenance{
		undated, pending("of-the-same", "a.example.com", "n2", time.Minute), pending("alone", "b.example.com", "n0", time.Minute),
	}, config)
	require.Equal(t, []string{"alone"}, grantedNames(decision))
}

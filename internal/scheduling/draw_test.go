package scheduling_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// cluster has the objects of a cluster for an input.
type cluster struct {
	Nodes    []corev1.Node
	Requests []maintenancev1.NodeMaintenance
	Config   maintenancev1.MaintenanceOperatorConfigSpec
}

func (c cluster) input() scheduling.Input {
	return scheduling.InputOf(c.Nodes, c.Requests, c.Config, noon)
}

func (c cluster) schedule() scheduling.Decision { return scheduling.Schedule(c.input()) }

// drawCluster draws a small cluster with two pools and two zones, with requests in every state, some for nodes that do not exist, and with up
// to three further budgets.
func drawCluster(t *rapid.T) cluster {
	var c cluster
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		c.Nodes = append(c.Nodes, drawNode(t, fmt.Sprintf("n%d", i)))
	}
	for i := range rapid.IntRange(0, 14).Draw(t, "requests") {
		c.Requests = append(c.Requests, drawRequest(t, fmt.Sprintf("r%d", i)))
	}
	c.Config.MaxParallelOperations = drawLimit(t, "parallel")
	c.Config.MaxUnavailable = drawLimit(t, "unavailable")
	c.Config.AgingSeconds = rapid.SampledFrom([]int32{0, 90}).Draw(t, "aging")
	for i := range rapid.IntRange(0, 3).Draw(t, "budgets") {
		c.Config.Budgets = append(c.Config.Budgets, drawBudget(t, fmt.Sprintf("b%d", i)))
	}
	return c
}

func drawNode(t *rapid.T, name string) corev1.Node {
	n := node(name)
	n.Labels = map[string]string{"pool": rapid.SampledFrom([]string{"cpu", "gpu"}).Draw(t, "pool")}
	if zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"); zone != "" {
		n.Labels["zone"] = zone
	}
	n.Spec.Unschedulable = rapid.IntRange(0, 3).Draw(t, "cordoned") == 0
	if rapid.IntRange(0, 3).Draw(t, "not ready") == 0 {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return n
}

func drawRequest(t *rapid.T, name string) maintenancev1.NodeMaintenance {
	return request(name,
		rapid.SampledFrom([]string{"a.example.com", "b.example.com", "c.example.com"}).Draw(t, "requestor"),
		fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node")),
		time.Duration(rapid.IntRange(0, 3).Draw(t, "age"))*time.Minute,
		rapid.SampledFrom([]maintenancev1.NodeState{
			"", maintenancev1.NodePending, maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeReady, maintenancev1.NodeCompleted,
		}).Draw(t, "state"))
}

func drawLimit(t *rapid.T, name string) *intstr.IntOrString {
	switch rapid.IntRange(0, 2).Draw(t, name+" form") {
	case 0:
		return new(intstr.FromInt32(rapid.Int32Range(0, 6).Draw(t, name)))
	case 1:
		return new(intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, name))))
	}
	return nil
}

func drawBudget(t *rapid.T, name string) maintenancev1.Budget {
	budget := maintenancev1.Budget{
		Name: name, MaxUnavailable: drawLimit(t, "budget unavailable"), MaxParallelOperations: drawLimit(t, "budget parallel"),
	}
	if rapid.Bool().Draw(t, "selects") {
		budget.NodeSelector = &maintenancev1.BudgetSelector{MatchLabels: map[string]maintenancev1.LabelValue{"pool": "gpu"}}
	}
	if rapid.Bool().Draw(t, "by zone") {
		budget.TopologyKey = "zone"
		if rapid.Bool().Draw(t, "limits zones") {
			budget.MaxParallelZones = new(rapid.Int32Range(0, 3).Draw(t, "zones"))
		}
	}
	return budget
}

// holding returns the nodes with a request in progress.
func (c cluster) holding() []string {
	var names []string
	for _, request := range c.Requests {
		if slices.Contains([]string{"Scheduled", "Ready"}, stateOf(request)) {
			names = append(names, request.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func stateOf(request maintenancev1.NodeMaintenance) string {
	if len(request.Status.Conditions) == 0 {
		return "Pending"
	}
	return request.Status.Conditions[0].Reason
}

// limitKey identifies a limit: its budget, zone and kind.
type limitKey struct {
	reason scheduling.Reason
	zone   string
	of     string
}

// exceeded returns the limits that further maintenances of these nodes exceed, or exceed by more. It computes them naively, with all nodes for each
// limit.
func (c cluster) exceeded(nodes ...string) []limitKey {
	limits, before, after, alone := c.limits(), c.counts(c.holding()), c.counts(slices.Concat(c.holding(), nodes)), c.counts(nodes)
	var keys []limitKey
	for key, count := range after {
		more := count > before[key] || key.of == "zones" && alone[key] > 0 // a zone above the limit does not continue either
		if limit, limited := limits[key]; limited && count > limit && more {
			keys = append(keys, key)
		}
	}
	return keys
}

// pools calls with each node of each group that has limits of its own.
func (c cluster) pools(each func(key limitKey, n corev1.Node, parallel, unavailable *intstr.IntOrString)) {
	for _, n := range c.Nodes {
		parallel := c.Config.MaxParallelOperations
		if parallel == nil {
			parallel = new(intstr.FromInt32(1))
		}
		each(limitKey{}, n, parallel, c.Config.MaxUnavailable)
		for _, b := range c.Config.Budgets {
			if b.NodeSelector != nil && n.Labels["pool"] != "gpu" {
				continue
			}
			key := limitKey{reason: scheduling.Reason("Budget/" + b.Name)}
			if b.TopologyKey != "" {
				key.zone = n.Labels["zone"]
			}
			each(key, n, b.MaxParallelOperations, b.MaxUnavailable)
		}
	}
}

func (c cluster) limits() map[limitKey]int {
	sizes, limits := map[limitKey]int{}, map[limitKey]int{}
	c.pools(func(key limitKey, _ corev1.Node, _, _ *intstr.IntOrString) { sizes[key]++ })
	c.pools(func(key limitKey, _ corev1.Node, parallel, unavailable *intstr.IntOrString) {
		if parallel != nil {
			limits[key.named(scheduling.NoSlot)] = numberOf(*parallel, sizes[key], 99)
		}
		if unavailable != nil {
			limits[key.named(scheduling.MaxUnavailable)] = numberOf(*unavailable, sizes[key], 0)
		}
	})
	for _, b := range c.Config.Budgets {
		if b.MaxParallelZones != nil {
			limits[limitKey{reason: scheduling.Reason("Budget/" + b.Name), of: "zones"}] = int(*b.MaxParallelZones)
		}
	}
	return limits
}

// counts returns the usage of each limit if these nodes are under maintenance.
func (c cluster) counts(underMaintenance []string) map[limitKey]int {
	counts, zones := map[limitKey]int{}, map[limitKey]bool{}
	for _, name := range underMaintenance {
		if !slices.ContainsFunc(c.Nodes, func(n corev1.Node) bool { return n.Name == name }) { // a missing node counts only against the limits of the cluster
			counts[limitKey{}.named(scheduling.NoSlot)]++
			counts[limitKey{}.named(scheduling.MaxUnavailable)]++
		}
	}
	c.pools(func(key limitKey, n corev1.Node, _, _ *intstr.IntOrString) {
		working := slices.Contains(underMaintenance, n.Name)
		if working {
			counts[key.named(scheduling.NoSlot)]++
		}
		if working || n.Spec.Unschedulable || n.Status.Conditions[0].Status != corev1.ConditionTrue {
			counts[key.named(scheduling.MaxUnavailable)]++
		}
		if working && key.reason != "" && !zones[key] {
			zones[key] = true
			counts[limitKey{reason: key.reason, of: "zones"}]++
		}
	})
	return counts
}

// named returns the reason of a limit. The limits of the whole cluster have reasons of their own.
func (k limitKey) named(of scheduling.Reason) limitKey {
	k.of = string(of)
	if k.reason == "" {
		k.reason = of
	}
	return k
}

// numberOf evaluates a number or a percentage; rest is 99 to round up, 0 to round down.
func numberOf(value intstr.IntOrString, of, rest int) int {
	if value.Type == intstr.Int {
		return value.IntValue()
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return (percent*of + rest) / 100
}

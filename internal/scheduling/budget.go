package scheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// budget is a budget of the configuration.
type budget struct {
	maintenancev1.Budget
	selector labels.Selector
	// unreadable is the error of an invalid selector, which may be meant for any node.
	unreadable error
	// zones by name. Without a topologyKey there is one zone without a name.
	zones map[string]*pool
	// busyZones are the zones with nodes under maintenance.
	busyZones []*pool
}

// budgetsOf returns the budgets sorted by name, so that the order of the input has no effect.
func budgetsOf(config maintenancev1.MaintenanceOperatorConfigSpec) []*budget {
	budgets := make([]*budget, 0, len(config.Budgets))
	for _, spec := range config.Budgets {
		b := &budget{Budget: spec, selector: labels.Everything(), zones: map[string]*pool{}}
		if spec.NodeSelector != nil {
			b.selector, b.unreadable = parseSelector(spec.NodeSelector.LabelSelector())
		}
		budgets = append(budgets, b)
	}
	slices.SortStableFunc(budgets, func(a, b *budget) int { return cmp.Compare(a.Name, b.Name) })
	return budgets
}

// parseSelector parses a selector. It parses the labels in the order of their keys, so that it always reports the same of several errors.
func parseSelector(selector *metav1.LabelSelector) (labels.Selector, error) {
	expressions := slices.Clone(selector.MatchExpressions)
	for _, key := range labelKeysOf(selector) {
		expressions = append(expressions, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{selector.MatchLabels[key]},
		})
	}
	//workflowcheck:ignore errors are formatted, but into memory
	return metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: expressions})
}

// labelKeysOf returns the keys of matchLabels, sorted.
func labelKeysOf(selector *metav1.LabelSelector) []string {
	//workflowcheck:ignore the keys are sorted
	return slices.Sorted(maps.Keys(selector.MatchLabels))
}

// zoneOf returns the zone of a node; nil: the budget does not cover the node. Nodes without the topology label form a zone of their own: without a zone,
// they would escape the budget.
func (b *budget) zoneOf(node Node) *pool {
	if b.unreadable == nil && !b.selector.Matches(labels.Set(node.Labels)) {
		return nil
	}
	name := ""
	if b.TopologyKey != "" {
		name = node.Labels[b.TopologyKey]
	}
	zone := b.zones[name]
	if zone == nil {
		zone = &pool{budget: b, zone: name}
		b.zones[name] = zone
	}
	return zone
}

// refuse returns why the budget as a whole allows no further node of the zone; empty: it allows one.
func (b *budget) refuse(zone *pool) string {
	switch {
	case b.unreadable != nil:
		return fmt.Sprintf("nodeSelector cannot be read, so nothing may start: %v", b.unreadable)
	case b.MaxParallelZones == nil || b.busyZonesWith(zone) <= int(*b.MaxParallelZones):
		return ""
	case *b.MaxParallelZones < 0:
		return allowsNothing("maxParallelZones", strconv.Itoa(int(*b.MaxParallelZones)), "a number of at least 0")
	}
	return fmt.Sprintf("maxParallelZones allows %s under maintenance at once%s", counted(int(*b.MaxParallelZones), "zone"), b.describeBusyZones())
}

// busyZonesWith returns how many zones would have nodes under maintenance, including that one.
func (b *budget) busyZonesWith(zone *pool) int {
	if len(zone.operations.holders) > 0 {
		return len(b.busyZones)
	}
	return len(b.busyZones) + 1
}

// describeBusyZones names the first busy zone and its nodes, as the end of a sentence.
func (b *budget) describeBusyZones() string {
	if len(b.busyZones) == 0 {
		return ""
	}
	first := slices.MinFunc(b.busyZones, func(a, b *pool) int { return cmp.Compare(a.zone, b.zone) })
	text := ": " + first.zoneName() + first.operations.names()
	if others := len(b.busyZones) - 1; others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	return text
}

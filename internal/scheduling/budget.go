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

// budget is one of the configuration's budgets.
type budget struct {
	maintenancev1.Budget
	selector labels.Selector
	// unreadable is why the selector cannot be read: it may then be meant for any node.
	unreadable error
	// zones by name; without a topologyKey there is one, which has no name.
	zones map[string]*pool
	// atWork are the zones with nodes under maintenance.
	atWork []*pool
}

// budgetsOf returns the budgets in order of their names, so that the order in which they are given does not show.
func budgetsOf(config maintenancev1.MaintenanceOperatorConfigSpec) []*budget {
	budgets := make([]*budget, 0, len(config.Budgets))
	for _, spec := range config.Budgets {
		b := &budget{Budget: spec, selector: labels.Everything(), zones: map[string]*pool{}}
		if spec.NodeSelector != nil {
			b.selector, b.unreadable = read(spec.NodeSelector.LabelSelector())
		}
		budgets = append(budgets, b)
	}
	slices.SortStableFunc(budgets, func(a, b *budget) int { return cmp.Compare(a.Name, b.Name) })
	return budgets
}

// read reads a selector. Its labels are read in order of their keys, so that of several errors it is always the same that is told.
func read(selector *metav1.LabelSelector) (labels.Selector, error) {
	expressions := slices.Clone(selector.MatchExpressions)
	for _, key := range labelsOf(selector) {
		expressions = append(expressions, metav1.LabelSelectorRequirement{
			Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{selector.MatchLabels[key]},
		})
	}
	//workflowcheck:ignore errors are formatted, but into memory
	return metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: expressions})
}

// labelsOf returns the keys of matchLabels, sorted.
func labelsOf(selector *metav1.LabelSelector) []string {
	//workflowcheck:ignore the keys are sorted
	return slices.Sorted(maps.Keys(selector.MatchLabels))
}

// zoneOf is the zone of the budget that a node belongs to; nil if the budget does not cover the node. Nodes without the topology label are
// a zone of their own: counted with no zone at all, they would be free of the budget.
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

// refuse says why no node of the zone may go under maintenance, because of the budget as a whole; empty if one may.
func (b *budget) refuse(zone *pool) string {
	switch {
	case b.unreadable != nil:
		return fmt.Sprintf("nodeSelector cannot be read, so nothing may start: %v", b.unreadable)
	case b.MaxParallelZones == nil || b.zonesWith(zone) <= int(*b.MaxParallelZones):
		return ""
	case *b.MaxParallelZones < 0:
		return allowsNothing("maxParallelZones", strconv.Itoa(int(*b.MaxParallelZones)), "a number of at least 0")
	}
	return fmt.Sprintf("maxParallelZones allows %s under maintenance at once%s", counted(int(*b.MaxParallelZones), "zone"), b.zonesAtWork())
}

// zonesWith is how many zones would have nodes under maintenance if that one had.
func (b *budget) zonesWith(zone *pool) int {
	if len(zone.operations.holders) > 0 {
		return len(b.atWork)
	}
	return len(b.atWork) + 1
}

// zonesAtWork names a zone with nodes under maintenance, and these, as the end of a sentence.
func (b *budget) zonesAtWork() string {
	if len(b.atWork) == 0 {
		return ""
	}
	first := slices.MinFunc(b.atWork, func(a, b *pool) int { return cmp.Compare(a.zone, b.zone) })
	text := ": " + first.zoneName() + first.operations.names()
	if others := len(b.atWork) - 1; others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	return text
}

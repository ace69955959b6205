package scheduling

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// pool is nodes that share limits: all of the cluster, those that a budget covers, or one zone of these.
type pool struct {
	// budget is nil for all nodes of the cluster.
	budget *budget
	zone   string
	// size is how many nodes there are.
	size int
	// operations are nodes under maintenance.
	operations allowance
	// outages are nodes that are unavailable or under maintenance; one that is both counts once.
	outages allowance
}

// limit sets what is allowed; the size of the pool is known by then. Without a configuration one node at a time may be under maintenance.
func (p *pool) limit(config maintenancev1.MaintenanceOperatorConfigSpec) {
	parallel, unavailable := config.MaxParallelOperations, config.MaxUnavailable
	switch {
	case p.budget != nil:
		parallel, unavailable = p.budget.MaxParallelOperations, p.budget.MaxUnavailable
	case parallel == nil:
		parallel = new(intstr.FromInt32(1))
	}
	p.operations, p.outages = allowed(parallel, p.size, true), allowed(unavailable, p.size, false)
}

// occupy counts a node of the pool as under maintenance; and as unavailable, unless it is counted as that already.
func (p *pool) occupy(holder string, unavailable bool) {
	if p.budget != nil && len(p.operations.holders) == 0 {
		p.budget.atWork = append(p.budget.atWork, p)
	}
	p.operations.take(holder)
	if !unavailable {
		p.outages.take(holder)
	}
}

// refuse says why one more node of the pool may not go under maintenance; no reason if it may. One that is unavailable already makes no other
// so.
func (p *pool) refuse(unavailable bool) (Reason, string) {
	switch {
	case p.operations.spent():
		return p.reason(NoSlot), p.told(&p.operations, "maxParallelOperations", "allows %d of %s under maintenance at once%s")
	case !unavailable && p.outages.spent():
		return p.reason(MaxUnavailable), p.told(&p.outages, "maxUnavailable", "allows %d of %s to be unavailable%s")
	case p.budget != nil:
		if message := p.budget.refuse(p); message != "" {
			return p.reason(""), p.title() + message
		}
	}
	return "", ""
}

// told says what is allowed, and who has it.
func (p *pool) told(a *allowance, field, format string) string {
	switch {
	case a.told != "":
	case a.invalid != "":
		a.told = p.title() + allowsNothing(field, a.invalid, "a number of at least 0 or a percentage from 0% to 100%")
	default:
		a.told = p.title() + field + " " + fmt.Sprintf(format, *a.limit, counted(p.size, "node"), a.names())
	}
	return a.told
}

// reason is that of the configuration's own limits, or names the budget.
func (p *pool) reason(own Reason) Reason {
	if p.budget == nil {
		return own
	}
	return BudgetReason(p.budget.Name)
}

// title names the budget and the zone, as the beginning of a sentence.
func (p *pool) title() string {
	switch {
	case p.budget == nil:
		return ""
	case p.budget.TopologyKey == "":
		return fmt.Sprintf("budget %s: ", p.budget.Name)
	}
	return fmt.Sprintf("budget %s, %s: ", p.budget.Name, p.zoneName())
}

func (p *pool) zoneName() string {
	if p.zone == "" {
		return "no zone"
	}
	return "zone " + p.zone
}

func counted(count int, word string) string {
	if count == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", count, word)
}

package scheduling

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// pool is a group of nodes that share limits: all nodes of the cluster, those of a budget, or those of one zone of a budget.
type pool struct {
	// budget is nil for all nodes of the cluster.
	budget *budget
	zone   string
	// size is the number of nodes.
	size int
	// operations are nodes under maintenance.
	operations allowance
	// outages are nodes that are unavailable, under maintenance, or both.
	outages allowance
}

// limit sets the limits of the pool, whose size must be known. Without a configuration, one node at a time may be under maintenance.
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

// occupy counts a node of the pool as under maintenance, and as unavailable unless it is already counted so.
func (p *pool) occupy(holder string, unavailable bool) {
	if p.budget != nil && len(p.operations.holders) == 0 {
		p.budget.busyZones = append(p.budget.busyZones, p)
	}
	p.operations.add(holder)
	if !unavailable {
		p.outages.add(holder)
	}
}

// refuse returns why the pool allows no further node under maintenance; empty: it allows one. A node that is already unavailable adds no outage.
func (p *pool) refuse(unavailable bool) (Reason, string) {
	switch {
	case p.operations.spent():
		return p.reason(NoSlot), p.limitMessage(&p.operations, "maxParallelOperations", "allows %d of %s under maintenance at once%s")
	case !unavailable && p.outages.spent():
		return p.reason(MaxUnavailable), p.limitMessage(&p.outages, "maxUnavailable", "allows %d of %s to be unavailable%s")
	case p.budget != nil:
		if message := p.budget.refuse(p); message != "" {
			return p.reason(""), p.title() + message
		}
	}
	return "", ""
}

// limitMessage returns the text about a spent limit, with its holders.
func (p *pool) limitMessage(a *allowance, field, format string) string {
	switch {
	case a.cachedMessage != "":
	case a.invalid != "":
		a.cachedMessage = p.title() + allowsNothing(field, a.invalid, "a number of at least 0 or a percentage from 0% to 100%")
	default:
		if a.percentage != "" {
			field += " (" + a.percentage + ")"
		}
		a.cachedMessage = p.title() + field + " " + fmt.Sprintf(format, *a.limit, counted(p.size, "node"), a.names())
		if *a.limit == 0 {
			a.cachedMessage += ": no maintenance starts until it is raised"
		}
	}
	return a.cachedMessage
}

// reason returns the reason with the name of the budget, or the given one for the limits of the whole cluster.
func (p *pool) reason(own Reason) Reason {
	if p.budget == nil {
		return own
	}
	return BudgetReason(p.budget.Name)
}

// title names the budget and the zone, as the start of a sentence.
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

// Package statuspage serves what is going on: the components of a portal and their maintenances, rollouts, and nodes out of service. A page for
// people, an API and an MCP server for programs; all of them answer from one view, which one reader keeps.
package statuspage

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
)

// View is all that is known at a moment. It is never changed: whoever has it reads it without a lock.
type View struct {
	// Number grows with every view.
	Number int64
	// Portal is what the portal shows; nil while nobody has declared anything of it.
	Portal *portal.View
	// PortalOnly: nothing is read but that. Rollouts and nodes belong to no portal.
	PortalOnly bool
	// Upgrades and Nodes, those that run first, then those that ended last.
	Upgrades []Upgrade
	Nodes    []Node
	// MoreUpgrades and MoreNodes are how many run that are not among them, because there are very many.
	MoreUpgrades, MoreNodes int
	// AsOf is when all that was true last.
	AsOf time.Time
	// Trouble is why it may be true no longer; nil: it is how things are.
	Trouble *Trouble
	// revisions tell whether a part is that of an earlier view.
	revisions revisions
}

// revisions count the changes of the parts of a view.
type revisions struct{ portal, upgrades, nodes int64 }

// Trouble is what does not answer, and since when.
type Trouble struct {
	Message string
	Since   time.Time
}

// Work is a workflow that is shown, with its status.
type Work[S any] struct {
	observe.Row
	// Status as it was read last, if it is Known.
	Status S
	Known  bool
	// Trouble is why Status may not be how the work stands.
	Trouble *Trouble
	// chain names all runs that continue each other, by the first. settled: the work is over, and there is nothing more to read of it.
	chain   string
	settled bool
	// dumb: it has ended without a status of its own.
	dumb bool
}

// take takes over what Temporal says of a run. What was read of others under the same id is not true of this one.
func (w *Work[S]) take(row observe.Row, chain string) {
	if w.chain != "" && w.chain != chain || w.CompletedAt != nil && row.CompletedAt == nil {
		*w = Work[S]{}
	}
	w.Row, w.chain = row, chain
}

// outdatedBy reports whether what Temporal lists says more than what is known. Lists lag behind: of a run that has been read they count only when
// they say that it is over.
func (w Work[S]) outdatedBy(row observe.Row) bool {
	switch {
	case row.StartedAt.After(w.StartedAt):
		return true
	case row.StartedAt.Before(w.StartedAt), w.settled:
		return false
	case w.Running() && row.CompletedAt != nil:
		return true
	}
	return !w.Known && !reflect.DeepEqual(row, w.Row)
}

// Running reports whether the work is not over.
func (w Work[S]) Running() bool { return w.CompletedAt == nil }

// Cut reports whether the work did not come to an end of its own: it was terminated, or timed out, or failed without a word.
func (w Work[S]) Cut() bool {
	return w.dumb || observe.Cut(w.Execution)
}

// Upgrade is a rollout.
type Upgrade = Work[ranv1.ClusterGroupUpgradeStatus]

// Node is one maintenance of a node.
type Node = Work[maintenancev1.NodeMaintenanceStatus]

// stateOf is where the maintenance of a node stands, in one word.
func stateOf(n Node) string {
	if n.Cut() {
		return n.Execution
	}
	return cmp.Or(string(n.Status.State), n.Phase, n.Execution)
}

// upgrade finds a rollout.
func (v *View) upgrade(namespace, name string) (Upgrade, bool) {
	i := slices.IndexFunc(v.Upgrades, func(u Upgrade) bool { return u.Namespace == namespace && u.Name == name })
	if i < 0 {
		return Upgrade{}, false
	}
	return v.Upgrades[i], true
}

// nodesOf are the maintenances of a cluster, or of one of its nodes; empty names are any.
func (v *View) nodesOf(cluster, node string) []Node {
	var found []Node
	for _, n := range v.Nodes {
		if (cluster == "" || n.Cluster == cluster) && (node == "" || n.Node == node) {
			found = append(found, n)
		}
	}
	return found
}

// maintained are the nodes that are under maintenance, and those that wait for their turn, as CLUSTER/NODE: each once, however many have asked for it.
func (v *View) maintained() (atWork, waiting []string) {
	seen := map[string]bool{}
	for _, pending := range []bool{false, true} {
		for _, n := range v.Nodes {
			name := n.Cluster + "/" + n.Node
			if !n.Running() || seen[name] || (stateOf(n) == string(maintenancev1.NodePending)) != pending {
				continue
			}
			if seen[name] = true; pending {
				waiting = append(waiting, name)
			} else {
				atWork = append(atWork, name)
			}
		}
	}
	return atWork, waiting
}

// unread reports whether nobody knows yet what the portal shows, if anything.
func (v *View) unread() bool { return v.AsOf.IsZero() && v.Portal == nil }

// components of the portal.
func (v *View) components() []portal.ComponentView {
	if v.Portal == nil {
		return nil
	}
	return v.Portal.Components
}

// maintenances of the portal that are in a phase; empty: in any.
func (v *View) maintenances(phase sreportalv1.MaintenancePhase) []portal.MaintenanceView {
	if v.Portal == nil {
		return nil
	}
	switch phase {
	case sreportalv1.PhaseInProgress:
		return v.Portal.InProgress
	case sreportalv1.PhaseUpcoming:
		return v.Portal.Upcoming
	case sreportalv1.PhaseCompleted:
		return v.Portal.Completed
	}
	return slices.Concat(v.Portal.InProgress, v.Portal.Upcoming, v.Portal.Completed)
}

// problems of the portal: what it cannot show, and why.
func (v *View) problems() []string {
	if v.Portal == nil {
		return nil
	}
	return v.Portal.Problems
}

// status of the portal: unknown while there is none.
func (v *View) status() sreportalv1.ServiceStatus {
	if v.Portal == nil {
		return sreportalv1.StatusUnknown
	}
	return v.Portal.Status
}

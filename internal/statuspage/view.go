// Package statuspage serves the status of a portal: its components and their maintenances, rollouts, and nodes out of service. It has a page
// for people, and an API and an MCP server for programs. All answer from one view, which one reader updates.
package statuspage

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
)

// View is an immutable snapshot of the status, which is read without a lock.
type View struct {
	// Number grows with every view.
	Number int64
	// Portal is the state of the portal; nil while it has no components or maintenances.
	Portal *portal.View
	// PortalOnly means that rollouts and nodes, which belong to no portal, are not read.
	PortalOnly bool
	// Upgrades and Nodes, those that run first, then those that ended last.
	Upgrades []Upgrade
	Nodes    []Node
	// MoreUpgrades and MoreNodes count the running ones that are left out.
	MoreUpgrades, MoreNodes int
	// Holds of the emergency stop.
	Holds []drydockv1.Hold
	// AsOf is when the view was last current.
	AsOf time.Time
	// Trouble is why the view may be stale; nil if it is current.
	Trouble *Trouble
	// revisions identify parts that are unchanged since an earlier view.
	revisions revisions
}

// revisions count the changes of the parts of a view.
type revisions struct{ portal, upgrades, nodes int64 }

// Trouble names the part that does not answer, and since when.
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
	// Trouble is why Status may be stale.
	Trouble *Trouble
	// chain is the first run of a continue-as-new chain. settled means that the work has ended and its final status is known.
	chain   string
	settled bool
	// noStatus means that the work has ended without a status.
	noStatus bool
}

// update sets the row of a run. It drops the status of another run with the same id.
func (w *Work[S]) update(row observe.Row, chain string) {
	if w.chain != "" && w.chain != chain || w.CompletedAt != nil && row.CompletedAt == nil {
		*w = Work[S]{}
	}
	w.Row, w.chain = row, chain
}

// outdatedBy reports whether a row from visibility is newer. Visibility lags, so for a run that has been read it counts only if it shows that
// the run has closed.
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

// Running reports whether the work has not ended.
func (w Work[S]) Running() bool { return w.CompletedAt == nil }

// Cut reports whether the work was cut off: terminated, timed out, or failed without a status.
func (w Work[S]) Cut() bool {
	return w.noStatus || observe.Cut(w.Execution)
}

// Upgrade is a rollout.
type Upgrade = Work[ranv1.ClusterGroupUpgradeStatus]

// Node is one maintenance of a node.
type Node = Work[maintenancev1.NodeMaintenanceStatus]

// stateOf is the state of a maintenance in one word.
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

// maintained returns the nodes under maintenance and the nodes that wait for it, as CLUSTER/NODE, each once.
func (v *View) maintained() (active, waiting []string) {
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
				active = append(active, name)
			}
		}
	}
	return active, waiting
}

// unread reports whether the portal has not been read yet.
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

// incidents of the portal.
func (v *View) incidents() []portal.IncidentView {
	if v.Portal == nil {
		return nil
	}
	return v.Portal.Incidents
}

// problems of the portal: objects that it cannot show, and why.
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

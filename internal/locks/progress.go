package locks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Progress is the progress of a maintenance over the nodes of an application.
type Progress struct {
	// Percentage is Updated of Total in whole percent, rounded down; 100 without nodes.
	Percentage int32 `json:"percentage"`
	// Description is the progress as text.
	Description string `json:"description"`
	// InactiveNow are the nodes whose lock is inactive.
	InactiveNow int `json:"inactiveNow"`
	// Updated are those and, while a maintenance of the cluster is requested, the nodes whose lock was inactive during it. With one node at a time
	// InactiveNow alone would never exceed 1. A node whose lock has failed is not updated.
	Updated int `json:"updated"`
	// Total nodes.
	Total int `json:"total"`
}

// String is e.g. "2 out of 8 nodes updated (25%), 1 inactive now".
func (p Progress) String() string {
	return fmt.Sprintf("%s (%d%%), %d inactive now", p.Description, p.Percentage, p.InactiveNow)
}

// ProgressOf counts the node locks of one application, no matter which controller manages them.
func ProgressOf(controllerName string, requests []lcmv1.ClusterMaintenanceRequest, locks []lcmv1.NodeWorkloadLock) Progress {
	asked := map[types.UID]bool{}
	for i := range requests {
		asked[requests[i].UID] = true
	}
	var t tally
	for i := range locks {
		if lock := &locks[i]; lock.Spec.ControllerName == controllerName {
			was := slices.ContainsFunc(updatedFor(lock), func(uid types.UID) bool { return asked[uid] })
			t.count(lock.Status.State, was || lock.Status.State == lcmv1.LockInactive)
		}
	}
	return t.progress()
}

// maxApplications limits how many applications ProgressOfAll names, so that a status stays small.
const maxApplications = 20

// ProgressOfAll is ProgressOf for each application that holds locks on nodes, by name: the first 20.
func ProgressOfAll(requests []lcmv1.ClusterMaintenanceRequest, locks []lcmv1.NodeWorkloadLock) []drydockv1.LockProgress {
	ofApplication := map[string][]lcmv1.NodeWorkloadLock{}
	for i := range locks {
		name := locks[i].Spec.ControllerName
		ofApplication[name] = append(ofApplication[name], locks[i])
	}
	var all []drydockv1.LockProgress
	for _, name := range slices.Sorted(maps.Keys(ofApplication)) {
		if len(all) == maxApplications {
			break
		}
		p := ProgressOf(name, requests, ofApplication[name])
		all = append(all, drydockv1.LockProgress{
			Controller: name, Percentage: p.Percentage, Description: p.Description,
			InactiveNow: int32(p.InactiveNow), Updated: int32(p.Updated), Total: int32(p.Total),
		})
	}
	return all
}

// tally counts nodes.
type tally struct{ inactiveNow, updated, total int }

// count counts a node. Updated: its lock is inactive, or was during the current maintenance of the cluster.
func (t *tally) count(state lcmv1.LockState, updated bool) {
	t.total++
	if state == lcmv1.LockInactive {
		t.inactiveNow++
	}
	if updated && state != lcmv1.LockFailed {
		t.updated++
	}
}

func (t tally) progress() Progress {
	p := Progress{Percentage: 100, InactiveNow: t.inactiveNow, Updated: t.updated, Total: t.total}
	if t.total > 0 {
		p.Percentage = int32(100 * t.updated / t.total)
	}
	p.Description = fmt.Sprintf("%d out of %d nodes updated", t.updated, t.total)
	return p
}

// reported is the progress as the application's ClusterWorkloadLock reports it.
func (p Progress) reported() lcmv1.InactivationProgress {
	return lcmv1.InactivationProgress{Description: p.Description, Percentage: p.Percentage}
}

// progress counts the enabled nodes with their observed locks, and with their locks after the decision is applied. A maintenance that is not recorded on
// an inactive lock yet does not count as observed: another controller may activate the lock before it is.
func (a *application) progress() (found, decided Progress) {
	var before, after tally
	for _, n := range a.nodes {
		was := n.lock != nil && slices.ContainsFunc(updatedFor(n.lock), a.isRequested)
		toRecord, _ := a.maintenancesToRecord(n)
		before.count(n.decided.From, was || n.decided.From == lcmv1.LockInactive && toRecord == "")
		after.count(n.decided.To, was || n.decided.To == lcmv1.LockInactive || toRecord != "")
	}
	return before.progress(), after.progress()
}

// updatedFor are the maintenances of the cluster during which a lock was inactive, from its annotation.
func updatedFor(lock *lcmv1.NodeWorkloadLock) (uids []types.UID) {
	for uid := range strings.SplitSeq(lock.Annotations[lcmv1.AnnotationUpdatedFor], ",") {
		if uid != "" {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids
}

// isRequested reports whether a ClusterMaintenanceRequest with that UID exists.
func (a *application) isRequested(uid types.UID) bool {
	return slices.ContainsFunc(a.requests, func(r request) bool { return r.uid == uid })
}

// maintenancesToRecord are the maintenances of the cluster to record on the node's lock, which was or becomes inactive during them: all requested
// ones; empty if there are none, or they are recorded already. It reports whether others are recorded, which are then forgotten.
func (a *application) maintenancesToRecord(n *node) (uids string, forgets bool) {
	released := n.decided.From == lcmv1.LockInactive || n.decided.To == lcmv1.LockInactive
	if !released {
		return "", false
	}
	var known []types.UID
	if n.lock != nil {
		known = updatedFor(n.lock)
	}
	var requested []string
	unrecorded := false
	for _, r := range a.requests {
		requested = append(requested, string(r.uid))
		unrecorded = unrecorded || !slices.Contains(known, r.uid)
	}
	if !unrecorded {
		return "", false
	}
	return strings.Join(requested, ","), slices.ContainsFunc(known, func(uid types.UID) bool { return !a.isRequested(uid) })
}

// nodeProgress is the reported progress of a node's lock in a state.
func nodeProgress(state lcmv1.LockState) lcmv1.InactivationProgress {
	switch state {
	case lcmv1.LockInactive:
		return lcmv1.InactivationProgress{Description: "Update completed successfully", Percentage: 100}
	case lcmv1.LockFailed:
		return lcmv1.InactivationProgress{Description: "Update encountered an error and stopped"}
	}
	return lcmv1.InactivationProgress{Description: "Update is currently in progress"}
}

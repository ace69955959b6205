package locks_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

// progress is the decided progress and, after the decision is applied, the reported one: both are the same.
func (w *world) progress() locks.Progress {
	progress := w.settle().Progress
	require.Equal(w.t, lcmv1.InactivationProgress{Description: progress.Description, Percentage: progress.Percentage},
		*w.clusterLock().Status.InactivationProgress)
	require.Equal(w.t, progress, locks.ProgressOf(controller, w.snapshot.ClusterRequests, w.snapshot.NodeLocks))
	return progress
}

// maintain maintains these nodes, one after the other.
func (w *world) maintain(nodes ...string) {
	for _, node := range nodes {
		w.request(node)
		w.settle()
		w.withdraw(node)
		w.settle()
	}
}

func TestProgressCountsTheNodesReleasedDuringTheMaintenance(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes []string
		setup func(w *world)
		want  locks.Progress
	}{
		{
			name: "without any maintenance nothing is updated", nodes: names, setup: func(*world) {},
			want: locks.Progress{Percentage: 0, Description: "0 out of 4 nodes updated", Total: 4},
		},
		{
			name: "a node counts as soon as it is released", nodes: names, setup: func(w *world) { w.requestCluster(); w.request("n1") },
			want: locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", InactiveNow: 1, Updated: 1, Total: 4},
		},
		{
			name: "a node still counts when its lock is held again", nodes: names,
			setup: func(w *world) { w.requestCluster(); w.maintain("n1", "n2"); w.request("n3") },
			want:  locks.Progress{Percentage: 75, Description: "3 out of 4 nodes updated", InactiveNow: 1, Updated: 3, Total: 4},
		},
		{
			name: "percent are rounded down", nodes: []string{"n1", "n2", "n3"}, setup: func(w *world) { w.requestCluster(); w.maintain("n1", "n2") },
			want: locks.Progress{Percentage: 66, Description: "2 out of 3 nodes updated", Updated: 2, Total: 3},
		},
		{
			name: "all are updated", nodes: names, setup: func(w *world) { w.requestCluster(); w.maintain(names...) },
			want: locks.Progress{Percentage: 100, Description: "4 out of 4 nodes updated", Updated: 4, Total: 4},
		},
		{
			name: "while no maintenance of the cluster is requested, inactive nodes count", nodes: names, setup: func(w *world) { w.maintain("n1"); w.request("n2") },
			want: locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", InactiveNow: 1, Updated: 1, Total: 4},
		},
		{
			name: "a node that was inactive when the maintenance of the cluster began counts", nodes: names,
			setup: func(w *world) { w.request("n1"); w.settle(); w.requestCluster(); w.settle(); w.withdraw("n1") },
			want:  locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", Updated: 1, Total: 4},
		},
		{
			name: "a node whose maintenance ended before it was recorded counts", nodes: names,
			setup: func(w *world) { w.request("n1"); w.settle(); w.requestCluster(); w.withdraw("n1") },
			want:  locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", Updated: 1, Total: 4},
		},
		{
			name: "the next maintenance begins at 0", nodes: names,
			setup: func(w *world) {
				w.requestCluster()
				w.maintain(names...)
				w.withdrawCluster()
				w.settle()
				w.requestCluster()
			},
			want: locks.Progress{Percentage: 0, Description: "0 out of 4 nodes updated", Total: 4},
		},
		{
			name: "a maintenance that is over reports no progress", nodes: names,
			setup: func(w *world) { w.requestCluster(); w.maintain(names...); w.withdrawCluster() },
			want:  locks.Progress{Percentage: 0, Description: "0 out of 4 nodes updated", Total: 4},
		},
		{
			name: "a second request does not reset the progress", nodes: names,
			setup: func(w *world) {
				w.requestCluster()
				w.maintain("n1", "n2")
				w.requestCluster()
				w.now = w.now.Add(-time.Second) // the clock of another API server
				w.requestCluster()
			},
			want: locks.Progress{Percentage: 50, Description: "2 out of 4 nodes updated", Updated: 2, Total: 4},
		},
		{
			name: "a new node increases the total", nodes: []string{"n1", "n2"},
			setup: func(w *world) {
				w.requestCluster()
				w.maintain("n1")
				w.settle()
				w.addNode("n3")
				w.addPod("n3", true)
			},
			want: locks.Progress{Percentage: 33, Description: "1 out of 3 nodes updated", Updated: 1, Total: 3},
		},
		{
			name: "a deleted node leaves both counts", nodes: names, setup: func(w *world) { w.requestCluster(); w.maintain("n1", "n2"); w.removeNode("n1") },
			want: locks.Progress{Percentage: 33, Description: "1 out of 3 nodes updated", Updated: 1, Total: 3},
		},
		{
			name: "a node that lost the role leaves the total", nodes: names, setup: func(w *world) { w.requestCluster(); w.maintain("n1"); w.node("n4").Labels = nil },
			want: locks.Progress{Percentage: 33, Description: "1 out of 3 nodes updated", Updated: 1, Total: 3},
		},
		{
			name: "a new node with the same name is not updated", nodes: names,
			setup: func(w *world) {
				w.requestCluster()
				w.maintain("n1")
				w.removeNode("n1")
				w.settle()
				w.addNode("n1")
				w.addPod("n1", true)
			},
			want: locks.Progress{Percentage: 0, Description: "0 out of 4 nodes updated", Total: 4},
		},
		{
			name: "without nodes the progress is 100 percent", setup: func(w *world) { w.requestCluster() },
			want: locks.Progress{Percentage: 100, Description: "0 out of 0 nodes updated"},
		},
		{
			name: "a failed node counts only in the total", nodes: names,
			setup: func(w *world) {
				w.requestCluster()
				w.maintain("n1", "n2")
				w.removePod("n1")
				w.lock("n1").Status.State = failed
			},
			want: locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", Updated: 1, Total: 4},
		},
		{
			name: "several nodes are inactive together", nodes: names,
			setup: func(w *world) {
				w.policy.MaxInactiveNodes = ptr.To[int32](2)
				w.requestCluster()
				w.request("n1")
				w.request("n2")
			},
			want: locks.Progress{Percentage: 50, Description: "2 out of 4 nodes updated", InactiveNow: 2, Updated: 2, Total: 4},
		},
		{
			name: "locks of other applications do not count", nodes: names,
			setup: func(w *world) {
				w.snapshot.NodeLocks = append(w.snapshot.NodeLocks, nodeLock("ceph-n1", "ceph", "n1", inactive))
				w.request("n1")
			},
			want: locks.Progress{Percentage: 25, Description: "1 out of 4 nodes updated", InactiveNow: 1, Updated: 1, Total: 4},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.nodes...)
			w.settle()
			test.setup(w)
			require.Equal(t, test.want, w.progress())
		})
	}
}

func TestProgressOfEveryApplicationIsReportedByName(t *testing.T) {
	maintenance := []lcmv1.ClusterMaintenanceRequest{{ObjectMeta: metav1.ObjectMeta{UID: "june"}}}
	was := lockOf("tf", "n1", active)
	was.Annotations = map[string]string{lcmv1.AnnotationUpdatedFor: "june"}
	found := []lcmv1.NodeWorkloadLock{was, lockOf("tf", "n2", inactive), lockOf("tf", "n3", active), lockOf("ceph", "n1", active)}
	require.Equal(t, []drydockv1.LockProgress{
		{Controller: "ceph", Description: "0 out of 1 nodes updated", Total: 1},
		{Controller: "tf", Percentage: 66, Description: "2 out of 3 nodes updated", InactiveNow: 1, Updated: 2, Total: 3},
	}, locks.ProgressOfAll(maintenance, found))
	require.Empty(t, locks.ProgressOfAll(maintenance, nil))
	for i := range 30 {
		found = append(found, lockOf(fmt.Sprintf("app-%02d", i), "n1", active))
	}
	require.Len(t, locks.ProgressOfAll(nil, found), 20, "a status stays small")
}

func TestANodeLockReportsItsState(t *testing.T) {
	w := newWorld(t, "n1")
	w.settle()
	require.Equal(t, lcmv1.InactivationProgress{Description: "Update is currently in progress", Percentage: 0}, *w.lock("n1").Status.InactivationProgress)
	w.request("n1")
	w.settle()
	require.Equal(t, lcmv1.InactivationProgress{Description: "Update completed successfully", Percentage: 100}, *w.lock("n1").Status.InactivationProgress)
	w.removePod("n1")
	w.lock("n1").Status.State = failed
	w.settle()
	require.Equal(t, lcmv1.InactivationProgress{Description: "Update encountered an error and stopped", Percentage: 0}, *w.lock("n1").Status.InactivationProgress)

	w.lock("n1").Status.InactivationProgress = nil
	require.Equal(t, locks.Update, of(w.settle(), "n1").Action, "a lock that reports nothing")
}

func TestTheClusterLockReportsObservedProgress(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.settle()
	w.requestCluster()
	w.request("n1")
	decision := w.decide()
	require.Equal(t, int32(50), decision.Progress.Percentage)
	require.Zero(t, ofCluster(decision).Progress.Percentage, "the lock is not released yet")
	w.carryOut(decision, len(decision.Changes()))
	report := ofCluster(w.decide())
	require.Equal(t, locks.Update, report.Action)
	require.Equal(t, int32(50), report.Progress.Percentage)
	require.True(t, report.Grave(), "by an old view, this would be the progress of a former maintenance")
	w.carryOut(w.decide(), 1)
	require.False(t, ofCluster(w.decide()).Grave())
}

func TestAMaintenanceIsReportedOnceItIsRecorded(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.settle()
	w.request("n1")
	w.settle()
	w.requestCluster()
	decision := w.decide()
	require.Zero(t, ofCluster(decision).Progress.Percentage, "another controller may activate n1 before")
	w.carryOut(decision, len(decision.Changes()))
	require.Equal(t, int32(50), ofCluster(w.decide()).Progress.Percentage)
}

func TestDecreasingProgressIsReportedOnlyOnFreshReads(t *testing.T) {
	w := newWorld(t, "n1")
	w.settle()
	w.requestCluster()
	w.request("n1")
	w.settle()
	w.addNode("n2")
	less := ofCluster(w.decide())
	require.Equal(t, locks.Update, less.Action)
	require.True(t, less.Grave())
}

func TestALockRecordsTheMaintenanceDuringWhichItWasReleased(t *testing.T) {
	updatedFor := func(w *world, node string) string { return w.lock(node).Annotations[lcmv1.AnnotationUpdatedFor] }
	w := newWorld(t, "n1", "n2")
	w.settle()
	w.request("n1")
	w.settle()
	require.Empty(t, updatedFor(w, "n1"), "no maintenance of the cluster is requested")

	first := w.requestCluster()
	w.settle()
	require.Equal(t, string(first), updatedFor(w, "n1"), "it was inactive already when the maintenance began")
	require.Empty(t, updatedFor(w, "n2"))

	w.withdraw("n1")
	w.request("n2")
	w.settle()
	require.Equal(t, string(first), updatedFor(w, "n1"), "the record remains after the lock is active again")
	require.Equal(t, string(first), updatedFor(w, "n2"))

	w.withdraw("n2")
	w.withdrawCluster()
	w.settle()
	second := w.requestCluster()
	w.request("n1")
	w.settle()
	require.Equal(t, string(second), updatedFor(w, "n1"))
	require.Equal(t, string(first), updatedFor(w, "n2"))
}

func TestANodeCountsForEveryMaintenanceDuringWhichItWasReleased(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.settle()
	w.requestCluster()
	w.request("n1")
	w.settle()
	second := w.requestCluster()
	w.settle()
	w.withdraw("n1")
	w.settle()
	w.snapshot.ClusterRequests = w.snapshot.ClusterRequests[1:]
	require.Equal(t, int32(50), w.progress().Percentage, "n1 was also released during the second maintenance")
	w.request("n2")
	w.settle()
	require.Equal(t, string(second), w.lock("n2").Annotations[lcmv1.AnnotationUpdatedFor])
	require.Equal(t, int32(100), w.progress().Percentage)

	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		w.settle()
		was := map[types.UID]map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.SampledFrom([]string{"more", "less", "other", "other"}).Draw(t, "maintenance") {
			case "more":
				was[w.requestCluster()] = map[string]bool{}
			case "less":
				if i := rapid.IntRange(0, 3).Draw(t, "which"); i < len(w.snapshot.ClusterRequests) {
					w.snapshot.ClusterRequests = slices.Delete(w.snapshot.ClusterRequests, i, i+1)
				}
			case "other":
				applyOneOf(t, w, "request", "withdraw", "pod")
			}
			w.settle()
			updated := map[string]bool{}
			for _, node := range w.inactive() {
				updated[node] = true
				for _, r := range w.snapshot.ClusterRequests {
					was[r.UID][node] = true
				}
			}
			for _, r := range w.snapshot.ClusterRequests {
				maps.Copy(updated, was[r.UID])
			}
			require.Equal(t, len(updated), w.progress().Updated)
		}
	})
}

func TestProgressStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		w.policy.NodePodDeadlineSeconds = ptr.To[int32](60)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			applyEvent(t, w)
			progress := w.decide().Progress
			require.LessOrEqual(t, 0, progress.InactiveNow)
			require.LessOrEqual(t, progress.InactiveNow, progress.Updated)
			require.LessOrEqual(t, progress.Updated, progress.Total)
			require.LessOrEqual(t, progress.Total, len(w.snapshot.Nodes)+len(w.snapshot.Disabled))
			if progress.Total == 0 {
				require.Equal(t, int32(100), progress.Percentage)
			} else {
				require.Equal(t, int32(100*progress.Updated/progress.Total), progress.Percentage)
			}
			if lock := w.clusterLock(); lock != nil && lock.Status.InactivationProgress != nil {
				require.GreaterOrEqual(t, lock.Status.InactivationProgress.Percentage, int32(0))
				require.LessOrEqual(t, lock.Status.InactivationProgress.Percentage, int32(100))
			}
		}
		w.progress()
	})
}

func TestProgressNeverDecreasesDuringAMaintenance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, names...)
		w.settle()
		w.requestCluster()
		reached := int32(0)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			applyOneOf(t, w, "request", "withdraw", "pod", "noPod", "cluster", "late", "die", "settle")
			reported := w.clusterLock().Status.InactivationProgress.Percentage
			require.GreaterOrEqual(t, reported, reached)
			reached = reported
		}
		for _, name := range names {
			w.withdraw(name)
			w.setPod(name, true)
		}
		w.settle()
		w.maintain(names...)
		require.Equal(t, int32(100), w.progress().Percentage)
	})
}

package slots_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/workflowtest"
)

func closedOwner(who string) scheduling.Holder {
	return scheduling.Holder{SlotOwner: scheduling.SlotOwner{WorkflowID: who, FirstRunID: "run"}}
}

func TestAReleasedSlotGoesToTheNextRequestAndTheNextRunKnowsIt(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() {
			require.Contains(t, w.Details(), "none has a slot or waits for one")
			w.Request("june", workflowtest.SlotFor("a", 1), workflowtest.SlotFor("b", 2))
		},
		func() { require.Empty(t, w.Grants(), "the nodes are not listed"); w.ShowAllNodes() },
		func() {
			require.Equal(t, []string{"june a"}, w.Grants())
			require.NotContains(t, w.Details(), "none has a slot or waits for one")
			w.Request("july", workflowtest.SlotFor("c", 3))
		},
		func() { w.Release("june", 1) },
		func() { require.Equal(t, []string{"june a", "june b"}, w.Grants(), "the older request first") },
		func() {
			status := workflowtest.StatusOf[slots.SchedulerStatus](w.World)
			require.Len(t, status.Queue, 2)
			require.Equal(t, 1, status.Queue[1].Rank)
			require.Equal(t, scheduling.NoSlot, status.Queue[1].Reason)
			require.Zero(t, status.AvailableSlots, "the only slot is granted")
		},
	)
	carried := w.Carried()
	require.Len(t, carried.Slots.Requesters, 2)
}

// Without a configuration, one node at a time.
func TestASchedulerGrantsByTheDefaultsWhenTheConfigurationIsDeleted(t *testing.T) {
	allows := func(w *workflowtest.SchedulerWorld, config maintenancev1.MaintenanceOperatorConfigSpec) {
		w.ShowNodes(scheduling.NodeUpdate{Config: &config})
	}
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() {
			w.ShowAllNodes()
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(0))})
			w.Request("june", workflowtest.SlotFor("a", 1), workflowtest.SlotFor("b", 2), workflowtest.SlotFor("c", 3))
		},
		func() { require.Empty(t, w.Grants()); allows(w, maintenancev1.MaintenanceOperatorConfigSpec{}) },
		func() {
			require.Equal(t, []string{"june a"}, w.Grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(2))})
		},
		func() {
			require.Equal(t, []string{"june a", "june b"}, w.Grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{})
			w.Release("june", 1)
		},
		func() {
			status := workflowtest.StatusOf[slots.SchedulerStatus](w.World)
			require.Len(t, status.Queue, 2, "granted slots stay granted")
			require.Contains(t, status.Queue[1].Message, "maxParallelOperations allows 1 of 3 nodes under maintenance at once (b for june)")
			require.Len(t, w.Grants(), 2)
		},
	)
	w.Carried()
}

func TestTheSchedulerOfAHeldClusterGrantsNothing(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1")) },
		func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) },
		func() {
			require.Empty(t, w.Grants())
			require.Equal(t, emergency.ReasonHeld, w.Responses[0].Wait.Reason)
			require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Wait.Reason)
			w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
		},
		func() { require.Equal(t, []string{"june a"}, w.Grants()) },
	)
	w.Carried()
}

// Both happen while no worker runs, such as before the first one after a restore of Temporal.
func TestTheSchedulerGrantsNothingInTheTaskInWhichItIsHeld(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() {
			w.ShowAllNodes()
			w.Request("june", workflowtest.SlotFor("a", 1))
			w.Request("july", workflowtest.SlotFor("b", 1))
		},
		func() {
			require.Equal(t, []string{"june a"}, w.Grants())
			w.RequestsOf("june").Releases = []scheduling.Release{{Number: 1, Unclean: true}} // the slot is kept for a while
			w.Release("june", 1)
			w.RegisterDelayedCallback(func() {
				w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1"))
			}, time.Second)
		},
		func() { require.Equal(t, []string{"june a"}, w.Grants()) },
	)
	w.Carried()
}

func TestTheSchedulerGrantsNothingWhileTheEmergencyStopIsUnknown(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.HoldsUnknown = true
	w.RunSteps(
		func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) },
		func() { require.Empty(t, w.Grants()) },
	)
	w.Carried()
}

func TestTheSlotOfAClosedOwnerIsFreedAndTheSweeperWoken(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() {
			w.ShowAllNodes()
			w.Request("june", workflowtest.SlotFor("a", 1))
			w.Request("july", workflowtest.SlotFor("b", 1))
		},
		func() {
			require.Equal(t, []string{"june a"}, w.Grants())
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.ClosedOwners = []scheduling.Holder{closedOwner("june")}
		},
		func() {},
		func() { require.Equal(t, []string{"june a", "july b"}, w.Grants()) },
	)
	w.Carried()
	require.NotEmpty(t, w.InputsOf("WakeSweeper"))
	require.Equal(t, []string{"node/c1/ops/a"}, w.InputsOf("FindClosedOwners")[0].([]scheduling.Holder)[0].Maintenances)
}

func TestTheNextRunWakesTheSweeperIfThisOneCouldNot(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.OnActivity("WakeSweeper", mock.Anything, mock.Anything).Return(workflowtest.ErrGone)
	w.ClosedOwners = []scheduling.Holder{closedOwner("june")}
	w.RunSteps(func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) })
	carried := w.Carried()

	next := workflowtest.NewSchedulerWorld(t)
	next.RunSteps()
	next.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", Carried: &carried})
	require.Len(t, next.InputsOf("WakeSweeper"), 1)
	require.False(t, workflowtest.NextRunInput[slots.SchedulerInput](next.World).Carried.Unswept)
}

func TestTheNextRunWatchesTheNodesWithoutLocatingTheCluster(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) })
	carried := w.Carried()
	require.Len(t, w.InputsOf("LocateCluster"), 1)

	next := workflowtest.NewSchedulerWorld(t)
	next.RunSteps()
	next.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", Carried: &carried})
	require.Empty(t, next.InputsOf("LocateCluster"))
	require.Len(t, next.InputsOf("WatchNodes"), 1)

	failing := workflowtest.NewSchedulerWorld(t)
	failing.Blocked["WatchNodes"] = false
	failing.RunSteps()
	failing.ExecuteWorkflow(slots.MaintenanceScheduler, slots.SchedulerInput{Cluster: "c1", Carried: &carried})
	require.Len(t, failing.InputsOf("WatchNodes"), 2)
	require.Len(t, failing.InputsOf("LocateCluster"), 1, "the cluster may have moved")
	require.Empty(t, workflowtest.NextRunInput[slots.SchedulerInput](failing.World).Carried.Queue)
}

func TestTheNextRunLocatesAClusterWhoseNodesWereNotListed(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(func() { w.Request("june", workflowtest.SlotFor("a", 1)) })
	require.Empty(t, w.Carried().Queue)
}

func TestARequestForAMissingNodeEndsAndOneForANewNodeWaits(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.Unwatched = []string{"new"}
	gone := func() (names []string) {
		for _, response := range w.Responses {
			for _, number := range response.NodesGone {
				if name := w.NameOf(response.Owner.WorkflowID, number); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return names
	}
	w.RunSteps(
		func() {
			w.ShowAllNodes()
			w.Request("june", workflowtest.SlotFor("gone", 1), workflowtest.SlotFor("new", 2))
		},
		func() {
			require.Empty(t, w.Grants(), "its budgets are not known")
			require.Equal(t, []string{"gone"}, gone())
			require.Equal(t, scheduling.NodeNotFound, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Queue[0].Reason)
			w.Unwatched = nil // it was deleted before the watch listed it
		},
		func() { require.Equal(t, []string{"gone", "new"}, gone()); w.Release("june", 1); w.Release("june", 2) },
	)
	require.Empty(t, w.Carried().Slots.Requesters)
}

func TestTheSlotOfAClosedOwnerIsKeptUntilItsLastWriteIsListed(t *testing.T) {
	const listDelay = 3 * time.Second // marks are listed a second after they are written
	require.GreaterOrEqual(t, scheduling.UncleanPause, sweeper.LateWriteLimit+listDelay)
}

func TestAnOwnerWithALostResponseIsCheckedWithoutDelay(t *testing.T) {
	w := workflowtest.NewSchedulerWorldWithoutResponses(t)
	w.ResponsesFail(func(scheduling.SlotResponse) bool { return true })
	var checked int
	w.RunSteps(
		func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) },
		func() {},
	)
	w.RegisterDelayedCallback(func() {
		checked = len(w.InputsOf("FindClosedOwners"))
	}, time.Minute+10*time.Second)
	w.Carried()
	require.Equal(t, 1, checked, "before the next regular check")
}

// Otherwise the slot would be kept for an owner that does not know of its grant.
func TestALostResponseIsResentUnlessTheOwnerIsClosed(t *testing.T) {
	for _, closed := range []bool{false, true} {
		w := workflowtest.NewSchedulerWorldWithoutResponses(t)
		tried := 0
		w.ResponsesFail(func(scheduling.SlotResponse) bool {
			tried++
			return tried <= 2 || closed
		})
		if closed {
			w.ClosedOwners = []scheduling.Holder{closedOwner("june")}
		}
		w.RunSteps(
			func() {
				w.ShowAllNodes()
				w.Request("june", workflowtest.SlotFor("a", 1), workflowtest.SlotFor("b", 2), workflowtest.SlotFor("gone", 3))
			},
			func() {}, func() {},
			func() {
				if closed {
					require.Empty(t, w.Responses)
					return
				}
				require.Equal(t, []string{"june a"}, w.Grants())
				last := w.Responses[len(w.Responses)-1]
				require.Equal(t, string(scheduling.NoSlot), last.Wait.Reason)
				require.Equal(t, []int64{3}, last.NodesGone)
			},
		)
		w.Carried()
		if closed {
			require.LessOrEqual(t, tried, 2, "the grant, and then the missing node")
		}
	}
}

// At any time, an owner may close before it receives its response.
func TestALostResponseIsResentWhileOthersKeepFailing(t *testing.T) {
	w := workflowtest.NewSchedulerWorldWithoutResponses(t)
	tried := 0
	w.ResponsesFail(func(response scheduling.SlotResponse) bool {
		if response.Owner.WorkflowID != "june" {
			return true
		}
		tried++
		return tried == 1
	})
	w.RegisterDelayedCallback(func() { w.ShowAllNodes(); w.Request("june", workflowtest.SlotFor("a", 1)) }, time.Minute)
	for i := range 30 {
		w.SimulateAfter(time.Minute+time.Duration(i+1)*slots.CheckOwnersEvery/3, func() { w.Request(fmt.Sprintf("ghost-%d", i), workflowtest.SlotFor("b", 1)) })
	}
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.Grants()) }, time.Minute+3*slots.CheckOwnersEvery)
	w.RunSteps(func() {}, func() {}, func() {}, func() {})
	w.Carried()
}

func TestNodesAreWatchedWhileThereAreRequestsAndForAWhileAfter(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	watching := func() bool { return workflowtest.StatusOf[slots.SchedulerStatus](w.World).Watching }
	w.RunSteps(
		func() { require.False(t, watching()) },
		func() { w.Request("june", workflowtest.SlotFor("a", 1)); w.ShowAllNodes() },
		func() { require.True(t, watching()); w.Release("june", 1) },
		func() { require.True(t, watching()) },
		func() {}, func() {}, func() {}, func() {},
		func() { require.False(t, watching()); w.Request("june", workflowtest.SlotFor("b", 2)) },
		func() {
			require.True(t, watching())
			require.Equal(t, []string{"june a"}, w.Grants(), "the earlier list is dropped")
			w.ShowAllNodes()
		},
		func() { require.Equal(t, []string{"june a", "june b"}, w.Grants()) },
	)
	w.Carried()
}

func TestAnotherWorkerTakesOverASilentWatchSoon(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	silences := map[string]time.Duration{}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		silences[info.ActivityType.Name] = info.HeartbeatTimeout
	})
	w.RunSteps(func() { w.Request("june", workflowtest.SlotFor("a", 1)) }, func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		require.Equal(t, 10*time.Second, silences["WatchNodes"], "as docs/explanation/slots.md says: nodes that go down meanwhile are not counted")
	})
	w.Carried()
}

func TestNothingIsGrantedWithoutAWatchAndTheWaitNamesTheReason(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.Fail["WatchNodes"] = func(call int) error {
		if call < 20 {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: connection refused", nil)
		}
		return nil
	}
	w.RunSteps(
		func() { w.Request("june", workflowtest.SlotFor("a", 1)) },
		func() {
			require.Equal(t, temporal.ErrClusterUnreachable, workflowtest.StatusOf[slots.SchedulerStatus](w.World).Wait.Reason)
			require.Equal(t, temporal.ErrClusterUnreachable, w.Responses[len(w.Responses)-1].Wait.Reason)
		},
		func() {}, func() {}, func() { w.ShowAllNodes() },
		func() { require.Equal(t, []string{"june a"}, w.Grants()) },
	)
	w.Carried()
}

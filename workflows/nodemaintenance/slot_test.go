package nodemaintenance_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheParentsSlotReturnsWithTheNode(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{Uncordoned: true, SlotReturned: true}
	})
	in := workflowtest.MaintenanceOfRollout()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
	require.Equal(t, in.Slot, returned.Slot)
	require.False(t, returned.AwaitLocks)
	require.Empty(t, w.Inputs["ReturnSlot"])
}

func TestTheParentsSlotReturnsOnceTheLocksAreActive(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	workflowtest.Simulate(w, "AwaitNodeLocksActive", func(locks.NodeLockInput) any {
		require.Empty(t, w.InputsOf("ReturnSlot"))
		return []drydockv1.Blocker{}
	})
	in := workflowtest.MaintenanceOfRollout()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).AwaitLocks)
	require.Equal(t, scheduler.ReturnSlotInput{Cluster: "c1", Return: in.Slot.Return(false)}, w.Inputs["ReturnSlot"][0])
}

func TestTheSlotOfAFailedMaintenanceStaysWithTheParent(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "exit code 1", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.Nil(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Slot, "the next node must not start before the parent knows the failure")
	require.Empty(t, w.Inputs["ReturnSlot"])
}

func TestTheSlotOfAnUnreturnedNodeStaysWithTheParent(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["ReturnNode"] = workflowtest.Always(errors.New("the API server is down"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())

	require.True(t, workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNodeNotReturned).NotReturned)
	require.Empty(t, w.Inputs["ReturnSlot"], "the parent releases it as unclean")
}

func TestASlotThatWasNotRequestedWithTheRestIsRequestedAlone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RequestSlots"] = workflowtest.Once(errors.New("the scheduler cannot be signalled"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Len(t, w.InputsOf("RequestSlots"), 2)
	require.Len(t, w.InputsOf("PlanMaintenance"), 1)
	require.True(t, w.Scheduler.State.Empty())
}

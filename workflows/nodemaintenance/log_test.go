package nodemaintenance_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheLogNamesTheCauseOfAFailure(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "exit code 1", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceOfRollout())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrJobFailed)
	require.Subset(t, w.Log.Lines("cluster", "node", "from", "to", "reason", "message"), []string{
		"Node maintenance changed state cluster=c1 node=n1 from=CleaningUp to=Failed reason=JobFailed message=exit code 1",
	})
}

func TestLocksThatStayActiveAreNotLoggedAsReleased(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Locked = true
	w.Fail["AwaitNodeLocks"] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "lock web is active", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrLockTimedOut)
	require.Equal(t, []string{"Wait for workload locks ended without a release stage=NodeWorkloadLocksInactive reason=LockTimedOut"},
		linesAbout(w.Log.Lines("stage", "reason"), "Wait for workload locks", "Workload locks released"))
}

func TestACancelledSlotRequestIsLoggedOnceAndNotAsASlot(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	workflowtest.SignalWhen(w, func(s workflowtest.NodeStatus) bool { return s.Wait != nil && s.State == maintenancev1.NodePending }, temporal.SignalCancel, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"Slot requested", "Slot request cancelled"}, linesAbout(w.Log.Lines(), "Slot"))
}

// linesAbout are the lines that contain one of the texts.
func linesAbout(lines []string, texts ...string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
	})
}

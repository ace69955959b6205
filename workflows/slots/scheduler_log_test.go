package slots_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheSchedulerLogsEachRequestAndSlot(t *testing.T) {
	w := workflowtest.NewSchedulerWorld(t)
	w.RunSteps(
		func() { w.Request("june", workflowtest.SlotFor("a", 1), workflowtest.SlotFor("b", 2)) },
		w.ShowAllNodes,
		func() { w.Request("july", workflowtest.SlotFor("c", 3)) },
		func() { w.Release("june", 1) },
		func() { w.Release("july", 3) },
	)
	w.Carried()
	require.Equal(t, []string{
		"Scheduler grants no slots cluster=c1 reason=HoldUnknown",
		"Scheduler grants no slots cluster=c1 reason=SlotOwnersUnknown",
		"Scheduler grants slots cluster=c1",
		"Slot requested cluster=c1 node=a requestor=june owner=june",
		"Slot requested cluster=c1 node=b requestor=june owner=june",
		"Slot granted cluster=c1 node=a requestor=june owner=june",
		"Slot requested cluster=c1 node=c requestor=june owner=july",
		"Slot released cluster=c1 node=a requestor=june owner=june",
		"Slot granted cluster=c1 node=b requestor=june owner=june",
		"Slot request cancelled cluster=c1 node=c requestor=june owner=july",
		"Scheduler continues as new cluster=c1",
	}, w.Log.Lines("cluster", "node", "requestor", "owner", "reason"))
}

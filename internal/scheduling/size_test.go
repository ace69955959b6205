package scheduling_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/scheduling"
)

// The figures of docs/adr/0020-level-triggered-slots.md.
func TestMessagesOfARolloutWith300NodesStaySmall(t *testing.T) {
	const message = 256 << 10
	set := scheduling.SlotRequests{
		Owner:   scheduling.SlotOwner{WorkflowID: "cgu/default/june/production-eu-central-1", FirstRunID: "0195f2c4-6d2c-7a0e-9d61-3f6f5f0d2c11"},
		Version: 1, Namespace: "default", Requestor: "june.default.cgu.drydock.dev", Maintenances: "node/production-eu-central-1/default/",
	}
	response := scheduling.SlotResponse{Owner: set.Owner, Scheduler: noon, Number: 1, Version: 1}
	for i := range 300 {
		node := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
		set.Slots = append(set.Slots, scheduling.Slot{Number: int64(i + 1), Name: "june-" + node, Node: node, Since: noon.Add(time.Duration(i) * time.Microsecond)})
		response.Granted = append(response.Granted, int64(i+1))
	}
	size := func(value any) int {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		return len(text)
	}
	var state scheduling.SlotState
	state.Receive(set, noon)
	t.Logf("requests %d bytes, grants %d bytes, state of the scheduler %d bytes", size(set), size(response), size(state))
	require.Less(t, size(set), message/4)
	require.Less(t, size(response), message/64)
	require.Less(t, size(state), message/2)
}

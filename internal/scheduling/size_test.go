package scheduling_test

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

func TestTheStateOfALongQueueFitsIntoTheInputOfTheNextRun(t *testing.T) {
	const owners, payload = 10_000, 2 << 20 // Temporal rejects a larger payload
	state, sets := longQueue(owners, 5000, 0)
	random := rand.New(rand.NewPCG(1, 2))
	for _, set := range sets {
		set.Owner.FirstRunID = fmt.Sprintf("0195f2c4-6d2c-7%03x-9%03x-%012x", random.IntN(1<<12), random.IntN(1<<12), random.Int64N(1<<48))
		set.Slots[0].Since = noon.Add(-time.Duration(random.Int64N(int64(time.Hour))))
		state.Receive(set, noon)
	}
	now := noon
	for reported := 0; reported < owners-50; now = now.Add(time.Second) {
		state.Decide(now, nil)
		reports, _ := state.Reports(now)
		reported += len(reports)
		require.Less(t, now.Sub(noon), 5*time.Minute, "each owner learns why it waits")
	}
	state.ForgetNodes()
	text, err := json.Marshal(state)
	require.NoError(t, err)
	var compressed bytes.Buffer
	w := zlib.NewWriter(&compressed)
	_, err = w.Write(text)
	require.NoError(t, errors.Join(err, w.Close()))
	t.Logf("state of the scheduler %d bytes, compressed %d", len(text), compressed.Len())
	require.Less(t, compressed.Len(), payload/2)
}

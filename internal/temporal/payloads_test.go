package temporal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/temporal"
)

func TestOnlyLongPayloadsAreCompressed(t *testing.T) {
	short, long := strings.Repeat("edge ", 1000), strings.Repeat("edge ", 1_000_000)
	payloads, err := temporal.DataConverter().ToPayloads(short, long)
	require.NoError(t, err)
	var read string
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payloads.Payloads[0], &read), "the default converter reads short payloads")
	require.Equal(t, short, read)
	require.Less(t, len(payloads.Payloads[1].Data), 256<<10)

	var first, second string
	require.NoError(t, temporal.DataConverter().FromPayloads(payloads, &first, &second))
	require.Equal(t, []string{short, long}, []string{first, second})
}

// takesLongPayloads sends a payload of more than 2 MiB, which the server refuses without compression.
func takesLongPayloads(t *testing.T, c client.Client) {
	long := strings.Repeat("edge ", 1_000_000)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "no-worker"}, "Nothing", long)
	require.NoError(t, err)
	first, err := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
	require.NoError(t, err)
	var read string
	require.NoError(t, temporal.DataConverter().FromPayloads(first.GetWorkflowExecutionStartedEventAttributes().GetInput(), &read))
	require.Equal(t, long, read)
	require.NoError(t, c.TerminateWorkflow(t.Context(), run.GetID(), run.GetRunID(), "read"))
}

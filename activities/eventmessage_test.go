package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALongMessageIsCutAndStillSaysWhoseMaintenanceItIs(t *testing.T) {
	ref := NodeRef{Node: "n1", Owner: "node/spoke/default/m/run"}
	message := eventMessage(ref, nodeEvent{message: strings.Repeat("ü", 1000)})
	require.LessOrEqual(t, len(message), 1024)
	require.True(t, strings.HasSuffix(message, "ü... (node/spoke/default/m)"), message)
	require.Equal(t, "short (node/spoke/default/m)", eventMessage(ref, nodeEvent{message: "short"}))
}

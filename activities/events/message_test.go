package events

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
)

func TestALongMessageIsCutAndStillNamesItsMaintenance(t *testing.T) {
	ref := activitykit.NodeRef{Node: "n1", Owner: "node/spoke/default/m/run"}
	message := eventMessage(ref, Event{Message: strings.Repeat("ü", 1000)})
	require.LessOrEqual(t, len(message), 1024)
	require.True(t, strings.HasSuffix(message, "ü... (node/spoke/default/m)"), message)
	require.Equal(t, "short (node/spoke/default/m)", eventMessage(ref, Event{Message: "short"}))
}

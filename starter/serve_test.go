package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageIsServedWhileTemporalIsAway(t *testing.T) {
	t.Parallel()
	serving := begin(t, "serve", "--listen", "127.0.0.1:0", "--address", "127.0.0.1:1")
	serving.prints(t, "portal main is shown at http://127.0.0.1:")
	serving.stop()
	require.Equal(t, exitDone, serving.end(t).status)
}

package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

func TestTheIdentityOfAWorkerSaysWhatItHas(t *testing.T) {
	for _, test := range []struct{ given, wanted [2]bool }{
		{[2]bool{false, false}, [2]bool{false, false}},
		{[2]bool{false, true}, [2]bool{false, false}}, // without controllers no annotation is read
		{[2]bool{true, false}, [2]bool{true, false}},
		{[2]bool{true, true}, [2]bool{true, true}},
	} {
		for _, hub := range []bool{false, true} {
			identity := temporal.WorkerIdentity(hub, test.given[0], test.given[1])
			objects, annotations := temporal.HasControllers(identity)
			require.Equal(t, test.wanted, [2]bool{objects, annotations}, identity)
			has, known := temporal.HasHub(identity)
			require.Equal(t, hub, has, identity)
			require.True(t, known, identity)
		}
	}
	objects, _ := temporal.HasControllers("5443@vm@")
	require.False(t, objects, "the worker of another version")
}

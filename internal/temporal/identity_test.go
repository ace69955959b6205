package temporal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

func TestTheIdentityOfAWorkerSaysWhichControllersRun(t *testing.T) {
	for _, test := range []struct{ given, wanted [2]bool }{
		{[2]bool{false, false}, [2]bool{false, false}},
		{[2]bool{false, true}, [2]bool{false, false}}, // without controllers no annotation is read
		{[2]bool{true, false}, [2]bool{true, false}},
		{[2]bool{true, true}, [2]bool{true, true}},
	} {
		objects, annotations := temporal.HasControllers(temporal.WorkerIdentity(test.given[0], test.given[1]))
		require.Equal(t, test.wanted, [2]bool{objects, annotations}, "%v", test.given)
	}
	objects, _ := temporal.HasControllers("5443@vm@")
	require.False(t, objects, "the worker of another version")
}

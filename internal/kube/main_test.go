package kube_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// stack is set by TestMain: one cluster without controllers.
var stack *devstack.Stack

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	code, err := runOnStack(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runOnStack(m *testing.M) (code int, err error) {
	stack, err = devstack.Start(context.Background(), devstack.Options{
		Output:   os.Stderr,
		Clusters: []devstack.ClusterOptions{{Name: "spoke", ControlPlaneOnly: true}},
	})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, stack.Stop()
}

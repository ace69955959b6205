package kube_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// stack is set by TestMain: one cluster without controllers.
var stack *devstack.Stack

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // fuzz targets need no servers, and each of their processes would start some
	}
	devstacktest.MainNeedsServers()
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

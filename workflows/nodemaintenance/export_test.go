package nodemaintenance

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// What the tests of this package use of its inside.

const (
	CleanUpLimit = cleanUpLimit
	MostCarried  = mostCarried
)

var DrainTimeout = drainTimeout

// RunWithLogger runs a maintenance that logs to a logger of a test.
func RunWithLogger(ctx workflow.Context, in Input, logger log.Logger) (maintenancev1.NodeMaintenanceStatus, error) {
	m, err := newNodeMaintenance(ctx, in)
	if err != nil {
		return maintenancev1.NodeMaintenanceStatus{}, err
	}
	m.record.log = log.With(logger, logKeys(in)...)
	return m.run(ctx)
}

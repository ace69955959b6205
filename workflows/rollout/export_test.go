package rollout

import (
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Names of this package for its external tests.

const (
	ChangesPerActivity     = changesPerActivity
	MaxChildren            = maxChildren
	MaxHealthChecks        = maxHealthChecks
	MaxPreparations        = maxPreparations
	ClustersPerPreparation = clustersPerPreparation
	ReasonRefused          = reasonRefused
	ResultClusters         = resultClusters
)

// RunWithRemediator runs a rollout whose remediator a test replaces.
func RunWithRemediator(ctx workflow.Context, in Input, replace func(policy.Remediator) policy.Remediator) (ranv1.ClusterGroupUpgradeStatus, error) {
	g, err := newGroupUpgrade(ctx, in)
	if err != nil {
		return ranv1.ClusterGroupUpgradeStatus{}, err
	}
	g.remediator = replace(g.remediator)
	return g.run(ctx)
}

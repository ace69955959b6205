package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"
)

// followWindows asks the maintenance windows of the rollout how they stand. What comes before the first batch needs none: nothing is disrupted there.
func (g *groupUpgrade) followWindows(ctx workflow.Context) {
	names := windowNames(g.in.Object.Namespace, g.spec.MaintenanceWindows)
	g.holds.windows.follow(ctx, names, func() []string {
		return slices.DeleteFunc(slices.Concat(g.status.RemediationPlan...), func(name string) bool { return g.record.cluster(name).State.Over() })
	})
}

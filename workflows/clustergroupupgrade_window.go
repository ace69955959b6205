package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"
)

// followWindows subscribes to the maintenance windows of the rollout. Phases before the first batch disrupt nothing and need no window.
func (g *groupUpgrade) followWindows(ctx workflow.Context) {
	names := windowNames(g.in.Object.Namespace, g.spec.MaintenanceWindows)
	g.holds.windows.follow(ctx, names, func() []string {
		return slices.DeleteFunc(slices.Concat(g.status.RemediationPlan...), func(name string) bool { return g.record.cluster(name).State.Over() })
	})
}

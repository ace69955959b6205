package rollout

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/workflows/gates"
)

// followWindows subscribes to the maintenance windows of the rollout. Phases before the first batch need no window, since they disrupt nothing.
func (g *groupUpgrade) followWindows(ctx workflow.Context) {
	names := gates.QualifiedNames(g.in.Object.Namespace, g.spec.MaintenanceWindows)
	g.holds.Windows.Subscribe(ctx, names, func() []string {
		return slices.DeleteFunc(slices.Concat(g.status.RemediationPlan...), func(name string) bool { return g.record.cluster(name).State.Over() })
	})
}

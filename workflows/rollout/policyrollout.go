package rollout

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// policyRollout implements policy.Rollout.
type policyRollout struct{ group *groupUpgrade }

// Request implements policy.Rollout.
func (r *policyRollout) Request() *ranv1.ClusterGroupUpgrade { return &r.group.in.Object }

// Status implements policy.Rollout.
func (r *policyRollout) Status() *ranv1.ClusterGroupUpgradeStatus { return &r.group.status }

// Cluster implements policy.Rollout.
func (r *policyRollout) Cluster(name string) *ranv1.ClusterStatus {
	return r.group.record.cluster(name)
}

// NotBound implements policy.Rollout.
func (r *policyRollout) NotBound(cluster string) []int { return r.group.notBound[cluster] }

// Hold implements policy.Rollout.
func (r *policyRollout) Hold(cluster string) *drydockv1.Hold { return r.group.holds.Of(cluster) }

// FirstClose implements policy.Rollout.
func (r *policyRollout) FirstClose(clusters []string) *time.Time {
	return r.group.holds.ClosesFirst(clusters)
}

// Retrier implements policy.Rollout.
func (r *policyRollout) Retrier() kit.Retrier { return r.group.retrier() }

// SetObjectNames implements policy.Rollout.
func (r *policyRollout) SetObjectNames(names map[string]string) {
	r.group.status.SafeResourceNames = names
}

// Event implements policy.Rollout.
func (r *policyRollout) Event(ctx workflow.Context, reason, message string) {
	r.group.record.publisher.Event(ctx, false, reason, message)
}

// Note implements policy.Rollout.
func (r *policyRollout) Note(text string) { r.group.record.note(text) }

// ClustersProgressed implements policy.Rollout.
func (r *policyRollout) ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	r.group.record.clustersProgressed(ctx, clusters)
}

// ShowOnce implements policy.Rollout.
func (r *policyRollout) ShowOnce(_ workflow.Context, change func()) {
	r.group.record.showOnce(change)
}

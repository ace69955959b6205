package rollout

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// remediatedRollout is what a remediator knows of its rollout.
type remediatedRollout struct{ group *groupUpgrade }

// Request implements remediatedRollout.
func (r *remediatedRollout) Request() *ranv1.ClusterGroupUpgrade { return &r.group.in.Object }

// Status implements remediatedRollout.
func (r *remediatedRollout) Status() *ranv1.ClusterGroupUpgradeStatus { return &r.group.status }

// Cluster implements remediatedRollout.
func (r *remediatedRollout) Cluster(name string) *ranv1.ClusterStatus {
	return r.group.record.cluster(name)
}

// notBound implements remediatedRollout.
func (r *remediatedRollout) NotBound(cluster string) []int { return r.group.notBound[cluster] }

// Hold implements remediatedRollout.
func (r *remediatedRollout) Hold(cluster string) *drydockv1.Hold { return r.group.holds.Of(cluster) }

// Closes implements remediatedRollout.
func (r *remediatedRollout) Closes(clusters []string) *time.Time {
	return r.group.holds.ClosesFirst(clusters)
}

// Retrier implements remediatedRollout.
func (r *remediatedRollout) Retrier() kit.Retrier { return r.group.retrier() }

// SetObjectNames implements remediatedRollout.
func (r *remediatedRollout) SetObjectNames(names map[string]string) {
	r.group.status.SafeResourceNames = names
}

// Note implements remediatedRollout.
func (r *remediatedRollout) Note(text string) { r.group.record.note(text) }

// ClustersProgressed implements remediatedRollout.
func (r *remediatedRollout) ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	r.group.record.clustersProgressed(ctx, clusters)
}

// Together implements remediatedRollout.
func (r *remediatedRollout) Together(_ workflow.Context, change func()) {
	r.group.record.together(change)
}

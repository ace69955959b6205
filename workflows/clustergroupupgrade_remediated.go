package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// remediatedRollout is what a remediator knows of its rollout.
type remediatedRollout struct{ group *groupUpgrade }

// Request implements RemediatedRollout.
func (r *remediatedRollout) Request() *ranv1.ClusterGroupUpgrade { return &r.group.in.Object }

// Status implements RemediatedRollout.
func (r *remediatedRollout) Status() *ranv1.ClusterGroupUpgradeStatus { return &r.group.status }

// Cluster implements RemediatedRollout.
func (r *remediatedRollout) Cluster(name string) *ranv1.ClusterStatus {
	return r.group.record.cluster(name)
}

// NotBound implements RemediatedRollout.
func (r *remediatedRollout) NotBound(cluster string) []int { return r.group.notBound[cluster] }

// Hold implements RemediatedRollout.
func (r *remediatedRollout) Hold(cluster string) *drydockv1.Hold { return r.group.holds.of(cluster) }

// Closes implements RemediatedRollout.
func (r *remediatedRollout) Closes(clusters []string) *time.Time {
	return r.group.holds.closesFirst(clusters)
}

// Retrier implements RemediatedRollout.
func (r *remediatedRollout) Retrier() insistence { return r.group.insist() }

// SetObjectNames implements RemediatedRollout.
func (r *remediatedRollout) SetObjectNames(names map[string]string) {
	r.group.status.SafeResourceNames = names
}

// Note implements RemediatedRollout.
func (r *remediatedRollout) Note(text string) { r.group.record.note(text) }

// ClustersProgressed implements RemediatedRollout.
func (r *remediatedRollout) ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	r.group.record.clustersProgressed(ctx, clusters)
}

// Together implements RemediatedRollout.
func (r *remediatedRollout) Together(_ workflow.Context, change func()) {
	r.group.record.together(change)
}

package rollout

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// RemediatedRollout is what a remediator knows of its rollout.
type RemediatedRollout struct{ group *GroupUpgrade }

// Request implements RemediatedRollout.
func (r *RemediatedRollout) Request() *ranv1.ClusterGroupUpgrade { return &r.group.in.Object }

// Status implements RemediatedRollout.
func (r *RemediatedRollout) Status() *ranv1.ClusterGroupUpgradeStatus { return &r.group.Status }

// Cluster implements RemediatedRollout.
func (r *RemediatedRollout) Cluster(name string) *ranv1.ClusterStatus {
	return r.group.Record.cluster(name)
}

// NotBound implements RemediatedRollout.
func (r *RemediatedRollout) NotBound(cluster string) []int { return r.group.NotBound[cluster] }

// Hold implements RemediatedRollout.
func (r *RemediatedRollout) Hold(cluster string) *drydockv1.Hold { return r.group.Holds.Of(cluster) }

// Closes implements RemediatedRollout.
func (r *RemediatedRollout) Closes(clusters []string) *time.Time {
	return r.group.Holds.ClosesFirst(clusters)
}

// Retrier implements RemediatedRollout.
func (r *RemediatedRollout) Retrier() kit.Retrier { return r.group.retrier() }

// SetObjectNames implements RemediatedRollout.
func (r *RemediatedRollout) SetObjectNames(names map[string]string) {
	r.group.Status.SafeResourceNames = names
}

// Note implements RemediatedRollout.
func (r *RemediatedRollout) Note(text string) { r.group.Record.Note(text) }

// ClustersProgressed implements RemediatedRollout.
func (r *RemediatedRollout) ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	r.group.Record.clustersProgressed(ctx, clusters)
}

// Together implements RemediatedRollout.
func (r *RemediatedRollout) Together(_ workflow.Context, change func()) {
	r.group.Record.Together(change)
}

package rollout

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// The methods below record the states of clusters.

// batchTimedOut records the current step of each running cluster when the batch times out, before the cluster is cancelled.
func (r *groupRecord) batchTimedOut(ctx workflow.Context, names []string) {
	r.log.Info("Batch timed out", "batch", r.status.Status.CurrentBatch)
	for _, name := range names {
		if c := r.cluster(name); rollout.Working(c) && c.Reason != ReasonClusterTimedOut {
			r.timedOut(ctx, c, reasonBatchTimedOut, "the batch timed out")
		}
	}
	r.show()
}

// clusterTimedOut records the current step of a cluster when it times out, before it is cancelled.
func (r *groupRecord) clusterTimedOut(ctx workflow.Context, name string) {
	r.timedOut(ctx, r.cluster(name), ReasonClusterTimedOut, "the cluster timed out")
	r.show()
}

func (r *groupRecord) timedOut(ctx workflow.Context, c *ranv1.ClusterStatus, reason, message string) {
	doing := strings.Join(slices.DeleteFunc([]string{c.Step, c.Reason, c.Message}, func(s string) bool { return s == "" }), ": ")
	if doing != "" {
		message += "; at that moment: " + doing
	}
	c.Reason, c.Message, c.Since = reason, message, r.now(ctx)
	r.log.Info("Cluster timed out", "cluster", c.Name, "batch", c.Batch, "reason", reason, "message", message)
}

// Reasons of a cluster that is cancelled because it, or its batch, timed out.
const (
	reasonBatchTimedOut   = "BatchTimedOut"
	ReasonClusterTimedOut = "ClusterTimedOut"
)

// clusterSoaks records that a cluster is complete and soaks.
func (r *groupRecord) clusterSoaks(ctx workflow.Context, name string, until time.Time) {
	c := r.cluster(name)
	c.Reason, c.Since = ranv1.ReasonSoaking, r.now(ctx)
	c.Message = "complete; soaks until " + until.UTC().Format("15:04:05Z")
	r.log.Info("Cluster soaks", "cluster", name, "batch", c.Batch, "until", until)
	r.show()
}

func (r *groupRecord) clusterSoaked(ctx workflow.Context, name string) {
	c := r.cluster(name)
	c.State, c.Reason, c.Message, c.Since = ranv1.ClusterComplete, "", "", nil
	r.log.Info("Cluster ended", "cluster", name, "batch", c.Batch, "state", c.State)
	r.completed(name)
	r.show()
}

func (r *groupRecord) clustersStarted(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.Reason == ranv1.ReasonClusterOffline {
			c.Reason, c.Message, c.Since = "", "", nil
		}
		c.State, c.StartedAt = ranv1.ClusterRunning, r.now(ctx)
		r.log.Info("Cluster started", "cluster", name, "batch", c.Batch)
	}
	r.show()
}

// clustersProgressed records the states of running clusters, except those that timed out: they keep their reason.
func (r *groupRecord) clustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus) {
	for _, now := range clusters {
		c := r.cluster(now.Name)
		if c.State.Over() || c.Reason == reasonBatchTimedOut || c.Reason == ReasonClusterTimedOut {
			continue
		}
		if c.Step != now.Step {
			r.log.Info("Cluster enters a step", "cluster", c.Name, "batch", c.Batch, "step", now.Step)
		}
		if c.Reason != now.Reason || c.Step != now.Step {
			c.Since = r.now(ctx)
		}
		c.State, c.Step, c.Reason, c.Message = now.State, now.Step, now.Reason, now.Message
		c.CurrentPolicy, c.CurrentManifestWork = now.CurrentPolicy, now.CurrentManifestWork
	}
	r.show()
}

// clusterProgressed records the report of a running cluster. A cluster that timed out keeps its reason.
func (r *groupRecord) clusterProgressed(ctx workflow.Context, report ranv1.ClusterStatus) {
	c := r.cluster(report.Name)
	if c == nil || c.State.Over() {
		return
	}
	if c.Reason == reasonBatchTimedOut || c.Reason == ReasonClusterTimedOut {
		report.Reason, report.Message, report.Since = c.Reason, c.Message, c.Since
	}
	report.State, report.Batch = c.State, c.Batch
	*c = report
	r.show()
}

func (r *groupRecord) clusterEnded(ctx workflow.Context, result ranv1.ClusterStatus) {
	c := r.cluster(result.Name)
	started := c.StartedAt
	*c = result
	c.StartedAt, c.CompletedAt, c.Step = started, r.now(ctx), ""
	if c.State.Over() {
		r.log.Info("Cluster ended", "cluster", c.Name, "batch", c.Batch, "state", c.State, "reason", c.Reason, "message", c.Message)
	}
	if c.State == ranv1.ClusterComplete {
		r.completed(c.Name)
	}
	r.show()
}

// notStarted returns the clusters that are still to be started: pending ones, and those that are offline.
func (r *groupRecord) notStarted(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !rollout.NotStarted(r.cluster(name)) })
}

// timedOutBeforeStart records that the pending clusters of a timed-out batch were not started. Those that are offline stay so.
func (r *groupRecord) timedOutBeforeStart(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State == ranv1.ClusterOffline {
			continue
		}
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterTimedOut, reasonBatchTimedOut, "the batch timed out before the cluster was started", r.now(ctx)
		r.log.Info("Cluster ended", "cluster", name, "batch", c.Batch, "state", c.State, "reason", c.Reason, "message", c.Message)
	}
	r.show()
}

// clustersDeleted records clusters whose ManagedCluster was deleted. A cluster that failed before keeps its reason.
func (r *groupRecord) clustersDeleted(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		if c.State != ranv1.ClusterFailed {
			c.State, c.Reason, c.Message, c.Since = ranv1.ClusterFailed, ranv1.ReasonClusterDeleted, policy.MessageClusterDeleted, r.now(ctx)
			r.log.Info("Cluster deleted", "cluster", name, "batch", c.Batch)
		}
	}
	r.show()
}

// inState returns the names of the clusters in a state.
func (r *groupRecord) inState(state ranv1.ClusterState) []string {
	return rollout.NamesInState(r.status.Clusters, state)
}

// completedLate records timed-out clusters that turned out to be complete.
func (r *groupRecord) completedLate(ctx workflow.Context, names []string) {
	for _, name := range names {
		c := r.cluster(name)
		c.State, c.Reason, c.Message, c.Since = ranv1.ClusterComplete, "", "complete after it timed out", nil
		r.log.Info("Cluster is complete after it timed out", "cluster", name, "batch", c.Batch)
	}
	if len(names) > 0 {
		r.completed(names...)
		r.show()
	}
}

// failed is the number of started clusters that failed or timed out.
func (r *groupRecord) failed() int { return r.failures }

// allComplete reports whether all of the clusters are complete. A cluster counts as complete while it soaks after all its work.
func (r *groupRecord) allComplete(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		c := r.cluster(name)
		return c.State != ranv1.ClusterComplete && (c.State != ranv1.ClusterSoaking || rollout.Working(c))
	})
}

func (r *groupRecord) cluster(name string) *ranv1.ClusterStatus {
	i, known := r.index[name]
	if !known {
		return nil
	}
	return &r.status.Clusters[i]
}

// allOver reports whether all of the clusters have ended.
func (r *groupRecord) allOver(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !r.cluster(name).State.Over() })
}

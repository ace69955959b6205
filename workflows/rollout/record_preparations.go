package rollout

import (
	"slices"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
)

// enabled removes the condition of a rollout that is not enabled.
func (r *groupRecord) enabled() {
	meta.RemoveStatusCondition(&r.status.Conditions, ranv1.ConditionProgressing)
}

// precachingStopped removes the result of outdated precaching.
func (r *groupRecord) precachingStopped() {
	meta.RemoveStatusCondition(&r.status.Conditions, ranv1.ConditionPrecachingSucceeded)
}

// backupStarted records that backups start.
func (r *groupRecord) backupStarted(ctx workflow.Context) {
	r.status.Backup.StartedAt = r.now(ctx)
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotStarted, "The Cluster backup is in progress")
	r.phase(ranv1.ReasonNotStarted)
}

// showPreparation records the progress of a preparation, and the clusters that the rollout waits for.
func (r *groupRecord) showPreparation(ctx workflow.Context, p *preparation) {
	states := r.preparationStates(p)
	if p.work.Kind == precache.Backup {
		r.status.Backup.Status = states
	} else {
		r.status.Precaching.Status = states
	}
	verdict := p.work.Kind.Judge(states, p.late)
	r.condition(ctx, p.work.Kind.Condition(), verdict.Status, verdict.Reason, verdict.Message)
	if verdict.Reason != ranv1.ReasonInProgress || p.late {
		r.show()
		return
	}
	r.waits.Before = r.waitForPreparation(ctx, p, states, verdict.Message)
	r.show()
}

// waitForPreparation is the wait for unprepared clusters. If all of them are held, the wait is for their release.
func (r *groupRecord) waitForPreparation(ctx workflow.Context, p *preparation, states map[string]ranv1.PreparationState, message string) *drydockv1.Wait {
	wait := &drydockv1.Wait{Reason: p.work.Kind.Reason(), Message: message, Since: *r.now(ctx)}
	allHeld := true
	for _, cluster := range workflow.DeterministicKeys(states) {
		progress := p.progress[cluster]
		if progress.State.Over() {
			continue
		}
		if hold := p.startHold(cluster); hold == nil {
			allHeld = false
		} else {
			progress.Reason, progress.Message = emergency.ReasonHeld, emergency.Message(*hold)
		}
		if progress.Message != "" && len(wait.Blockers) < 5 {
			wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "ManagedCluster", Name: cluster, Reason: progress.Reason, Message: progress.Message})
		}
	}
	if allHeld {
		wait.Reason, wait.Message = emergency.ReasonHeld, wait.Blockers[0].Message
	}
	return wait
}

// preparationStates are the states of the clusters in the current plan, including failed ones. The other clusters belong to an outdated plan.
func (r *groupRecord) preparationStates(p *preparation) map[string]ranv1.PreparationState {
	states := map[string]ranv1.PreparationState{}
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if progress, asked := p.progress[c.Name]; asked && c.State != ranv1.ClusterSkipped {
			states[c.Name] = progress.State
		}
	}
	return states
}

// preparesFirst records that a running cluster is prepared before the work on it, or was.
func (r *groupRecord) preparesFirst(ctx workflow.Context, p *preparation, name string) {
	cluster, progress := ranv1.ClusterStatus{Name: name, State: ranv1.ClusterRunning}, p.progress[name]
	if !progress.State.Over() {
		cluster.Reason, cluster.Message = p.work.Kind.Reason(), progress.Message
		if cluster.Message == "" {
			cluster.Message = "it was offline when the others were prepared"
		}
	}
	r.clustersProgressed(ctx, []ranv1.ClusterStatus{cluster})
}

// prepared fails the clusters that could not be prepared, and removes them from the plan.
func (r *groupRecord) prepared(ctx workflow.Context, p *preparation) {
	failed := precache.Failed(r.preparationStates(p))
	s := r.status
	for i := range s.Clusters {
		if c := &s.Clusters[i]; slices.Contains(failed, c.Name) {
			c.State, c.Since, c.CompletedAt = ranv1.ClusterFailed, r.now(ctx), r.now(ctx)
			c.Reason, c.Message = failureOf(p.work.Kind, p.progress[c.Name])
			r.log.Info("Cluster ended", "cluster", c.Name, "batch", c.Batch, "state", c.State, "reason", c.Reason, "message", c.Message)
		}
	}
	rollout.RemoveFromPlan(s, failed)
	r.setClusters(s.Clusters)
	r.waits.Before = nil
	r.log.Info("Preparation of clusters ended", "kind", p.work.Kind, "failed", len(failed))
	r.show()
}

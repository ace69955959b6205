package workflows

import (
	"fmt"
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

// enabled records that the rollout was enabled while its clusters are precached.
func (r *groupRecord) enabled() {
	meta.RemoveStatusCondition(&r.status.Conditions, ranv1.ConditionProgressing)
}

// notPrecached forgets how a precaching went that counts no more.
func (r *groupRecord) notPrecached() {
	meta.RemoveStatusCondition(&r.status.Conditions, ranv1.ConditionPrecachingSucceeded)
}

// backingUp records that the rollout was enabled, and that backups come first.
func (r *groupRecord) backingUp(ctx workflow.Context) {
	r.status.Backup.StartedAt = r.now(ctx)
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotStarted, "The Cluster backup is in progress")
	r.phase(ranv1.ReasonNotStarted)
	r.log.Info("Clusters are backed up")
}

// preparing records how the clusters stand, and who keeps the rollout waiting.
func (r *groupRecord) preparing(ctx workflow.Context, p *preparation) {
	states := r.statesOf(p)
	if p.work.Kind == precache.Backup {
		r.status.Backup.Status = states
	} else {
		r.status.Precaching.Status = states
	}
	verdict := p.work.Kind.Judge(states)
	r.condition(ctx, p.work.Kind.Condition(), verdict.Status, verdict.Reason, verdict.Message)
	if verdict.Reason != ranv1.ReasonInProgress {
		r.show()
		return
	}
	r.waits.Before = r.waitForPreparation(ctx, p, states, verdict.Message)
	r.show()
}

// waitForPreparation says which clusters keep the rollout waiting, and why. Where every one of them is held, that is the reason.
func (r *groupRecord) waitForPreparation(ctx workflow.Context, p *preparation, states map[string]ranv1.PreparationState, message string) *drydockv1.Wait {
	wait := &drydockv1.Wait{Reason: p.work.Kind.Reason(), Message: message, Since: *r.now(ctx)}
	allHeld := true
	for _, cluster := range workflow.DeterministicKeys(states) {
		standing := p.standings[cluster]
		if standing.State.Over() {
			continue
		}
		if hold := p.heldBack(cluster); hold == nil {
			allHeld = false
		} else {
			standing.Reason, standing.Message = emergency.ReasonHeld, emergency.Message(*hold)
		}
		if standing.Message != "" && len(wait.Blockers) < 5 {
			wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "ManagedCluster", Name: cluster, Reason: standing.Reason, Message: standing.Message})
		}
	}
	if allHeld {
		wait.Reason, wait.Message = emergency.ReasonHeld, wait.Blockers[0].Message
	}
	return wait
}

// statesOf are those of the clusters of the plan, and of those that have left it. Others were asked for by an earlier plan.
func (r *groupRecord) statesOf(p *preparation) map[string]ranv1.PreparationState {
	states := map[string]ranv1.PreparationState{}
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if standing, asked := p.standings[c.Name]; asked && c.State != ranv1.ClusterSkipped {
			states[c.Name] = standing.State
		}
	}
	return states
}

// prepared takes the clusters that could not be prepared out of the plan: they have failed.
func (r *groupRecord) prepared(ctx workflow.Context, p *preparation) {
	failed := precache.Failed(r.statesOf(p))
	s := r.status
	for i := range s.Clusters {
		if c := &s.Clusters[i]; slices.Contains(failed, c.Name) {
			standing := p.standings[c.Name]
			c.State, c.Since, c.CompletedAt = ranv1.ClusterFailed, r.now(ctx), r.now(ctx)
			c.Reason, c.Message = string(standing.State), fmt.Sprintf("%s: %s", p.work.Kind, standing.Message)
		}
	}
	rollout.Leave(s, failed)
	r.list(s.Clusters)
	r.waits.Before = nil
	r.log.Info("Clusters are prepared", "kind", p.work.Kind, "failed", len(failed))
	r.show()
}

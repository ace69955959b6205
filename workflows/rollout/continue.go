package rollout

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// PreviousRun is the state that a run passes to the next one by continue-as-new. No cluster is running at that moment.
type PreviousRun struct {
	// Status is compact: see rollout.Compact.
	Status     ranv1.ClusterGroupUpgradeStatus `json:"status"`
	TaskQueues map[string]string               `json:"taskQueues,omitempty"`
	// NotBound lists the indexes of the policies that are not bound to a cluster, by the index of the cluster in Status.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// Phase is the phase in which the next run resumes.
	Phase Phase `json:"phase"`
	// Enabled: the rollout was enabled before it had a valid plan.
	Enabled bool `json:"enabled,omitempty"`
	// Release is the release that was looked up for precaching.
	Release *precache.LookedUp `json:"release,omitempty"`
	// Used is the used part of the timeout of the rollout.
	Used time.Duration `json:"used"`
	// NextBatch counts from 0.
	NextBatch int `json:"nextBatch"`
	// StartedBatch is set if the previous run started NextBatch, and did not finish it.
	StartedBatch *StartedBatch `json:"startedBatch,omitempty"`
	// RelapseRetries is how often relapsed clusters were retried.
	RelapseRetries int `json:"relapseRetries,omitempty"`
	// HealthyClusters is the number of clusters that passed the health gate so far.
	HealthyClusters int `json:"healthyClusters,omitempty"`
	// GateOpened: all clusters passed the health gate, and one was started.
	GateOpened bool `json:"gateOpened,omitempty"`
	// Completed are the complete clusters that still need afterCompletion.
	Completed []string `json:"completed,omitempty"`
	// Prepared are the prepared policies or manifest works; nil before the first cluster starts.
	Prepared *policy.PreparedItems `json:"prepared,omitempty"`
	// Held is the last known state of the emergency stop.
	Held emergency.State `json:"held"`
	// Windows is the last known state of the maintenance windows.
	Windows gates.CarriedWindows `json:"windows,omitzero"`
	// SlowestCluster is the longest duration of a complete cluster.
	SlowestCluster time.Duration `json:"slowestCluster,omitempty"`
	// Starters are the people who started, edited or enabled the rollout.
	Starters []string `json:"starters,omitempty"`
	// Object is the last request of the object that requests the rollout, and Publisher what is still to be shown on it.
	Object    ObjectRequest      `json:"object,omitzero"`
	Publisher kit.PublisherState `json:"publisher,omitzero"`
	// Notifier is what the receivers of the rollout were notified of.
	Notifier kit.NotifierState `json:"notifier,omitzero"`
	// Pause is the current pause.
	Pause *drydockv1.Wait `json:"pause,omitempty"`
}

// StartedBatch is a started batch with its share of the rollout's timeout.
type StartedBatch struct {
	Timeout time.Duration `json:"timeout"`
	// UsedBefore is the part of the rollout's timeout that was used before the batch started.
	UsedBefore time.Duration `json:"usedBefore"`
	// PreviousBatch is the number of the batch before it, counted from 1; 0 if it is the first.
	PreviousBatch int32 `json:"previousBatch,omitempty"`
}

// continueAsNew passes the state to a new run. The caller makes sure that no cluster is running.
func (g *groupUpgrade) continueAsNew(ctx workflow.Context) (rollout.End, error) {
	g.remediator.Settle(ctx)
	// Wait for handlers last: an update may arrive during any other wait.
	g.record.publisher.Pause(ctx)
	_ = workflow.Await(ctx, func() bool {
		return !g.completions.running && len(g.activeParts) == 0 && workflow.AllHandlersFinished(ctx) && g.record.notifier.Idle()
	})
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		g.record.publisher.Resume()
		return rollout.EndCancelled, nil
	}
	g.record.publisher.Stop()
	g.record.attributes.Flush()
	g.record.log.Info("Rollout continues as new", "phase", g.phase, "batch", g.nextBatch+1)
	in := g.in
	in.PreviousRun = g.stateForNextRun(workflow.Now(ctx))
	return "", workflow.NewContinueAsNewError(ctx, temporal.ClusterGroupUpgrade, in)
}

// restore sets the state that the previous run passed to this one.
func (g *groupUpgrade) restore(p *PreviousRun) {
	g.status, g.taskQueues = rollout.Expand(p.Status), p.TaskQueues
	g.notBound = rollout.ExpandNotBound(p.NotBound, rollout.NamesOf(p.Status.Clusters))
	g.object, g.release = p.Object, p.Release
	if p.Phase == phasePlan {
		g.enabled = p.Enabled
	}
	g.phase, g.nextBatch, g.startedBatch, g.relapseRetries = p.Phase, p.NextBatch, p.StartedBatch, p.RelapseRetries
	g.clock.used, g.slowest = p.Used, p.SlowestCluster
	g.gate.healthy = p.HealthyClusters
	if p.GateOpened {
		g.gate.state = gateOpen
	}
	g.completions.due, g.starters, g.defaulted = p.Completed, p.Starters, true
	g.holds.State = p.Held
	g.holds.Windows.Restore(p.Windows)
}

// stateForNextRun is the counterpart of restore.
func (g *groupUpgrade) stateForNextRun(now time.Time) *PreviousRun {
	status := rollout.Compact(g.status)
	status.Clusters = shortMessages(status.Clusters)
	healthy := g.gate.healthy
	if g.gate.state == gateStale {
		healthy = 0
	}
	return &PreviousRun{
		Status: status, TaskQueues: g.taskQueues, NotBound: rollout.CompactNotBound(g.notBound, rollout.NamesOf(g.status.Clusters)),
		Phase: g.phase, NextBatch: g.nextBatch, StartedBatch: g.startedBatch, RelapseRetries: g.relapseRetries,
		Used: g.clock.elapsed(now), SlowestCluster: g.slowest,
		HealthyClusters: healthy, GateOpened: g.gate.state == gateOpen,
		Enabled: g.enabled, Release: g.release, Object: g.object, Publisher: g.record.publisher.State, Notifier: g.record.notifier.State,
		Completed: g.completions.due, Prepared: g.remediator.Prepared(), Starters: g.starters, Pause: g.record.waits.Pause,
		Held: g.holds.State, Windows: g.holds.Windows.Carry(),
	}
}

// messagesLimit is the total length, in bytes, of the messages of all clusters that one run passes to the next. The server refuses an input
// of 2 MiB, and the names of 10,000 clusters can take half of that.
const messagesLimit = 512 << 10

// shortMessages cuts the longest messages until all messages fit into messagesLimit.
func shortMessages(clusters []ranv1.ClusterStatus) []ranv1.ClusterStatus {
	longest := 0
	for i := range clusters {
		longest = max(longest, len(clusters[i].Message))
	}
	limit := longest
	totalLength := func() (length int) {
		for i := range clusters {
			length += min(len(clusters[i].Message), limit)
		}
		return length
	}
	const shortest = 16
	for limit > shortest && totalLength() > messagesLimit {
		limit /= 2
	}
	if limit == longest {
		return clusters
	}
	short := slices.Clone(clusters)
	for i := range short {
		short[i].Message = temporal.Cut(short[i].Message, limit)
	}
	return short
}

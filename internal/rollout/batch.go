package rollout

// BatchStep is the next step of a batch.
type BatchStep string

// The steps of a batch.
const (
	// BatchStart: more clusters may be started.
	BatchStart BatchStep = "Start"
	// BatchWait: no cluster starts until something changes.
	BatchWait BatchStep = "Wait"
	// BatchEnd: the batch ends.
	BatchEnd BatchStep = "End"
	// BatchRecheck: the health gate must be passed again before the first cluster starts.
	BatchRecheck BatchStep = "Recheck"
	// BatchNewRun: the run must continue as new before another cluster starts.
	BatchNewRun BatchStep = "NewRun"
)

// BatchReason is why a batch starts no more clusters.
type BatchReason string

// The reasons, by priority.
const (
	BatchCancelled  BatchReason = "Cancelled"
	BatchTimedOut   BatchReason = "TimedOut"
	BatchAllStarted BatchReason = "AllStarted"
	// BatchRelapses: relapsed clusters are retried before the batch waits for clusters that are offline.
	BatchRelapses        BatchReason = "Relapses"
	BatchTooManyFailures BatchReason = "TooManyFailures"
	BatchHistoryLong     BatchReason = "HistoryLong"
	BatchHealthUnknown   BatchReason = "HealthUnknown"
	BatchPaused          BatchReason = "Paused"
	BatchOffline         BatchReason = "Offline"
	BatchFull            BatchReason = "Full"
	// BatchCautious: the failures of all running clusters would reach the limit of failures.
	BatchCautious BatchReason = "Cautious"
)

// BatchState is the input of a decision about the next step of a batch.
type BatchState struct {
	// Budget limits the running clusters and the failures. Soaking clusters count as running.
	Budget StartBudget
	// Pending is the number of clusters to be started. Offline is the number of clusters that start when they are back. Busy is the number of active clusters
	// that do not only soak.
	Pending, Offline, Busy int
	// Relapses: relapsed clusters can be retried before those that are offline.
	Relapses bool
	// SoakCounts: clusters soak, other clusters wait for them, and the rollout continues.
	SoakCounts bool
	// Cancelled: the rollout is cancelled. TimedOut: the batch has timed out. Paused: a person paused the rollout.
	Cancelled, TimedOut, Paused bool
	// HealthUnknown: the checks of the health gate are outdated.
	HealthUnknown bool
	// HistoryLong: the run must continue as new.
	HistoryLong bool
}

// BatchDecision is the next step of a batch. Start is the maximum number of clusters to start. Reason is why no more start.
type BatchDecision struct {
	Step   BatchStep
	Start  int
	Reason BatchReason
}

// Decide returns the next step of a batch. The batch does not end, and the run does not continue as new, while a cluster is busy, or soaks and others
// wait for it.
func (b BatchState) Decide() BatchDecision {
	reason := b.refusal()
	switch {
	case reason == "":
		return BatchDecision{Step: BatchStart, Start: min(b.Budget.Free(), b.Pending)}
	case b.Busy > 0:
		return BatchDecision{Step: BatchWait, Reason: reason}
	case reason == BatchCancelled, reason == BatchTooManyFailures:
		return BatchDecision{Step: BatchEnd, Reason: reason}
	case b.SoakCounts:
		return BatchDecision{Step: BatchWait, Reason: reason}
	}
	switch reason {
	case BatchTimedOut, BatchAllStarted, BatchRelapses:
		return BatchDecision{Step: BatchEnd, Reason: reason}
	case BatchHistoryLong:
		return BatchDecision{Step: BatchNewRun, Reason: reason}
	case BatchHealthUnknown:
		return BatchDecision{Step: BatchRecheck, Reason: reason}
	}
	return BatchDecision{Step: BatchWait, Reason: reason}
}

// refusal is why no cluster may start now; "": one may.
func (b BatchState) refusal() BatchReason {
	switch {
	case b.Cancelled:
		return BatchCancelled
	case b.Budget.Exhausted() && b.Pending+b.Offline > 0:
		return BatchTooManyFailures
	case b.TimedOut:
		return BatchTimedOut
	case b.Pending+b.Offline == 0:
		return BatchAllStarted
	case b.Pending == 0 && b.Relapses:
		return BatchRelapses
	case b.HealthUnknown:
		return BatchHealthUnknown
	case b.HistoryLong:
		return BatchHistoryLong
	case b.Paused:
		return BatchPaused
	case b.Pending == 0:
		return BatchOffline
	case b.Budget.Cautious():
		return BatchCautious
	case b.Budget.Free() == 0:
		return BatchFull
	}
	return ""
}

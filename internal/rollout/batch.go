package rollout

// BatchStep is what a batch does next.
type BatchStep string

// The steps of a batch.
const (
	// BatchStart: more clusters may be started.
	BatchStart BatchStep = "Start"
	// BatchWait: nothing is started until something changes.
	BatchWait BatchStep = "Wait"
	// BatchEnd: the batch is over.
	BatchEnd BatchStep = "End"
	// BatchRecheck: the health checks before the first cluster must pass again.
	BatchRecheck BatchStep = "Recheck"
	// BatchNewRun: the run must continue as new before another cluster is started.
	BatchNewRun BatchStep = "NewRun"
)

// BatchReason says why a batch does not start more clusters.
type BatchReason string

// The reasons, in the order in which they are looked at.
const (
	BatchCancelled       BatchReason = "Cancelled"
	BatchTimedOut        BatchReason = "TimedOut"
	BatchAllStarted      BatchReason = "AllStarted"
	BatchTooManyFailures BatchReason = "TooManyFailures"
	BatchHistoryLong     BatchReason = "HistoryLong"
	BatchHealthUnknown   BatchReason = "HealthUnknown"
	BatchPaused          BatchReason = "Paused"
	BatchFull            BatchReason = "Full"
	// BatchCautious: each running cluster may fail, and no failure beyond those is allowed.
	BatchCautious BatchReason = "Cautious"
)

// BatchState is what the next step of a batch depends on.
type BatchState struct {
	// Budget limits the running clusters and the failures. Soaking clusters count as running.
	Budget StartBudget
	// Pending clusters wait for a free place. Busy ones are running and do not soak.
	Pending, Busy int
	// SoakCounts: clusters soak, others follow in this batch or a later one, and the rollout continues.
	SoakCounts bool
	// Cancelled: the rollout is cancelled. TimedOut: the batch has timed out. Paused: a person paused the rollout.
	Cancelled, TimedOut, Paused bool
	// HealthUnknown: what the health checks found before the first cluster is out of date.
	HealthUnknown bool
	// HistoryLong: the run must continue as new.
	HistoryLong bool
}

// BatchDecision is the next step of a batch. Start is how many clusters may be started at most; Reason says why not more.
type BatchDecision struct {
	Step   BatchStep
	Start  int
	Reason BatchReason
}

// Decide returns the next step of a batch. A batch never ends, and a run never continues as new, while a cluster is running or soaks for others.
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
	case BatchTimedOut, BatchAllStarted:
		return BatchDecision{Step: BatchEnd, Reason: reason}
	case BatchHistoryLong:
		return BatchDecision{Step: BatchNewRun, Reason: reason}
	case BatchHealthUnknown:
		return BatchDecision{Step: BatchRecheck, Reason: reason}
	}
	return BatchDecision{Step: BatchWait, Reason: reason}
}

// refusal is why no cluster may be started now; "": one may be.
func (b BatchState) refusal() BatchReason {
	switch {
	case b.Cancelled:
		return BatchCancelled
	case b.Budget.Exhausted() && b.Pending > 0:
		return BatchTooManyFailures
	case b.TimedOut:
		return BatchTimedOut
	case b.Pending == 0:
		return BatchAllStarted
	case b.HealthUnknown:
		return BatchHealthUnknown
	case b.HistoryLong:
		return BatchHistoryLong
	case b.Paused:
		return BatchPaused
	case b.Budget.Cautious():
		return BatchCautious
	case b.Budget.Free() == 0:
		return BatchFull
	}
	return ""
}

package precache

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Condition is the condition of a rollout with the result of the work.
func (k Kind) Condition() string {
	if k == Backup {
		return ranv1.ConditionBackupSucceeded
	}
	return ranv1.ConditionPrecachingSucceeded
}

// Reason is the reason of a rollout that waits for the work.
func (k Kind) Reason() string {
	if k == Backup {
		return "BackingUp"
	}
	return "Precaching"
}

// TimedOut is the state of a cluster whose Job did not end in time.
func (k Kind) TimedOut() ranv1.PreparationState {
	if k == Backup {
		return ranv1.BackupTimeout
	}
	return ranv1.PrecacheTimeout
}

// Verdict is the condition of a preparation.
type Verdict struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// conditionWords are the reasons and messages of the conditions, from the documentation of TALM.
type conditionWords struct {
	done, completed, failedFor, failedForAll, inProgress, notBegun, offline string
}

func (k Kind) words() conditionWords {
	if k == Backup {
		return conditionWords{
			done: ranv1.ReasonBackupCompleted, completed: "Backup is completed for all clusters", failedFor: "Backup failed for %d clusters",
			failedForAll: "Backup failed for all the clusters", inProgress: "Backup is in progress for %d clusters",
			offline: "Backup is not completed for %d clusters that were offline",
		}
	}
	return conditionWords{
		done: ranv1.ReasonPrecachingCompleted, completed: "Precaching is completed for all clusters", failedFor: "Precaching failed for %d clusters",
		failedForAll: "Precaching failed for all clusters", inProgress: "Precaching is in progress for %d clusters", notBegun: "Precaching is not completed",
		offline: "Precaching is not completed for %d clusters that were offline",
	}
}

// Judge returns the condition for all clusters together. left: the clusters that are not started were offline when the others were prepared.
func (k Kind) Judge(states map[string]ranv1.PreparationState, left bool) Verdict {
	words := k.words()
	failed := Failed(states)
	running, notStarted := 0, 0
	//workflowcheck:ignore the order does not affect a count
	for _, state := range states {
		if !state.Over() {
			running++
		}
		if state == ranv1.PreparationNotStarted {
			notStarted++
		}
	}
	detail := ""
	if len(failed) > 0 {
		detail = "; failed: " + joinNames(failed)
	}
	switch {
	case running > 0 && notStarted == running && left:
		return Verdict{metav1.ConditionFalse, ranv1.ReasonInProgress, fmt.Sprintf(words.offline, running) + detail}
	case running > 0 && notStarted == len(states) && k == Precaching:
		return Verdict{metav1.ConditionFalse, ranv1.ReasonInProgress, words.notBegun}
	case running > 0:
		return Verdict{metav1.ConditionFalse, ranv1.ReasonInProgress, fmt.Sprintf(words.inProgress, running) + detail}
	case len(failed) == 0:
		return Verdict{metav1.ConditionTrue, words.done, words.completed}
	case len(failed) == len(states):
		return Verdict{metav1.ConditionFalse, ranv1.ReasonFailed, words.failedForAll + detail}
	}
	return Verdict{metav1.ConditionTrue, ranv1.ReasonPartiallyDone, fmt.Sprintf(words.failedFor, len(failed)) + detail}
}

// Failed are the clusters on which the work failed, by name.
func Failed(states map[string]ranv1.PreparationState) []string {
	//workflowcheck:ignore the names are sorted
	return slices.DeleteFunc(slices.Sorted(maps.Keys(states)), func(name string) bool {
		return !states[name].Over() || states[name] == ranv1.PreparationSucceeded
	})
}

// joinNames names at most 20 clusters, since the status has them all.
func joinNames(names []string) string {
	const limit = 20
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

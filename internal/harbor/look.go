package harbor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Known is what is known of a HarborCluster that is kept before it is looked at.
type Known struct {
	// Status as it was seen last. What it remembers counts, whatever the object's status says.
	Status goharborv1.HarborClusterStatus `json:"status"`
	// Applied is what was done about each part last.
	Applied map[Part]Applied `json:"applied,omitempty"`
	// StatusWritten and FinalizerWritten are when these were written last as they were seen then; nil: they were not.
	StatusWritten    *time.Time `json:"statusWritten,omitempty"`
	FinalizerWritten *time.Time `json:"finalizerWritten,omitempty"`
	// Held: nothing may be applied, so that nothing is due.
	Held bool `json:"held,omitempty"`
	// Applying are the parts that are being applied, and not due before that is over.
	Applying []Part `json:"applying,omitempty"`
}

// Look is what a look at a HarborCluster that is kept shows.
type Look struct {
	// Gone: there is no such HarborCluster, or not any more.
	Gone bool `json:"gone,omitempty"`
	// UID and Generation are those of the object that was looked at. Another UID than before: everything begins anew.
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	// Deleting: somebody has deleted it, with this policy about its data.
	Deleting       bool                      `json:"deleting,omitempty"`
	DeletionPolicy goharborv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Unheld: it does not have our finalizer, and is to be given it.
	Unheld bool `json:"unheld,omitempty"`
	// Status as it is now. Outdated: the object's own says something else, and is to be written.
	Status   goharborv1.HarborClusterStatus `json:"status"`
	Outdated bool                           `json:"outdated,omitempty"`
	// Deferred: it does, but what is applied now changes that once more, and it can wait until then.
	Deferred bool `json:"deferred,omitempty"`
	// Parts that are to be applied.
	Parts []Due `json:"parts,omitempty"`
	// Moot are parts of which it does not matter any more that they could not be applied.
	Moot []Part `json:"moot,omitempty"`

	// known is what was known before. Another: of another object. News: something is to be said that was not said before. Drifted: something is not seen as
	// it was applied.
	known                  Known
	another, news, drifted bool
	again                  *time.Time
}

// LookAt says what is to be done or said about a HarborCluster that is kept, of which that was known of the object with that UID. Nil: there is none. Of
// one that is being deleted, nothing needs to be seen.
func LookAt(hc *goharborv1.HarborCluster, seen Seen, uid types.UID, known Known, now time.Time) Look {
	if hc == nil {
		return Look{Gone: true}
	}
	look := Look{
		UID: hc.UID, Generation: hc.Generation, Deleting: hc.DeletionTimestamp != nil, DeletionPolicy: hc.Spec.DeletionPolicy,
		known: known, another: uid != "" && uid != hc.UID, news: uid != hc.UID,
	}
	if look.news {
		look.known = Known{Status: hc.Status, Held: known.Held, Applying: known.Applying}
	}
	if !look.Deleting {
		look.judge(hc, seen, now)
	}
	return look
}

func (l *Look) judge(hc *goharborv1.HarborCluster, seen Seen, now time.Time) {
	remembered := *hc
	remembered.Status = l.known.Status
	judged := Judge(&remembered, seen, l.known.Applied, now)
	l.Status = goharborv1.HarborClusterStatus{Status: judged.Status, ObservedGeneration: hc.Generation, Conditions: judged.Conditions}
	l.Moot, l.drifted = judged.Moot, judged.Drifted
	l.news = l.news || !SameStatus(l.known.Status, l.Status)
	if !l.known.Held {
		l.Parts, l.again = slices.DeleteFunc(judged.Due, func(due Due) bool { return slices.Contains(l.known.Applying, due.Part) }), judged.Again
	}
	if next := NextLook(&remembered, seen.Observed, judged.Evaluation, now); next != nil && next.After(now) {
		l.again = earlier(l.again, next)
	}
	switch {
	case SameStatus(hc.Status, l.Status):
	case l.canWait(hc.Status):
		l.Deferred = true
	default:
		l.Outdated = l.news || l.rested(l.known.StatusWritten, now)
	}
	if !slices.Contains(hc.Finalizers, Finalizer) {
		l.Unheld = l.rested(l.known.FinalizerWritten, now)
	}
}

// canWait reports whether it matters little that an object's own status is not written before the parts that are due are applied: neither the one word for it
// would change, nor what is known to be bad.
func (l *Look) canWait(own goharborv1.HarborClusterStatus) bool {
	if len(l.Parts) == 0 || !own.Status.Means(l.Status.Status) || own.ObservedGeneration != l.Status.ObservedGeneration {
		return false
	}
	return !slices.ContainsFunc(l.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
		return (c.Status == metav1.ConditionFalse) != (ConditionOf(own, c.Type).Status == metav1.ConditionFalse)
	})
}

// rested reports whether what was written then, and somebody has changed, may be written again: who changes it back all the time is not answered each
// time at once, nor what a watch does not show yet.
func (l *Look) rested(written *time.Time, now time.Time) bool {
	if written == nil {
		return true
	}
	rested := written.Add(repairPause)
	if now.Before(rested) {
		l.again = earlier(l.again, &rested)
		return false
	}
	return true
}

// Due reports whether anything is to be done or said.
func (l Look) Due() bool {
	return l.Gone || l.Deleting || l.news || l.Outdated || l.Unheld || len(l.Parts) > 0
}

// Again is when to look again although nothing changes; nil: only a change tells.
func (l Look) Again() *time.Time { return l.again }

// Doubtful reports whether what was seen may be of before what is known: the HarborCluster was made, changed or written later, or something of it was
// applied later, or a Secret was made of which a watch of its own tells. Who has looked at a cache should look at what the API server says then.
func (l Look) Doubtful() bool {
	known := l.known.Status
	switch {
	case l.Gone, l.Deleting, l.another, l.drifted, l.Generation < known.ObservedGeneration:
		return true
	case !l.news:
		return l.Outdated && l.known.StatusWritten != nil || l.Unheld && l.known.FinalizerWritten != nil
	}
	return slices.ContainsFunc(l.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
		return c.Reason == ReasonSecretMissing && ConditionOf(known, c.Type).Reason != c.Reason
	})
}

// SameStatus compares what Drydock says of a HarborCluster. Conditions of other types, which the first may have, are somebody else's.
func SameStatus(a, b goharborv1.HarborClusterStatus) bool {
	if !a.Status.Means(b.Status) || a.ObservedGeneration != b.ObservedGeneration {
		return false
	}
	for _, condition := range b.Conditions {
		if !equality.Semantic.DeepEqual(truncated(ConditionOf(a, condition.Type)), truncated(condition)) {
			return false
		}
	}
	return true
}

// ConditionOf returns the condition of that type; the zero value: there is none.
func ConditionOf(status goharborv1.HarborClusterStatus, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return goharborv1.HarborClusterCondition{}
}

// truncated is the condition as an API server keeps it: its times are whole seconds.
func truncated(condition goharborv1.HarborClusterCondition) goharborv1.HarborClusterCondition {
	for _, at := range []**metav1.Time{&condition.LastTransitionTime, &condition.FirstReadyTime} {
		if *at != nil {
			whole := metav1.NewTime((*at).Truncate(time.Second).UTC())
			*at = &whole
		}
	}
	return condition
}

// WithOthers is a status as it is written: the conditions of other types that the object has stay.
func WithOthers(status, own goharborv1.HarborClusterStatus) goharborv1.HarborClusterStatus {
	written := *status.DeepCopy()
	for _, condition := range own.Conditions {
		if ConditionOf(status, condition.Type).Type == "" {
			written.Conditions = append(written.Conditions, condition)
		}
	}
	return written
}

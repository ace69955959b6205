package harbor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Known is the record about a managed HarborCluster before it is observed.
type Known struct {
	// Status as last observed. Its history counts, even if the object's status differs.
	Status goharborv1.HarborClusterStatus `json:"status"`
	// Applied is what was last done about each part.
	Applied map[Part]Applied `json:"applied,omitempty"`
	// StatusWritten and FinalizerWritten are when these were last written with their current value; nil: never.
	StatusWritten    *time.Time `json:"statusWritten,omitempty"`
	FinalizerWritten *time.Time `json:"finalizerWritten,omitempty"`
	// Held: nothing may be applied, so that nothing is due.
	Held bool `json:"held,omitempty"`
	// Applying are the parts being applied, which are not due meanwhile.
	Applying []Part `json:"applying,omitempty"`
}

// Plan has the actions that are due after an observation of a managed HarborCluster.
type Plan struct {
	// Gone: the HarborCluster does not exist, or no longer.
	Gone bool `json:"gone,omitempty"`
	// UID and Generation are those of the observed object. With another UID than before, everything starts again.
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	// Deleting: the HarborCluster is being deleted, with this policy for its data.
	Deleting       bool                      `json:"deleting,omitempty"`
	DeletionPolicy goharborv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// NoFinalizer: it lacks Drydock's finalizer.
	NoFinalizer bool `json:"noFinalizer,omitempty"`
	// Status as it is now. Outdated: the object's own status differs and must be written.
	Status   goharborv1.HarborClusterStatus `json:"status"`
	Outdated bool                           `json:"outdated,omitempty"`
	// Deferred: it differs, but applying the due parts will change it again, so writing can wait.
	Deferred bool `json:"deferred,omitempty"`
	// Parts to apply.
	Parts []Due `json:"parts,omitempty"`
	// Obsolete are parts whose failure no longer matters.
	Obsolete []Part `json:"obsolete,omitempty"`

	// known is the record from before. Another: it is of another object. News: there is something new to report. Drifted: something differs from what
	// was applied.
	known                  Known
	another, news, drifted bool
	again                  *time.Time
}

// PlanFor returns what to do or report about a managed HarborCluster, given the record and the object's UID. Nil: it does not exist. If it is being
// deleted, nothing else matters.
func PlanFor(hc *goharborv1.HarborCluster, seen Seen, uid types.UID, known Known, now time.Time) Plan {
	if hc == nil {
		return Plan{Gone: true}
	}
	look := Plan{
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

func (l *Plan) judge(hc *goharborv1.HarborCluster, seen Seen, now time.Time) {
	remembered := *hc
	remembered.Status = l.known.Status
	judged := Judge(&remembered, seen, l.known.Applied, now)
	l.Status = goharborv1.HarborClusterStatus{Status: judged.Status, ObservedGeneration: hc.Generation, Conditions: judged.Conditions}
	l.Obsolete, l.drifted = judged.Obsolete, judged.Drifted
	l.news = l.news || !SameStatus(l.known.Status, l.Status)
	if !l.known.Held {
		l.Parts, l.again = slices.DeleteFunc(judged.Due, func(due Due) bool { return slices.Contains(l.known.Applying, due.Part) }), judged.Again
	}
	if next := RecheckAt(&remembered, seen.Observed, judged.Evaluation, now); next != nil && next.After(now) {
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
		l.NoFinalizer = l.rested(l.known.FinalizerWritten, now)
	}
}

// canWait reports whether writing the object's status can wait until the due parts are applied: neither its overall status nor a known failure would
// change.
func (l *Plan) canWait(own goharborv1.HarborClusterStatus) bool {
	if len(l.Parts) == 0 || !own.Status.Means(l.Status.Status) || own.ObservedGeneration != l.Status.ObservedGeneration {
		return false
	}
	return !slices.ContainsFunc(l.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
		return (c.Status == metav1.ConditionFalse) != (ConditionOf(own, c.Type).Status == metav1.ConditionFalse)
	})
}

// rested reports whether a value that another client changed may be written again: not at once each time, and not before a watch may show it.
func (l *Plan) rested(written *time.Time, now time.Time) bool {
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

// Due reports whether there is anything to do or report.
func (l Plan) Due() bool {
	return l.Gone || l.Deleting || l.news || l.Outdated || l.NoFinalizer || len(l.Parts) > 0
}

// Again is when to observe again without a change; nil: never.
func (l Plan) Again() *time.Time { return l.again }

// Doubtful reports whether the observation may be older than the record: the HarborCluster was created, changed or written later, a part was applied
// later, or a Secret was created that another watch covers. Then the API server should be read instead of the cache.
func (l Plan) Doubtful() bool {
	known := l.known.Status
	switch {
	case l.Gone, l.Deleting, l.another, l.drifted, l.Generation < known.ObservedGeneration:
		return true
	case !l.news:
		return l.Outdated && l.known.StatusWritten != nil || l.NoFinalizer && l.known.FinalizerWritten != nil
	}
	return slices.ContainsFunc(l.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
		return c.Reason == ReasonSecretMissing && ConditionOf(known, c.Type).Reason != c.Reason
	})
}

// SameStatus compares Drydock's part of a HarborCluster's status. Conditions of other types, which the first may have, belong to other programs.
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

// ConditionOf returns the condition of that type, or the zero value.
func ConditionOf(status goharborv1.HarborClusterStatus, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return goharborv1.HarborClusterCondition{}
}

// truncated is the condition as an API server stores it, with times in whole seconds.
func truncated(condition goharborv1.HarborClusterCondition) goharborv1.HarborClusterCondition {
	for _, at := range []**metav1.Time{&condition.LastTransitionTime, &condition.FirstReadyTime} {
		if *at != nil {
			whole := metav1.NewTime((*at).Truncate(time.Second).UTC())
			*at = &whole
		}
	}
	return condition
}

// WithOthers is the status to write: it keeps the object's conditions of other types.
func WithOthers(status, own goharborv1.HarborClusterStatus) goharborv1.HarborClusterStatus {
	written := *status.DeepCopy()
	for _, condition := range own.Conditions {
		if ConditionOf(status, condition.Type).Type == "" {
			written.Conditions = append(written.Conditions, condition)
		}
	}
	return written
}

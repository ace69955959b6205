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
	// Applied is the last application of each part.
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

	// known is the previous record. another: it is of another object. reportable: there is something new to report. drifted: an object differs from
	// its last application.
	known                        Known
	another, reportable, drifted bool
	again                        *time.Time
}

// PlanFor returns what to do or report about a managed HarborCluster, given the record and the object's UID. Nil: it does not exist. If it is being
// deleted, nothing else matters.
func PlanFor(hc *goharborv1.HarborCluster, seen Seen, uid types.UID, known Known, now time.Time) Plan {
	if hc == nil {
		return Plan{Gone: true}
	}
	plan := Plan{
		UID: hc.UID, Generation: hc.Generation, Deleting: hc.DeletionTimestamp != nil, DeletionPolicy: hc.Spec.DeletionPolicy,
		known: known, another: uid != "" && uid != hc.UID, reportable: uid != hc.UID,
	}
	if plan.reportable {
		plan.known = Known{Status: hc.Status, Held: known.Held, Applying: known.Applying}
	}
	if !plan.Deleting {
		plan.judge(hc, seen, now)
	}
	return plan
}

func (p *Plan) judge(hc *goharborv1.HarborCluster, seen Seen, now time.Time) {
	remembered := *hc
	remembered.Status = p.known.Status
	judged := Judge(&remembered, seen, p.known.Applied, now)
	p.Status = goharborv1.HarborClusterStatus{Status: judged.Status, ObservedGeneration: hc.Generation, Conditions: judged.Conditions}
	p.Obsolete, p.drifted = judged.Obsolete, judged.Drifted
	p.reportable = p.reportable || !SameStatus(p.known.Status, p.Status)
	if !p.known.Held {
		p.Parts, p.again = slices.DeleteFunc(judged.Due, func(due Due) bool { return slices.Contains(p.known.Applying, due.Part) }), judged.Again
	}
	if next := RecheckAt(&remembered, seen.Observed, judged.Evaluation, now); next != nil && next.After(now) {
		p.again = earlier(p.again, next)
	}
	switch {
	case SameStatus(hc.Status, p.Status):
	case p.canWait(hc.Status):
		p.Deferred = true
	default:
		p.Outdated = p.reportable || p.pauseOver(p.known.StatusWritten, now)
	}
	if !slices.Contains(hc.Finalizers, Finalizer) {
		p.NoFinalizer = p.pauseOver(p.known.FinalizerWritten, now)
	}
}

// canWait reports whether writing the object's status can wait until the due parts are applied: neither its overall status nor a known failure would
// change.
func (p *Plan) canWait(own goharborv1.HarborClusterStatus) bool {
	if len(p.Parts) == 0 || !own.Status.Means(p.Status.Status) || own.ObservedGeneration != p.Status.ObservedGeneration {
		return false
	}
	return !slices.ContainsFunc(p.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
		return (c.Status == metav1.ConditionFalse) != (ConditionOf(own, c.Type).Status == metav1.ConditionFalse)
	})
}

// pauseOver reports whether a value that another client changed may be written again: only after a pause, so that a watch has shown the last write.
func (p *Plan) pauseOver(written *time.Time, now time.Time) bool {
	if written == nil {
		return true
	}
	pauseEnd := written.Add(repairPause)
	if now.Before(pauseEnd) {
		p.again = earlier(p.again, &pauseEnd)
		return false
	}
	return true
}

// Due reports whether there is anything to do or report.
func (p Plan) Due() bool {
	return p.Gone || p.Deleting || p.reportable || p.Outdated || p.NoFinalizer || len(p.Parts) > 0
}

// Again is when to observe again without a change; nil: never.
func (p Plan) Again() *time.Time { return p.again }

// Doubtful reports whether the observation may be older than the record: the HarborCluster was created, changed or written later, a part was applied
// later, or a Secret was created that another watch covers. Then the API server should be read instead of the cache.
func (p Plan) Doubtful() bool {
	known := p.known.Status
	switch {
	case p.Gone, p.Deleting, p.another, p.drifted, p.Generation < known.ObservedGeneration:
		return true
	case !p.reportable:
		return p.Outdated && p.known.StatusWritten != nil || p.NoFinalizer && p.known.FinalizerWritten != nil
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c goharborv1.HarborClusterCondition) bool {
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

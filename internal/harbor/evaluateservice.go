package harbor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/health"
)

// service evaluates Harbor by its conditions Failed and InProgress. A new installation in progress is starting; a change of a ready one is an outage
// until it finishes. Conditions of an older generation, or with status Unknown, are not healthy.
func (j judge) service(observed Observed) goharborv1.HarborClusterCondition {
	if failure, is := observed.Failures[j.kind]; is {
		return j.condition(metav1.ConditionFalse, failure.Reason, failure.Message)
	}
	object := observed.Harbor
	if object == nil {
		missing := "there is no Harbor " + j.hc.Namespace + "/" + harborName(j.hc)
		if j.wasReady() {
			return j.condition(metav1.ConditionFalse, ReasonNotFound, "was ready, and is gone: "+missing)
		}
		return j.condition(metav1.ConditionUnknown, ReasonNotFound, missing)
	}
	failed, hasFailed := health.ConditionOf(object, "Failed")
	progress, hasProgress := health.ConditionOf(object, "InProgress")
	switch {
	case !hasFailed && !hasProgress:
		return j.condition(metav1.ConditionUnknown, ReasonNotReported, "Harbor "+object.GetName()+" has no conditions yet")
	case failed.Status == metav1.ConditionTrue:
		return j.condition(metav1.ConditionFalse, text(failed.Reason, "Failed"), failed.Message)
	case progress.Status == metav1.ConditionTrue && j.wasReady():
		return j.condition(metav1.ConditionFalse, text(progress.Reason, "InProgress"), progress.Message)
	case progress.Status == metav1.ConditionTrue:
		return j.condition(metav1.ConditionUnknown, text(progress.Reason, "InProgress"), progress.Message)
	case failed.Stale || progress.Stale:
		return j.condition(metav1.ConditionUnknown, ReasonGenerationNotObserved, "Harbor "+object.GetName()+" reports about an older generation")
	case failed.Status == metav1.ConditionUnknown || progress.Status == metav1.ConditionUnknown:
		return j.condition(metav1.ConditionUnknown, ReasonNotReported, "Harbor "+object.GetName()+" does not know whether it is well")
	}
	if why, is := observed.Unapplied[j.kind]; is {
		return j.condition(metav1.ConditionUnknown, ReasonNotApplied, notApplied+why)
	}
	return j.condition(metav1.ConditionTrue, ReasonReady, "Harbor "+object.GetName()+" is up")
}

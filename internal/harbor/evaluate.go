package harbor

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/health"
)

// Evaluation is the result of evaluating a HarborCluster's objects.
type Evaluation struct {
	Status goharborv1.ClusterStatus `json:"status"`
	// ApplyHarbor: database, cache and storage are ready.
	ApplyHarbor bool                                `json:"applyHarbor"`
	Conditions  []goharborv1.HarborClusterCondition `json:"conditions"`
	// MakeBucket: the storage only needs its BucketJob.
	MakeBucket bool `json:"-"`
}

// Evaluate evaluates the services of a HarborCluster by their objects, and by the history in its status.
func Evaluate(hc *goharborv1.HarborCluster, observed Observed, now time.Time) Evaluation {
	made := func(kind goharborv1.ConditionType, created *unstructured.Unstructured, seen observation) goharborv1.HarborClusterCondition {
		if failure, is := observed.Failures[kind]; is {
			seen = observation{state: failed, reason: failure.Reason, message: failure.Message}
		}
		if why, is := observed.Unapplied[kind]; is && seen.state == ready {
			seen = observation{state: unapplied, reason: ReasonNotApplied, message: notApplied + why}
		}
		return newJudge(hc, kind, now).dependency(created, seen)
	}
	conditions := []goharborv1.HarborClusterCondition{
		made(goharborv1.DatabaseReady, observed.Postgresql, observeDatabase(hc, observed)),
		made(goharborv1.CacheReady, observed.RedisFailover, observeCache(hc, observed)),
		made(goharborv1.StorageReady, observed.Tenant, observeStorage(hc, observed)),
	}
	apply := !slices.ContainsFunc(conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Status != metav1.ConditionTrue })
	// Harbor is observed even if it may not be applied now.
	conditions = append(conditions, newJudge(hc, goharborv1.ServiceReady, now).service(observed))
	return Evaluation{
		Status: health.Overall(hc.Generation, conditions), ApplyHarbor: apply, Conditions: conditions,
		MakeBucket: wantsBucket(hc, observed) && observed.Unapplied[goharborv1.StorageReady] == "" &&
			observeTenant(hc, observed.Tenant).state == ready,
	}
}

const notApplied = "not applied yet: "

// judge computes the condition of one service.
type judge struct {
	hc     *goharborv1.HarborCluster
	kind   goharborv1.ConditionType
	now    time.Time
	before goharborv1.HarborClusterCondition
}

func newJudge(hc *goharborv1.HarborCluster, kind goharborv1.ConditionType, now time.Time) judge {
	j := judge{hc: hc, kind: kind, now: now}
	for _, condition := range hc.Status.Conditions {
		if condition.Type == kind {
			j.before = condition
		}
	}
	return j
}

// wasReady: the service was ready once, by the status. The Harbor operator may have written the status, and it records only the last time.
func (j judge) wasReady() bool {
	return j.before.FirstReadyTime != nil || j.before.Status == metav1.ConditionTrue
}

// dependency evaluates database, cache or storage. A service that is not ready yet is Unknown until it takes too long; one that was ready before and
// is not now is not ready.
func (j judge) dependency(object *unstructured.Unstructured, seen observation) goharborv1.HarborClusterCondition {
	switch {
	case seen.state == ready:
		return j.condition(metav1.ConditionTrue, seen.reason, seen.message)
	case seen.state == unapplied:
		return j.condition(metav1.ConditionUnknown, seen.reason, seen.message)
	case seen.state == failed:
		return j.condition(metav1.ConditionFalse, seen.reason, seen.message)
	case j.wasReady():
		return j.condition(metav1.ConditionFalse, seen.reason, "was ready, and is not now: "+seen.message)
	case j.tooLong(object):
		return j.condition(metav1.ConditionFalse, ReasonProgressDeadlineExceeded, fmt.Sprintf("not ready after %s: %s", j.deadline(), seen.message))
	}
	return j.condition(metav1.ConditionUnknown, seen.reason, seen.message)
}

// defaultDeadline is that of progressDeadlineSeconds.
const defaultDeadline = 15 * time.Minute

func (j judge) deadline() time.Duration {
	return time.Duration(or(j.hc.Spec.ProgressDeadlineSeconds, int64(defaultDeadline/time.Second))) * time.Second
}

// tooLong: the service has taken longer than allowed to become ready.
func (j judge) tooLong(object *unstructured.Unstructured) bool {
	limit := j.limit(object)
	return j.timedOut(object) || limit != nil && !j.now.Before(*limit)
}

// timedOut: the status already reports that the service takes too long. It stays so until it is ready, or starts again because the HarborCluster was
// changed or the object created.
func (j judge) timedOut(object *unstructured.Unstructured) bool {
	if j.before.Reason != ReasonProgressDeadlineExceeded || j.before.ObservedGeneration != j.hc.Generation || j.before.LastTransitionTime == nil {
		return false
	}
	return object == nil || !object.GetCreationTimestamp().After(j.before.LastTransitionTime.Time)
}

// limit is until when the service may take to become ready; nil: its start is unknown. It started when its condition became Unknown; without that,
// when its object was created; else, when the HarborCluster was.
func (j judge) limit(object *unstructured.Unstructured) *time.Time {
	since := j.hc.CreationTimestamp
	if object != nil {
		since = object.GetCreationTimestamp()
	}
	if j.before.Status == metav1.ConditionUnknown && j.before.LastTransitionTime != nil {
		since = *j.before.LastTransitionTime
	}
	if since.IsZero() {
		return nil
	}
	limit := since.Add(j.deadline())
	return &limit
}

// RecheckAt is when the first of the starting services takes too long; nil: time changes nothing.
func RecheckAt(hc *goharborv1.HarborCluster, observed Observed, evaluation Evaluation, now time.Time) *time.Time {
	objects := map[goharborv1.ConditionType]*unstructured.Unstructured{
		goharborv1.DatabaseReady: observed.Postgresql, goharborv1.CacheReady: observed.RedisFailover, goharborv1.StorageReady: observed.Tenant,
	}
	var next *time.Time
	for _, condition := range evaluation.Conditions {
		if condition.Status != metav1.ConditionUnknown || condition.Type == goharborv1.ServiceReady {
			continue
		}
		next = earlier(next, newJudge(hc, condition.Type, now).limit(objects[condition.Type]))
	}
	return next
}

// earlier returns the earlier of two times, where nil means never.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// condition returns the condition, with the times of its last transition and of its first readiness.
func (j judge) condition(status metav1.ConditionStatus, reason, message string) goharborv1.HarborClusterCondition {
	now := metav1.NewTime(j.now)
	made := goharborv1.HarborClusterCondition{
		Type: j.kind, Status: status, Reason: reason, Message: message, LastTransitionTime: &now, ObservedGeneration: j.hc.Generation,
		FirstReadyTime: j.before.FirstReadyTime,
	}
	if j.before.Status == status && j.before.LastTransitionTime != nil {
		made.LastTransitionTime = j.before.LastTransitionTime
	}
	switch {
	case made.FirstReadyTime != nil:
	case j.before.Status == metav1.ConditionTrue && j.before.LastTransitionTime != nil:
		made.FirstReadyTime = j.before.LastTransitionTime
	case j.wasReady() || status == metav1.ConditionTrue:
		made.FirstReadyTime = &now
	}
	return made
}

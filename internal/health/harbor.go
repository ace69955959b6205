package health

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

var harborKind = goharborv1.GroupVersion.WithKind("HarborCluster")

// HarborHealth is the health of a HarborCluster.
type HarborHealth struct {
	Status     goharborv1.ClusterStatus
	Conditions []goharborv1.HarborClusterCondition
	// Pending says why its services do not match its spec yet; empty: they match, or it is unknown.
	Pending string
}

// evaluateHarbor passes a HarborCluster that is known not to be unhealthy: healthy, or creating while every service that is not ready starts for the
// first time, because work elsewhere does not affect a service that starts. It does not pass a service that was ready before, or whose object was not
// observed since its change.
func evaluateHarbor(check drydockv1.HarborClusterCheck, objects Objects) (Result, error) {
	name := check.Namespace + "/" + check.Name
	harbor, err := objects.Harbor(check.Namespace, check.Name)
	switch {
	case errors.Is(err, ErrNotServed):
		return Result{Reason: ReasonKindNotServed, Message: "the cluster does not serve HarborClusters"}, nil
	case errors.Is(err, ErrForbidden):
		return Result{Reason: ReasonForbidden, Message: fmt.Sprintf("may not read what HarborCluster %s is judged by: apply deploy/rbac/harbor.yaml", name)}, nil
	case err != nil:
		return Result{}, err
	case harbor == nil:
		return Result{Reason: ReasonNothingFound, Message: "found no HarborCluster " + name}, nil
	case harbor.Pending != "":
		return judged("", []drydockv1.Blocker{{
			Kind: harborKind.Kind, Namespace: check.Namespace, Name: check.Name, Reason: ReasonHarborUnknown, Message: harbor.Pending,
		}}), nil
	}
	return judged(fmt.Sprintf("HarborCluster %s is %s", name, harbor.Status), harborBlockers(check, harbor)), nil
}

// harborBlockers are the services that are not ready, or whose state is unknown.
func harborBlockers(check drydockv1.HarborClusterCheck, harbor *HarborHealth) []drydockv1.Blocker {
	var blockers []drydockv1.Blocker
	for _, kind := range counting() {
		condition := goharborv1.HarborClusterCondition{Type: kind, Status: metav1.ConditionUnknown, Reason: ReasonConditionMissing}
		if i := slices.IndexFunc(harbor.Conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == kind }); i >= 0 {
			condition = harbor.Conditions[i]
		}
		onItsWay := condition.FirstReadyTime == nil && condition.Reason != ReasonGenerationNotObserved && condition.Reason != ReasonConditionMissing
		reason := ReasonHarborUnknown
		switch {
		case condition.Status == metav1.ConditionTrue, condition.Status == metav1.ConditionUnknown && onItsWay:
			continue
		case condition.Status == metav1.ConditionFalse:
			reason = ReasonHarborUnhealthy
		}
		message := fmt.Sprintf("condition %s is %s%s", condition.Type, condition.Status, because(condition.Reason, condition.Message))
		blockers = append(blockers, drydockv1.Blocker{
			Kind: harborKind.Kind, Namespace: check.Namespace, Name: check.Name, Reason: reason, Message: message, Since: condition.LastTransitionTime,
		})
	}
	return blockers
}

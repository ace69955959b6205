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

// HarborStanding is how a HarborCluster is.
type HarborStanding struct {
	Status     goharborv1.ClusterStatus
	Conditions []goharborv1.HarborClusterCondition
	// Pending says why its services, as they are, are not those that it asks for now; empty: they are, or nobody knows better.
	Pending string
}

// evaluateHarbor lets what is not unhealthy pass, if that is known: healthy, and creating as long as every service that is not ready is on its way for the
// first time, since who comes up is not harmed by work that others are not harmed by. Of a service that was ready, or whose object has not been looked at since it
// was changed, nobody knows that it is not unhealthy.
func evaluateHarbor(check drydockv1.HarborClusterCheck, objects Objects) (Result, error) {
	name := check.Namespace + "/" + check.Name
	standing, err := objects.Harbor(check.Namespace, check.Name)
	switch {
	case errors.Is(err, ErrNotServed):
		return Result{Reason: ReasonKindNotServed, Message: "the cluster does not serve HarborClusters"}, nil
	case errors.Is(err, ErrForbidden):
		return Result{Reason: ReasonForbidden, Message: fmt.Sprintf("may not read what HarborCluster %s is judged by: apply deploy/rbac/harbor.yaml", name)}, nil
	case err != nil:
		return Result{}, err
	case standing == nil:
		return Result{Reason: ReasonNothingFound, Message: "found no HarborCluster " + name}, nil
	case standing.Pending != "":
		return judged("", []drydockv1.Blocker{{
			Kind: harborKind.Kind, Namespace: check.Namespace, Name: check.Name, Reason: ReasonHarborUnknown, Message: standing.Pending,
		}}), nil
	}
	return judged(fmt.Sprintf("HarborCluster %s is %s", name, standing.Status), harborBlockers(check, standing)), nil
}

// harborBlockers are the services that are not ready, and those of which that is not known.
func harborBlockers(check drydockv1.HarborClusterCheck, standing *HarborStanding) []drydockv1.Blocker {
	var blockers []drydockv1.Blocker
	for _, kind := range counting() {
		condition := goharborv1.HarborClusterCondition{Type: kind, Status: metav1.ConditionUnknown, Reason: ReasonConditionMissing}
		if i := slices.IndexFunc(standing.Conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == kind }); i >= 0 {
			condition = standing.Conditions[i]
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

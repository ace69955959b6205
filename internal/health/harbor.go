package health

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

var harborKind = goharborv1.GroupVersion.WithKind("HarborCluster")

// HarborStanding is how a HarborCluster is.
type HarborStanding struct {
	Status     goharborv1.ClusterStatus
	Conditions []goharborv1.HarborClusterCondition
	// Unseen says that Drydock keeps it and has not looked at it yet as it is wanted now; empty: it has, or does not keep it.
	Unseen string
}

// evaluateHarbor lets healthy and creating pass: who comes up is not harmed by work that others are not harmed by.
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
	case standing.Unseen != "":
		return judged("", []drydockv1.Blocker{{
			Kind: harborKind.Kind, Namespace: check.Namespace, Name: check.Name, Reason: ReasonHarborUnhealthy, Message: standing.Unseen,
		}}), nil
	case standing.Status != goharborv1.StatusUnhealthy:
		return Result{Healthy: true, Message: fmt.Sprintf("HarborCluster %s is %s", name, standing.Status)}, nil
	}
	var blockers []drydockv1.Blocker
	for _, condition := range standing.Conditions {
		if condition.Status == metav1.ConditionFalse {
			message := fmt.Sprintf("condition %s is False%s", condition.Type, because(condition.Reason, condition.Message))
			blockers = append(blockers, drydockv1.Blocker{
				Kind: harborKind.Kind, Namespace: check.Namespace, Name: check.Name, Reason: ReasonHarborUnhealthy, Message: message, Since: condition.LastTransitionTime,
			})
		}
	}
	return judged("", blockers), nil
}

package main

import (
	"context"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/operators"
)

// runningOperators returns the original operators that still run.
func runningOperators(ctx context.Context, config *rest.Config) ([]operators.Operator, error) {
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return operators.Running(ctx, cluster)
}

// operatorsFinding reports the original operators that still run. Drydock's controllers leave their kinds to them.
func operatorsFinding(at place, running []operators.Operator, err error) finding {
	check := at.String() + ": operators"
	switch {
	case err != nil:
		return warning(check, "unknown: "+err.Error(), "give the user of this context the right to list ClusterRoles, ClusterRoleBindings and Deployments")
	case len(running) == 0:
		return well(check, "none runs for ClusterGroupUpgrades, NodeMaintenances or Maintenances")
	}
	var texts []string
	for _, operator := range running {
		texts = append(texts, operator.String())
	}
	return well(check, "still running, and objects of these kinds in the cluster are left to them: "+strings.Join(texts, "; "))
}

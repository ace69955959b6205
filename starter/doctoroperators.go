package main

import (
	"context"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/operators"
)

// examineOperators reports the original operators that still run. Drydock's controllers leave their kinds to them.
func examineOperators(ctx context.Context, config *rest.Config, at place) finding {
	check := at.String() + ": operators"
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return ill(check, "correct the kubeconfig", err)
	}
	running, err := operators.Running(ctx, cluster)
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

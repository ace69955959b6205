package activitykit

import (
	"context"
	"errors"
	"fmt"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// MaintenanceConfig reads the budgets of a cluster.
func MaintenanceConfig(ctx context.Context, cluster *kube.Cluster) (maintenancev1.MaintenanceOperatorConfigSpec, error) {
	config, err := snapshot.MaintenanceConfig(ctx, cluster.Cache, cluster.MaintenanceConfig)
	if several, ok := errors.AsType[snapshot.SeveralConfigs](err); ok {
		err = temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v", cluster.Name, several), several)
	}
	return config, Explain(cluster, "read the budgets", err)
}

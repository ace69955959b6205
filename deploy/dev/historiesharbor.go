package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/temporal"
)

// recordHarbor creates a Harbor with a service that is slow, fails and recovers, deletes the Harbor, and saves the history.
func (r *recorder) recordHarbor(ctx context.Context) error {
	const namespace, tenant = "registry", "minio-main"
	spoke := r.Spokes[0]
	simulated, err := r.SimulateHarborOperators(ctx, spoke)
	if err != nil {
		return err
	}
	defer simulated.Stop()
	if err := r.AddHarborNamespace(ctx, spoke, namespace); err != nil {
		return err
	}
	simulated.Simulate(operators.Tenant, namespace, tenant, operators.Behaviour{After: -1})
	if err := r.Run(ctx, io.Discard, "harbor", "apply", "-f", filepath.Join("docs", "examples", "harbor-cluster.yaml"), "--cluster", spoke.Name); err != nil {
		return err
	}
	for _, step := range []struct {
		becomes goharborv1.ClusterStatus
		then    operators.Behaviour
	}{
		{goharborv1.StatusCreating, operators.Behaviour{}},
		{goharborv1.StatusHealthy, operators.Behaviour{Down: true}},
		{goharborv1.StatusUnhealthy, operators.Behaviour{}},
		{goharborv1.StatusHealthy, operators.Behaviour{}},
	} {
		if err := r.AwaitHarbor(ctx, spoke, namespace, "main", string(step.becomes), func(s goharborv1.HarborClusterStatus) bool { return s.Status == step.becomes }); err != nil {
			return err
		}
		simulated.Simulate(operators.Tenant, namespace, tenant, step.then)
	}
	return errors.Join(
		r.Run(ctx, io.Discard, "harbor", "delete", "main", "-n", namespace, "--cluster", spoke.Name, "--wait"),
		r.save(ctx, "harbor", temporal.HarborClusterID(spoke.Name, namespace, "main")),
	)
}

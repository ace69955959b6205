package fleet

import (
	"context"
	"io"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/devstack"
)

const (
	workloads  = "deploy/dev/manifests/spoke.yaml"
	lockPolicy = "docs/examples/workload-lock-policy.yaml"
)

// DeployDemo deploys the workloads of the demo on a spoke (Deployments with budgets, and a vRouter on every worker), and starts a lock controller for
// the vRouter. It returns when all pods run and all locks are active.
func (f *Fleet) DeployDemo(ctx context.Context, spoke *devstack.Cluster) error {
	if err := spoke.Apply(ctx, workloads); err != nil {
		return err
	}
	if err := f.AwaitWorkloads(ctx, spoke); err != nil {
		return err
	}
	policy := filepath.Join(f.root, lockPolicy)
	if err := f.Run(ctx, io.Discard, "lock", "controller", "start", "--cluster", spoke.Name, "-f", policy); err != nil {
		return err
	}
	return f.AwaitLocks(ctx, spoke, f.options.Workers)
}

// DeployDemoEverywhere calls DeployDemo for every spoke.
func (f *Fleet) DeployDemoEverywhere(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, spoke := range f.Spokes {
		group.Go(func() error { return f.DeployDemo(ctx, spoke) })
	}
	return group.Wait()
}

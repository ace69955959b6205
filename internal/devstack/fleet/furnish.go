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

// Furnish puts the demo's workloads on a spoke (Deployments behind budgets, and a vRouter on every worker) and starts a controller for the
// locks of the vRouter. It returns when all pods run and all locks are active.
func (f *Fleet) Furnish(ctx context.Context, spoke *devstack.Cluster) error {
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

// FurnishAll calls Furnish for every spoke.
func (f *Fleet) FurnishAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, spoke := range f.Spokes {
		group.Go(func() error { return f.Furnish(ctx, spoke) })
	}
	return group.Wait()
}

package activities

import (
	"context"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// Locks asks workloads to let go of clusters and nodes: the initiator's side.
type Locks struct{}

// ClusterLockInput says which cluster, on whose behalf.
type ClusterLockInput struct {
	Cluster  string      `json:"cluster"`
	Owner    string      `json:"owner"`
	Scope    lcmv1.Scope `json:"scope,omitempty"`
	Deadline *time.Time  `json:"deadline,omitempty"`
}

// NodeLockInput says which node, on whose behalf.
type NodeLockInput struct {
	NodeRef
	Scope    lcmv1.Scope `json:"scope,omitempty"`
	Deadline *time.Time  `json:"deadline,omitempty"`
}

// RequestClusterMaintenance creates our ClusterMaintenanceRequest. It returns false when the cluster does not serve workload locks.
func (l *Locks) RequestClusterMaintenance(ctx context.Context, in ClusterLockInput) (bool, error) {
	return false, errNotBuilt
}

// AwaitClusterLocks waits until every ClusterWorkloadLock is inactive. Errors: LockTimedOut (with blockers).
func (l *Locks) AwaitClusterLocks(ctx context.Context, in ClusterLockInput) error { return errNotBuilt }

// WithdrawClusterMaintenance deletes our ClusterMaintenanceRequest, if there is one.
func (l *Locks) WithdrawClusterMaintenance(ctx context.Context, in ClusterLockInput) error {
	return errNotBuilt
}

// RequestNodeMaintenance creates our NodeMaintenanceRequest. It returns false when the cluster does not serve workload locks.
// Errors: NodeGone.
func (l *Locks) RequestNodeMaintenance(ctx context.Context, in NodeLockInput) (bool, error) {
	return false, errNotBuilt
}

// AwaitNodeLocks waits until every NodeWorkloadLock of the node is inactive. Errors: LockTimedOut (with blockers), NodeGone.
func (l *Locks) AwaitNodeLocks(ctx context.Context, in NodeLockInput) error { return errNotBuilt }

// WithdrawNodeMaintenance deletes our NodeMaintenanceRequest, if there is one.
func (l *Locks) WithdrawNodeMaintenance(ctx context.Context, in NodeLockInput) error {
	return errNotBuilt
}

// AwaitNodeLocksActive waits until every NodeWorkloadLock of the node is active again, or until the deadline, and returns those that
// are not. While someone else's request for the node stands, it waits for nothing.
func (l *Locks) AwaitNodeLocksActive(ctx context.Context, in NodeLockInput) ([]drydockv1.Blocker, error) {
	return nil, errNotBuilt
}

package policy

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/workflows/kit"
)

// A rollout decides when work on a cluster starts and when it is cancelled. Its remediator does the work.

// Remediator remediates the clusters of a rollout. Each kind of remediation has one.
type Remediator interface {
	// Start starts the work on clusters. It does not wait.
	Start(clusters []*ClusterWork)
	// FindComplete returns the timed-out clusters that are complete now.
	FindComplete(ctx workflow.Context, clusters []string) ([]string, error)
	// Relapses finds complete clusters that need work again; nil: the remediation cannot tell.
	Relapses() Relapses
	// MaxConcurrency is the maximum number of active clusters of a run, and MaxStartsPerTask of those that one workflow task starts.
	MaxConcurrency() int
	MaxStartsPerTask() int
	// Settle waits until nothing is in progress for clusters whose work has ended.
	Settle(ctx workflow.Context)
	// CleanUp removes the objects of the rollout as a whole. No cluster is active.
	CleanUp(ctx workflow.Context, succeeded bool)
	// Prepared is the state for the next run after continue-as-new; nil: none.
	Prepared() *PreparedItems
}

// PreparedItems are the policies or manifest works of a rollout, as they were prepared.
type PreparedItems struct {
	// Soaks has for each item how long a cluster must stay compliant with it.
	Soaks []time.Duration `json:"soaks"`
	// Pins has for each item its generation.
	Pins []string `json:"pins,omitempty"`
	// Specified has for each policy when its spec was last changed.
	Specified []time.Time `json:"specified,omitempty"`
	// Sources has for each policy the ConfigMaps that its copy needs a copy of.
	Sources [][]string `json:"sources,omitempty"`
	// Subscriptions has for each policy the Subscriptions that it requires; empty: no policy requires any.
	Subscriptions [][]installplans.Requested `json:"subscriptions,omitempty"`
}

// ClusterWork is the work of a remediator on one cluster.
type ClusterWork struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Batch is the number of its batch in the plan, counted from 1.
	Batch int32
	// Ctx is cancelled to cancel the work. It then ends in the state Cancelled, unless it was complete already.
	Ctx workflow.Context
	// Ended must be called once, after the work has ended and is cleaned up.
	Ended func(ctx workflow.Context, result ranv1.ClusterStatus)
}

// Rollout is the rollout of a remediator of policies or manifest works.
type Rollout interface {
	// Request is the object with its spec, Status the status of the rollout, and Cluster that of one cluster. All are read-only.
	Request() *ranv1.ClusterGroupUpgrade
	Status() *ranv1.ClusterGroupUpgradeStatus
	Cluster(name string) *ranv1.ClusterStatus
	// NotBound are the indexes of the policies that were not bound to a cluster when the plan was made.
	NotBound(cluster string) []int
	// Hold is the hold on a cluster, and FirstClose the time at which the first window of several clusters closes; nil: none.
	Hold(cluster string) *drydockv1.Hold
	FirstClose(clusters []string) *time.Time
	// Retrier retries activities on the hub.
	Retrier() kit.Retrier
	// SetObjectNames records the names of the objects on the hub.
	SetObjectNames(names map[string]string)
	// Event records an Event on the object of the rollout.
	Event(ctx workflow.Context, reason, message string)
	// Note records a message for the operator.
	Note(text string)
	// ClustersProgressed records the state of running clusters.
	ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus)
	// ShowOnce calls change, and then shows all its changes together. change must not block.
	ShowOnce(ctx workflow.Context, change func())
}

// HubLimit limits how long a rollout retries to clean up on the hub, and to save its final status there.
const HubLimit = 10 * time.Minute

// MessageClusterDeleted is the message of a cluster whose ManagedCluster was deleted.
const MessageClusterDeleted = "its ManagedCluster is no longer on the hub"

// FailedCluster is the result of a cluster whose work failed.
func FailedCluster(err error) ranv1.ClusterStatus {
	failure := kit.FailureOf(err)
	return ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: failure.Reason, Message: failure.Message}
}

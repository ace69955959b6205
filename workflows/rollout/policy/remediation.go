package policy

import (
	"time"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

// What a rollout and those who remediate its clusters know of each other: the rollout decides when work on a cluster begins and is withdrawn,
// the remediator does the work.

// Remediator carries out the remediation of a rollout on clusters. Each kind of remediation has one.
type Remediator interface {
	// Start begins the work on clusters and returns at once.
	Start(clusters []*ClusterWork)
	// FindComplete returns those of the timed-out clusters that are complete by now.
	FindComplete(ctx workflow.Context, clusters []string) ([]string, error)
	// MaxConcurrency is how many clusters one run can have running, and MaxStartsPerTask how many it can start in one workflow task.
	MaxConcurrency() int
	MaxStartsPerTask() int
	// Settle returns when nothing is still in progress for clusters whose work has ended.
	Settle(ctx workflow.Context)
	// CleanUp removes what was made for the rollout as a whole. No cluster is running.
	CleanUp(ctx workflow.Context, succeeded bool)
	// Prepared is what the next run of the workflow must know to continue; nil: nothing.
	Prepared() *PreparedItems
}

// PreparedItems is what a remediation with policies or manifest works found when it prepared them.
type PreparedItems struct {
	// Soaks is for each item how long a cluster must stay compliant with it.
	Soaks []time.Duration `json:"soaks"`
	// Pins identify for each item what it was then.
	Pins []string `json:"pins,omitempty"`
}

// ClusterWork is the work of a remediator on one cluster.
type ClusterWork struct {
	// Cluster is the name.
	Cluster string
	// Batch of the plan that the cluster belongs to, counted from 1.
	Batch int32
	// Ctx is cancelled to withdraw the cluster. Its work then ends in state cancelled, unless it was complete at that moment.
	Ctx workflow.Context
	// Ended must be called once, when the work has ended and what it leaves is cleaned up.
	Ended func(ctx workflow.Context, result ranv1.ClusterStatus)
}

// Rollout is what a remediator of policies or manifest works needs of its rollout.
type Rollout interface {
	// Request is the object with its spec, Status the status of the rollout, Cluster that of one cluster. All are read only.
	Request() *ranv1.ClusterGroupUpgrade
	Status() *ranv1.ClusterGroupUpgradeStatus
	Cluster(name string) *ranv1.ClusterStatus
	// NotBound are the policies, by number, that were not bound to a cluster when it was planned.
	NotBound(cluster string) []int
	// Hold is what prevents new work on a cluster, and Closes when the first window of several clusters closes; nil: nothing does.
	Hold(cluster string) *drydockv1.Hold
	FirstClose(clusters []string) *time.Time
	// Retrier retries activities on the hub.
	Retrier() kit.Retrier
	// SetObjectNames records the names of the objects that were made on the hub.
	SetObjectNames(names map[string]string)
	// Note records something that a person should know.
	Note(text string)
	// ClustersProgressed records the state of running clusters.
	ClustersProgressed(ctx workflow.Context, clusters []ranv1.ClusterStatus)
	// ShowOnce shows the changes to many clusters once.
	ShowOnce(ctx workflow.Context, change func())
}

// HubLimit is how long a rollout retries to clean up on the hub, and to save its final status there, before it ends without.
const HubLimit = 10 * time.Minute

// MessageClusterDeleted is the message of a cluster that is no longer a ManagedCluster.
const MessageClusterDeleted = "its ManagedCluster is no longer on the hub"

// FailedCluster is the result of a cluster whose work failed.
func FailedCluster(err error) ranv1.ClusterStatus {
	failure := kit.FailureOf(err)
	return ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: failure.Reason, Message: failure.Message}
}

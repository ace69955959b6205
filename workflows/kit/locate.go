package kit

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/temporal"
)

// Locate finds the task queue of the workers that have a cluster.
func Locate(ctx workflow.Context, hub Retrier, cluster string, taskQueue *string) error {
	return hub.Run(ctx, "locate "+cluster, (&activities.Rollouts{}).LocateCluster, cluster, taskQueue)
}

// NewRetrier returns a retrier for the activities of a cluster. The run remembers the task queue, since the cluster may move to another worker.
func NewRetrier(cluster string, taskQueue *string, waiting func(ctx workflow.Context, reason, message string)) Retrier {
	return Retrier{Located: taskQueue, cluster: cluster, Report: waiting}
}

// locateAgain locates the cluster again after a round that failed because no worker on the task queue has it. If that fails too, the task queue stays:
// the next round may find a worker that has the cluster.
func (r Retrier) locateAgain(ctx workflow.Context, err error) {
	lost := temporal.ErrorType(err) == temporal.ErrClusterUnknown || ReasonOf(err) == reasonNoWorker
	if r.Located == nil || !lost || *r.Located != r.TaskQueue { // another coroutine has located it meanwhile
		return
	}
	oneRound := Retrier{TaskQueue: temporal.TaskQueue, Report: func(workflow.Context, string, string) {}, Deadline: time.Unix(0, 0)}
	var found string
	if Locate(ctx, oneRound, r.cluster, &found) == nil {
		*r.Located = found
	}
}

package kit

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/temporal"
)

// Locate finds the task queue of the workers that serve a cluster.
func Locate(ctx workflow.Context, hub Retrier, cluster string, taskQueue *string) error {
	return hub.Run(ctx, "locate "+cluster, (&rollouts.Activities{}).LocateCluster, cluster, taskQueue)
}

// HubRetrier returns a retrier for activities on the hub.
func HubRetrier(report Report) Retrier {
	return Retrier{TaskQueue: temporal.TaskQueue, Report: report}
}

// RequestRetrier returns a retrier for the acceptance of requests, by the workers of the hub.
func RequestRetrier(report Report) Retrier {
	return Retrier{TaskQueue: temporal.RequestTaskQueue, Report: report}
}

// ClusterRetrier returns a retrier for activities on a cluster. It updates the task queue if the cluster moves to another worker.
func ClusterRetrier(cluster string, taskQueue *string, report Report) Retrier {
	return Retrier{Located: taskQueue, cluster: cluster, Report: report}
}

// locateAgain locates the cluster again after a round that failed because no worker on the task queue serves it. If that also fails, the task queue
// stays the same: the next round may find a worker.
func (r Retrier) locateAgain(ctx workflow.Context, err error) {
	lost := temporal.ErrorType(err) == temporal.ErrClusterUnknown || ReasonOf(err) == reasonNoWorker
	if r.Located == nil || !lost || *r.Located != r.TaskQueue { // another coroutine has located it already
		return
	}
	var found string
	if Locate(ctx, HubRetrier(nil).Once(), r.cluster, &found) == nil {
		*r.Located = found
	}
}

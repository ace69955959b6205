package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/temporal"
)

// locate finds the task queue of the workers that have a cluster.
func locate(ctx workflow.Context, hub insistence, cluster string, taskQueue *string) error {
	return hub.effect(ctx, "locate "+cluster, (&activities.Rollouts{}).LocateCluster, cluster, taskQueue)
}

// onCluster returns an insistence for the activities of a cluster. The run remembers the task queue, since the cluster may move to another worker.
func onCluster(cluster string, taskQueue *string, waiting func(ctx workflow.Context, reason, message string)) insistence {
	return insistence{home: taskQueue, cluster: cluster, waiting: waiting}
}

// locateAnew locates the cluster again after a round that failed because no worker on the task queue has it. If that fails too, the task queue stays:
// the next round may find a worker that has the cluster.
func (i insistence) locateAnew(ctx workflow.Context, err error) {
	lost := temporal.ErrorType(err) == temporal.ErrClusterUnknown || reasonOf(err) == reasonNoWorker
	if i.home == nil || !lost || *i.home != i.taskQueue { // another coroutine has located it meanwhile
		return
	}
	oneRound := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}, giveUpAt: time.Unix(0, 0)}
	var found string
	if locate(ctx, oneRound, i.cluster, &found) == nil {
		*i.home = found
	}
}

package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/temporal"
)

// locate finds who works on a cluster, and keeps the task queue of those.
func locate(ctx workflow.Context, hub insistence, cluster string, taskQueue *string) error {
	return hub.effect(ctx, "locate "+cluster, (&activities.Rollouts{}).LocateCluster, cluster, taskQueue)
}

// onCluster returns the insistence on activities of a cluster, of which the run keeps the task queue: the cluster may move to another worker.
func onCluster(cluster string, taskQueue *string, waiting func(ctx workflow.Context, reason, message string)) insistence {
	return insistence{home: taskQueue, cluster: cluster, waiting: waiting}
}

// locateAnew finds who works on the cluster now, after a round that failed since nobody who does was there. If that cannot be found out either, everything
// stays as it is: the next round may meet a worker that has the cluster.
func (i insistence) locateAnew(ctx workflow.Context, err error) {
	lost := temporal.ErrorType(err) == temporal.ErrClusterUnknown || reasonOf(err) == reasonNoWorker
	if i.home == nil || !lost || *i.home != i.taskQueue { // another part of the run has located it meanwhile
		return
	}
	oneRound := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}, giveUpAt: time.Unix(0, 0)}
	var found string
	if locate(ctx, oneRound, i.cluster, &found) == nil {
		*i.home = found
	}
}

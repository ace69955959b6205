package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/proto"

	"drydock.dev/drydock/internal/temporal"
)

// pollerMemory is how recently a live worker must have polled. A worker polls at least once a minute.
const pollerMemory = 70 * time.Second

// examineWorkers checks that workers poll the task queues for workflow and activity tasks, and that Temporal dispatches tasks to them.
func (s *server) examineWorkers(ctx context.Context) finding {
	const check = "worker"
	identities := map[string]bool{}
	for _, polled := range polledByWorkers() {
		queue, err := s.DescribeTaskQueue(ctx, polled.queue, polled.tasks)
		if err != nil {
			return ill(check, "see the message", err)
		}
		current := queue.GetVersioningInfo().GetCurrentDeploymentVersion()
		polls := 0
		idle := map[string]*deploymentpb.WorkerDeploymentVersion{}
		for _, poller := range queue.GetPollers() {
			if time.Since(poller.GetLastAccessTime().AsTime()) >= pollerMemory {
				continue
			}
			if version := versionOf(poller.GetDeploymentOptions()); !proto.Equal(version, current) {
				idle[describeVersion(version)] = version
				continue
			}
			polls++
			identities[poller.GetIdentity()] = true
		}
		tasks := strings.ToLower(polled.tasks.String())
		switch {
		case polls > 0:
		case len(idle) > 0:
			return finding{
				Check: check, Detail: fmt.Sprintf("no worker of the current version (%s) polls task queue %s for %s tasks, only %s", describeVersion(current),
					polled.queue, tasks, strings.Join(slices.Sorted(maps.Keys(idle)), ", ")),
				Fix: makeCurrent(idle),
			}
		default:
			return finding{
				Check: check, Detail: fmt.Sprintf("no worker polls task queue %s for %s tasks", polled.queue, tasks),
				Fix: "start drydock-worker",
			}
		}
	}
	return workersFinding(check, slices.Sorted(maps.Keys(identities)))
}

// polled are tasks of one type in a task queue.
type polled struct {
	queue string
	tasks enumspb.TaskQueueType
}

// polledByWorkers are the tasks for which each worker polls that runs workflows.
func polledByWorkers() []polled {
	return []polled{
		{temporal.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW},
		{temporal.TaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY},
		{temporal.RequestTaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY},
	}
}

// workersFinding says how many workers there are, and how many of them run controllers. Which kinds these leave to other operators is a finding of each cluster.
func workersFinding(check string, identities []string) finding {
	objects, annotations := 0, 0
	for _, identity := range identities {
		of, ofNodes := temporal.HasControllers(identity)
		if of {
			objects++
		}
		if ofNodes {
			annotations++
		}
	}
	detail := fmt.Sprintf("%s on task queue %s", plural(len(identities), "worker"), temporal.TaskQueue)
	if objects == 0 {
		return warning(check, detail+"; none runs controllers, so objects in the clusters start nothing", "start drydock-worker with --controllers, unless work is only started with drydock")
	}
	detail += fmt.Sprintf(", %d with controllers for objects", objects)
	if annotations > 0 {
		detail += fmt.Sprintf(", %d for annotations of nodes", annotations)
	}
	return well(check, detail)
}

// versionOf is the deployment version of a worker; nil without versioning.
func versionOf(options *deploymentpb.WorkerDeploymentOptions) *deploymentpb.WorkerDeploymentVersion {
	if options.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
		return nil
	}
	return &deploymentpb.WorkerDeploymentVersion{DeploymentName: options.GetDeploymentName(), BuildId: options.GetBuildId()}
}

func describeVersion(version *deploymentpb.WorkerDeploymentVersion) string {
	if version == nil {
		return "workers without --build-id"
	}
	return version.GetDeploymentName() + "/" + version.GetBuildId()
}

// makeCurrent is the command that makes the version of idle workers current.
func makeCurrent(idle map[string]*deploymentpb.WorkerDeploymentVersion) string {
	for _, name := range slices.Sorted(maps.Keys(idle)) {
		if version := idle[name]; version != nil {
			return fmt.Sprintf("`temporal worker deployment set-current-version --deployment-name %s --build-id %s`, or start drydock-worker of the current version",
				version.GetDeploymentName(), version.GetBuildId())
		}
	}
	return "start drydock-worker with the current version's --deployment and --build-id"
}

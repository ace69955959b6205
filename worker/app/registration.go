package app

import (
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/harbor"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/activities/installplans"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/lockcontroller"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/manifestworks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/notifications"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/onboarding"
	"drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/activities/requests"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/kube"
	buildversion "drydock.dev/drydock/internal/version"
)

// registerActivities registers every activity by the name of its method: the acceptance of requests on the worker accepts, unless it is nil, all
// others on w.
func registerActivities(
	w, accepts worker.ActivityRegistry, clusters *kube.Clusters, server client.Client, drains *drain.Metrics, defaults rollouts.Defaults, releases rollouts.ReleaseFinder,
	version string,
) {
	waits := activitykit.Waits{Temporal: server, Workflows: server}
	registerNodeActivities(w, clusters, waits, drains, version)
	accepting := &requests.Activities{
		Rollouts:  &rollouts.Activities{Clusters: clusters, Waits: waits, Workflows: server, Defaults: defaults, Releases: releases},
		Objects:   &objects.Activities{Clusters: clusters, Workflows: server},
		Sweeper:   &sweeper.Activities{Clusters: clusters, Temporal: server},
		Holds:     &holds.Activities{Temporal: server, Hub: clusters},
		Nodes:     &node.Activities{Clusters: clusters, Waits: waits},
		Scheduler: &scheduler.Activities{Clusters: clusters, Temporal: server},
	}
	if accepts != nil {
		accepts.RegisterActivity(accepting)
	}
	w.RegisterActivity(accepting.Rollouts)
	w.RegisterActivity(accepting.Objects)
	w.RegisterActivity(accepting.Sweeper)
	w.RegisterActivity(accepting.Holds)
	w.RegisterActivity(accepting.Scheduler)
	w.RegisterActivity(&onboarding.Activities{Clusters: clusters, Temporal: server})
	w.RegisterActivity(&policies.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&installplans.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&views.Activities{Clusters: clusters})
	w.RegisterActivity(&manifestworks.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&windows.Activities{Temporal: server, Workflows: server, Allowed: clusters.Allowed()})
	w.RegisterActivity(&notifications.Activities{Allowed: clusters.Allowed()})
	w.RegisterActivity(&portals.Activities{Temporal: server})
}

// registerClusterActivities registers the activities of a worker that only answers the tasks of its cluster. They have no client of Temporal.
func registerClusterActivities(w worker.ActivityRegistry, clusters *kube.Clusters, drains *drain.Metrics, version string) {
	registerNodeActivities(w, clusters, activitykit.Waits{}, drains, version)
	w.RegisterActivity(&objects.Activities{Clusters: clusters})
	w.RegisterActivity(&scheduler.Activities{Clusters: clusters})
	w.RegisterActivity(&sweeper.Activities{Clusters: clusters})
}

// registerNodeActivities registers the activities that work on the nodes and objects of clusters.
func registerNodeActivities(w worker.ActivityRegistry, clusters *kube.Clusters, waits activitykit.Waits, drains *drain.Metrics, version string) {
	w.RegisterActivity(&node.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&drain.Activities{Clusters: clusters, Waits: waits, Metrics: drains})
	w.RegisterActivity(&jobs.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&health.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&locks.Activities{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&lockcontroller.Activities{Clusters: clusters})
	w.RegisterActivity(&harbor.Activities{Clusters: clusters, Waits: waits, Build: buildversion.Running(version)})
}

package main

import (
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/kube"
)

// registerActivities registers every activity by the name of its method.
func registerActivities(w worker.ActivityRegistry, clusters *kube.Clusters, server client.Client, drains *activities.DrainMetrics, images activities.PreparationImages,
	webhookSecret []byte,
) {
	waits := activities.Waits{Temporal: server, Workflows: server}
	w.RegisterActivity(&activities.Rollouts{Clusters: clusters, Waits: waits, Images: images})
	w.RegisterActivity(&activities.Onboarding{Clusters: clusters, Temporal: server})
	w.RegisterActivity(&activities.Policies{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.ManifestWorks{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Holds{Temporal: server, Hub: clusters})
	w.RegisterActivity(&activities.Windows{Temporal: server})
	w.RegisterActivity(&activities.Portals{Temporal: server})
	w.RegisterActivity(&activities.Webhooks{Secret: webhookSecret})
	w.RegisterActivity(&activities.Clusters{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Nodes{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Drains{Clusters: clusters, Waits: waits, Metrics: drains})
	w.RegisterActivity(&activities.Jobs{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Health{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Locks{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.WorkloadLocks{Clusters: clusters})
	w.RegisterActivity(&activities.Scheduler{Clusters: clusters, Temporal: server})
	w.RegisterActivity(&activities.Harbor{Clusters: clusters, Waits: waits})
	w.RegisterActivity(&activities.Sweeper{Clusters: clusters, Temporal: server})
}

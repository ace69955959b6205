package rollouts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/views"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// checkWorkers checks that the workers have the images of Jobs and the credentials that a plan needs. If not, the plan is invalid, and its condition
// lists everything that is missing.
func (r *Activities) checkWorkers(ctx context.Context, plan *Plan, cgu *ranv1.ClusterGroupUpgrade, now time.Time) error {
	r.choosePrecacheImage(plan, now)
	var reasons, problems []string
	if plan.BackupImage = r.Defaults.BackupImage; cgu.Spec.Backup && plan.BackupImage == "" {
		reasons = append(reasons, ranv1.ReasonBackupImageMissing)
		problems = append(problems, "spec.backup: no image for the Jobs that make backups: start the workers with --backup-image")
	}
	if worksOnClusters(cgu) {
		queues, unreachable, err := r.findWorkers(ctx, cgu, slices.Concat(plan.RemediationPlan...))
		if err != nil {
			return err
		}
		plan.TaskQueues = queues
		if len(unreachable) > 0 {
			if err := retryOnAnotherWorker(ctx, notServed(unreachable)); err != nil {
				return err
			}
			reasons = append(reasons, ranv1.ReasonClusterUnreachable)
			problems = append(problems, notServed(unreachable))
		}
	}
	if len(problems) > 0 {
		plan.SetCondition(ranv1.ConditionValidated, metav1.ConditionFalse, reasons[0], strings.Join(problems, "; "), now)
	}
	if !plan.Valid() {
		plan.RemediationPlan = [][]string{}
	}
	return nil
}

// worksOnClusters reports whether a rollout works on the clusters themselves, not only on the hub.
func worksOnClusters(cgu *ranv1.ClusterGroupUpgrade) bool {
	return rollout.RemediationOf(cgu) == rollout.NodeMaintenance || cgu.Spec.PreCaching || cgu.Spec.Backup
}

// choosePrecacheImage sets the image of the precaching Jobs.
func (r *Activities) choosePrecacheImage(plan *Plan, now time.Time) {
	if plan.Precaching == nil {
		return
	}
	source := plan.PrecachingSources[precache.PreCacheImage]
	switch plan.PreCacheImage = cmp.Or(plan.PreCacheImage, r.Defaults.PrecacheImage); {
	case plan.PreCacheImage == "":
		plan.JudgePrecaching("no image for the Jobs that pull: start the workers with --precache-image, or set spec.overrides.preCacheImage of a PreCachingConfig", now)
	case plan.PreCacheImage != r.Defaults.PrecacheImage:
		if refused := r.Clusters.Allowed().CheckPreparationImage(precache.PathIn(source, precache.PreCacheImage), plan.PreCacheImage); refused != nil {
			plan.JudgePrecaching(fmt.Sprintf("%s: %v", source, refused), now)
		}
	}
}

// findWorkers returns the task queues of clusters that do not use the common one, and the clusters that a rollout cannot reach: no worker serves them, and their agents
// cannot do the work.
func (r *Activities) findWorkers(ctx context.Context, cgu *ranv1.ClusterGroupUpgrade, clusters []string) (queues map[string]string, unreachable []string, err error) {
	queues = map[string]string{}
	for _, cluster := range clusters {
		queue, served, err := r.taskQueue(ctx, cluster)
		switch {
		case err != nil:
			return nil, nil, err
		case !served:
			unreachable = append(unreachable, cluster)
		case queue != temporal.TaskQueue:
			queues[cluster] = queue
		}
	}
	if len(unreachable) == 0 || rollout.RemediationOf(cgu) == rollout.NodeMaintenance {
		return queues, unreachable, nil
	}
	// Agents precache and back up, but do not maintain nodes.
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return nil, nil, err
	}
	missing, err := views.Missing(ctx, hub)
	if err == nil && missing == "" {
		unreachable = nil
	}
	return queues, unreachable, activitykit.Explain(hub, "find out how clusters without credentials are reached", err)
}

func notServed(clusters []string) string {
	return "no worker has credentials for " + strings.Join(clusters, ", ") + ": " + howToServe
}

// howToServe says how to get a worker for a cluster.
const howToServe = "add it to the worker's clusters file or to the objects of its discovery, or run a worker inside it and annotate its ManagedCluster with " +
	kube.AnnotationWorker + "=" + kube.WorkerInCluster

// WorkerAttempts is the number of attempts before a cluster is unknown to all workers. Any worker may take an attempt, and workers may know different
// clusters, for example while they restart one by one with a new clusters file.
const WorkerAttempts = 6

// retryOnAnotherWorker returns an error that retries the activity; nil after enough attempts. Heartbeat details count the attempts, since those that
// fail for other reasons do not count.
func retryOnAnotherWorker(ctx context.Context, message string) error {
	if !activity.IsActivity(ctx) {
		return nil
	}
	attempts := 0
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &attempts); err != nil {
			return err
		}
	}
	if attempts++; attempts >= WorkerAttempts {
		return nil
	}
	activity.RecordHeartbeat(ctx, attempts)
	return temporal.Error(temporal.ErrClusterUnknown, message, nil)
}

// LocateCluster returns the task queue of the activities of a cluster. Errors: ClusterUnknown, to retry on another worker; NotFound after
// WorkerAttempts.
func (r *Activities) LocateCluster(ctx context.Context, cluster string) (string, error) {
	queue, served, err := r.taskQueue(ctx, cluster)
	if err != nil || served {
		return queue, err
	}
	message := fmt.Sprintf("cluster %s is not known: %s", cluster, howToServe)
	if err := retryOnAnotherWorker(ctx, message); err != nil {
		return "", err
	}
	return "", temporal.Error(temporal.ErrNotFound, message, nil)
}

// taskQueue returns the task queue of the activities of a cluster, and whether a worker serves it. The annotation of the ManagedCluster has
// precedence over the clusters file.
func (r *Activities) taskQueue(ctx context.Context, cluster string) (queue string, served bool, err error) {
	annotations, err := r.annotations(ctx, cluster)
	if err != nil {
		return "", false, err
	}
	if annotations[kube.AnnotationWorker] == kube.WorkerInCluster {
		return temporal.ClusterTaskQueue(cluster), true, nil
	}
	known, inClusterWorker, err := r.Clusters.Knows(cluster)
	if inClusterWorker {
		return temporal.ClusterTaskQueue(cluster), true, nil
	}
	return temporal.TaskQueue, known, err
}

// annotations are the annotations of a ManagedCluster; none if it does not exist or there is no hub. Node maintenance needs no hub.
func (r *Activities) annotations(ctx context.Context, cluster string) (map[string]string, error) {
	hub, err := r.Clusters.Hub(ctx)
	if temporal.ErrorType(err) == temporal.ErrNoHub {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	registered := activitykit.ManagedCluster(cluster)
	err = hub.Cache.Get(ctx, client.ObjectKeyFromObject(registered), registered)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return registered.GetAnnotations(), activitykit.Explain(hub, "get ManagedCluster "+cluster, err)
}

package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
)

// ClusterJob is a Job that prepares a cluster for a rollout. It is idempotent and has no finalizer: it ends and expires even if every worker is
// gone.
type ClusterJob struct {
	Cluster string `json:"cluster"`
	// Preparation is the id of the preparation that it is a part of.
	Preparation string `json:"preparation"`
	// Owner is the ownership mark of the rollout's workflow.
	Owner string        `json:"owner"`
	Work  precache.Work `json:"work"`
	// Deadline is the time at which the Job is stopped, or at which its removal is given up.
	Deadline time.Time `json:"deadline"`
	// Interval is how often the agent of the cluster reads the Job again, if the worker has no credentials for the cluster.
	Interval time.Duration `json:"interval,omitempty"`
	// Held is why no Job may be created; only a Job of an earlier attempt is watched. Empty: one may be created.
	Held string `json:"held,omitempty"`
}

// Name is the same for every attempt and differs between preparations: several may prepare one cluster for different things.
func (in ClusterJob) Name() string {
	preparation := sha256.Sum256([]byte(in.Preparation))
	return safename.Join("-", in.Work.Kind.JobName(), hex.EncodeToString(preparation[:4]))
}

func (in ClusterJob) run() jobRun {
	namespace := in.Work.Kind.Namespace()
	return jobRun{
		owner: in.Owner, cluster: in.Cluster, deadline: &in.Deadline, timedOut: temporal.ErrJobTimedOut,
		template: "job " + namespace + "/" + in.Name(), another: "start the rollout again",
		noNamespace: "cluster %s: %v: apply deploy/rbac/preparation.yaml on it, which makes namespace " + namespace,
		logger:      func(ctx context.Context) log.Logger { return activitykit.OwnerLogger(ctx, in.Cluster, in.Owner) },
	}
}

// job returns the Job with its mark.
func (in ClusterJob) job() *batchv1.Job {
	job := in.Work.Job(in.Name())
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, kube.AnnotationOwner, in.Owner)
	return job
}

// RunClusterJob runs the Job, unless an earlier attempt has, and waits until it is complete. Without credentials for the cluster, the agent of the cluster runs it.
// Errors: Held, AgentOffline (before the Job exists), JobFailed, JobTimedOut, InvalidSpec (its image is not allowed, its namespace is missing, the API server refuses it, or a right is missing), NotFound (the
// ManagedCluster of an agent).
func (j *Activities) RunClusterJob(ctx context.Context, in ClusterJob) error {
	cluster, hub, err := j.wayTo(ctx, in.Cluster)
	if err != nil {
		return err
	}
	run := in.run()
	run.allowed = func(ctx context.Context) error {
		if err := j.Clusters.Allowed().CheckPreparationImage(field.NewPath("work", "image"), in.Work.Image); err != nil {
			return temporal.Error(temporal.ErrInvalidSpec, "cluster "+in.Cluster+": "+err.Error(), nil)
		}
		if in.Held != "" {
			return temporal.Error(temporal.ErrHeld, in.Held, nil)
		}
		return j.Waits.UnlessHeld(ctx, in.Cluster)
	}
	if hub != nil {
		return j.runThroughAgent(ctx, hub, in, run)
	}
	job := in.job()
	if err := startJob(ctx, cluster, job, run); err != nil {
		return in.forbidden(cluster, err)
	}
	if err := writeConfig(ctx, cluster, job, in.Work.Config()); err != nil {
		return in.forbidden(cluster, err)
	}
	return j.awaitJob(ctx, cluster, job, run)
}

// wayTo returns the cluster or, if this worker has no credentials for it, the hub, if its agents can be used. Errors: ClusterUnknown if there is no way.
func (j *Activities) wayTo(ctx context.Context, name string) (cluster, hub *kube.Cluster, err error) {
	reached, err := j.Clusters.Reaches(name)
	if err != nil {
		return nil, nil, err
	}
	if !reached {
		hub, err = j.Clusters.Hub(ctx)
		if err == nil {
			var missing string
			if missing, err = viewsapi.Missing(ctx, hub); err == nil && missing == "" {
				return nil, hub, nil
			}
		}
		if err != nil && temporal.ErrorType(err) != temporal.ErrNoHub {
			return nil, nil, err
		}
	}
	cluster, err = j.Clusters.Cluster(ctx, name)
	return cluster, nil, err
}

// forbidden turns a missing permission into an error with advice. Retrying would not help.
func (in ClusterJob) forbidden(cluster *kube.Cluster, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v: apply deploy/rbac/preparation.yaml on it", cluster.Name, err), err)
}

// writeConfig creates the ConfigMap that the pod of the Job mounts.
func writeConfig(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job, data map[string]string) error {
	if data == nil {
		return nil
	}
	config := configOf(job, data)
	err := cluster.Client.Create(ctx, config)
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier attempt created it: the name is that of the preparation
	}
	return activitykit.Explain(cluster, "create configmap "+client.ObjectKeyFromObject(config).String(), err)
}

// configOf is the ConfigMap of a Job. It is deleted with the Job.
func configOf(job *batchv1.Job, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: job.Name,
			Annotations: map[string]string{kube.AnnotationOwner: kube.Owner(job)},
			// It does not block the deletion of the Job, which would take one more right on clusters that guard that.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}},
		},
		Data: data,
	}
}

// RemoveClusterJob removes the Job as RemoveJob does: a failed Job stays for a day, a running one is stopped.
func (j *Activities) RemoveClusterJob(ctx context.Context, in ClusterJob) error {
	_, hub, err := j.wayTo(ctx, in.Cluster)
	if err != nil {
		return err
	}
	if hub != nil {
		return j.removeThroughAgent(ctx, hub, in)
	}
	return j.remove(ctx, in.Cluster, client.ObjectKey{Namespace: in.Work.Kind.Namespace(), Name: in.Name()}, in.Owner)
}

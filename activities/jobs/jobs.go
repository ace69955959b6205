// Package jobs holds the activities that run a Job on a node or in a cluster, and remove it.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/log"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/marks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Activities runs Jobs on nodes.
//
// Work on a node must not be repeated unnoticed. A Job therefore has a finalizer from its creation to RemoveJob: an attempt that finds no Job knows
// that none was created, and one that finds it being deleted knows that another client deleted it.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// RunJobInput names a Job and its node.
type RunJobInput struct {
	activitykit.NodeRef
	// NodeUID of the node that was cordoned. If a node of this name has another UID, the cordoned one is gone. Empty: not known.
	// RemoveJob does not read it.
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// Maintenance is the name of the NodeMaintenance; the Job is named after it.
	Maintenance string                  `json:"maintenance"`
	Job         maintenancev1.JobAction `json:"job"`
	// Deadline is when the Job is stopped and fails; nil: never. RemoveJob does not read it.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Held is the hold on the cluster; nil: none. While it is held, only a Job that an earlier attempt created is continued.
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Closes is as in AcquireNodeInput. RemoveJob does not read it.
	Closes *time.Time `json:"closes,omitempty"`
}

// RunJob creates the Job if it does not exist yet and waits until it is complete.
// Errors: Held, JobFailed, NodeGone, InvalidSpec (the clusters file does not allow the Job, or the API server refuses the template).
func (j *Activities) RunJob(ctx context.Context, in RunJobInput) error {
	cluster, err := j.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	job, err := JobFor(in)
	if err != nil {
		return err
	}
	run := in.run()
	run.allowed = func(ctx context.Context) error {
		if err := activitykit.CheckJob(j.Clusters, activitykit.ActionPath(), &in.Job); err != nil {
			return err
		}
		if in.Held != nil {
			return temporal.Error(temporal.ErrHeld, emergency.Message(*in.Held), nil)
		}
		return j.Waits.MayBegin(ctx, in.Closes)
	}
	err = startJob(ctx, cluster, job, run)
	if err == nil {
		defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: string(maintenancev1.NodeReady), Message: "the node is ready, and its job works on it"})()
		defer events.Announce(ctx, cluster, in.NodeRef, events.Event{Reason: events.JobStarted, Message: jobPath(job) + " works on the node"})()
		err = j.awaitJob(ctx, cluster, job, run)
	}
	events.AnnounceFailure(ctx, cluster, in.NodeRef, 0, err)
	return err
}

// jobRun has the owner, the node and the deadline of a Job.
type jobRun struct {
	owner string
	// node it must run on; empty: any node of cluster, which is reported in observations.
	node, cluster string
	// nodeUID distinguishes the node from a later one of the same name; empty: not known.
	nodeUID types.UID
	// deadline is when it is stopped; nil: never. timedOut is the type of the error then.
	deadline *time.Time
	timedOut string
	// allowed, unless nil, returns an error if the Job may not be created now.
	allowed func(context.Context) error
	// template is the path of the template, for errors of the API server. noNamespace is the error for a missing namespace.
	template, noNamespace string
	// another is the advice if a Job of that name has another owner.
	another string
	// logger returns the logger of the activity, with the keys of the cluster or of the node.
	logger func(context.Context) log.Logger
}

// run returns the jobRun of a Job on a node.
func (in RunJobInput) run() jobRun {
	return jobRun{
		owner: in.Owner, node: in.Node, nodeUID: in.NodeUID, deadline: in.Deadline, timedOut: temporal.ErrJobFailed,
		template: "action.job.template", noNamespace: "action.job.namespace: cluster %s: %v: create the namespace, or name another",
		another: "give the maintenance another name", logger: in.Logger,
	}
}

// where returns where the Job runs, for messages.
func (r jobRun) where() string {
	if r.node == "" {
		return "cluster " + r.cluster
	}
	return "node " + r.node
}

// awaitJob waits until the Job is complete, and stops it at its deadline.
func (j *Activities) awaitJob(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job, run jobRun) error {
	pod := &corev1.Pod{}
	pod.Namespace = job.Namespace
	var last *drydockv1.Wait
	var seen jobSeen
	done, err := j.Waits.AwaitUntil(ctx, run.deadline, cluster, append(activitykit.NodeToWatch(run.node), job, pod),
		func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
			var err error
			if seen, err = lookAtJob(ctx, cluster, reader, job, run); err != nil {
				return temporal.Observation{}, false, activitykit.Explain(cluster, "read "+jobPath(job), err)
			}
			wait, done, err := seen.judge()
			if wait != nil {
				last = wait
			}
			return temporal.Observation{Cluster: run.cluster, Wait: wait}, done, err
		})
	if err != nil || done {
		return seen.withLog(ctx, err)
	}
	if err := deleteJob(ctx, cluster, job, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	return seen.timedOut(last.Message, last.Blockers...)
}

// startJob creates the Job, unless an earlier attempt has. It uses a plain create, because server-side apply would adopt a Job that is not ours.
// A Job that could not be created before the deadline is not started later.
func startJob(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job, run jobRun) error {
	overdue := run.deadline != nil && temporal.Now(ctx).After(*run.deadline)
	var refused error
	if run.allowed != nil {
		refused = run.allowed(ctx)
	}
	if !overdue && refused == nil {
		if err := labelNode(ctx, cluster, run); err != nil {
			return err
		}
		if err := cluster.Client.Create(ctx, job); !apierrors.IsAlreadyExists(err) {
			if err == nil {
				run.logger(ctx).Info("Job started", "job", client.ObjectKeyFromObject(job).String())
			}
			return run.refused(cluster, job, err)
		}
	}
	err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), job)
	switch {
	case apierrors.IsNotFound(err) && refused != nil:
		return refused
	case apierrors.IsNotFound(err) && overdue:
		return jobSeen{run: run, cluster: cluster, created: job}.timedOut("it could not be created in time")
	case err != nil:
		return activitykit.Explain(cluster, "read "+jobPath(job), err)
	case !kube.OwnedBy(job, run.owner):
		return run.foreign(cluster.Name, job)
	}
	return nil
}

// foreign is the error for a Job of that name which has another owner.
func (r jobRun) foreign(cluster string, job *batchv1.Job) error {
	return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %s exists and is not ours: delete it, or %s", cluster, jobPath(job), r.another), nil)
}

// labelNode sets the label that the pod of the Job requires on a node that is ours, if another writer removed it.
func labelNode(ctx context.Context, cluster *kube.Cluster, run jobRun) error {
	if run.node == "" {
		return nil
	}
	lacks := func(node *corev1.Node) bool {
		return kube.OwnedBy(node, run.owner) && node.Labels[kube.LabelMaintenance] != kube.MaintenanceLabel(run.owner)
	}
	node, err := cluster.Node(ctx, run.node)
	if err == nil && lacks(node) {
		err = marks.Update(ctx, cluster, run.node, func(node *corev1.Node) (client.Patch, error) {
			change := marks.Of(node)
			if lacks(node) {
				change.Label = kube.MaintenanceLabel(run.owner)
			}
			return change.Patch(node)
		})
	}
	return activitykit.ExplainNode(cluster, run.node, "label", client.IgnoreNotFound(err)) // RunJob reports a deleted node
}

// refused returns the typed error of a create. An error in the template is InvalidSpec with its field; other errors are retried.
func (r jobRun) refused(cluster *kube.Cluster, job *batchv1.Job, err error) error {
	switch {
	case apierrors.IsInvalid(err):
		return temporal.Error(temporal.ErrInvalidSpec, strings.Join(r.refusedFields(err), "; "), err)
	case apierrors.IsBadRequest(err):
		return temporal.Error(temporal.ErrInvalidSpec, r.template+": "+err.Error(), err)
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf(r.noNamespace, cluster.Name, err), err)
	}
	return activitykit.Explain(cluster, "create "+jobPath(job), err)
}

// refusedFields returns the errors of the API server, each with the path of its field in the user's object.
func (r jobRun) refusedFields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{r.template + ": " + err.Error()}
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, r.template+"."+cause.Field+": "+cause.Message)
	}
	return fields
}

// RemoveJob removes the Job and its pods, if it is ours. A failed Job is kept for a day, so that its logs can be read. A running Job is stopped,
// and its pods are gone when RemoveJob returns. A second call continues where the first one stopped.
func (j *Activities) RemoveJob(ctx context.Context, in RunJobInput) error {
	return j.remove(ctx, in.Cluster, client.ObjectKey{Namespace: in.Job.Namespace, Name: NameOfJob(in)}, in.Owner)
}

// OrphanedJob names a Job whose maintenance has ended, and its owner.
type OrphanedJob struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Owner     string `json:"owner"`
}

// RemoveOrphanedJob is RemoveJob for a Job of which only the object is known.
func (j *Activities) RemoveOrphanedJob(ctx context.Context, in OrphanedJob) error {
	return j.remove(ctx, in.Cluster, client.ObjectKey{Namespace: in.Namespace, Name: in.Name}, in.Owner)
}

func (j *Activities) remove(ctx context.Context, clusterName string, name client.ObjectKey, owner string) error {
	cluster, err := j.Clusters.Cluster(ctx, clusterName)
	if err != nil {
		return err
	}
	if collected, err := collectSeen(ctx, cluster, name, owner); collected {
		return err
	}
	job := &batchv1.Job{}
	err = cluster.Client.Get(ctx, name, job)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return activitykit.Explain(cluster, "read job "+name.String(), err)
	case !kube.OwnedBy(job, owner):
		return nil
	case finished(job, batchv1.JobFailed) != nil:
		return releaseJob(ctx, cluster, job)
	case finished(job, batchv1.JobComplete) != nil:
		if err := deleteJob(ctx, cluster, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		return releaseJob(ctx, cluster, job)
	}
	return j.stopJob(ctx, cluster, job, nodeOfJob(job))
}

// collectSeen removes a complete Job as the cache has it. The removal of our finalizer fails if the cache is behind.
func collectSeen(ctx context.Context, cluster *kube.Cluster, name client.ObjectKey, owner string) (collected bool, err error) {
	job := &batchv1.Job{}
	if cluster.Cache.Get(ctx, name, job) != nil || !kube.OwnedBy(job, owner) || finished(job, batchv1.JobComplete) == nil {
		return false, nil
	}
	if unhold(ctx, cluster, job) != nil {
		return false, nil
	}
	return true, deleteJob(ctx, cluster, job, metav1.DeletePropagationBackground)
}

// unhold removes our finalizer, if the Job has it, on the condition that the Job has not changed.
func unhold(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job) error {
	if !slices.Contains(job.Finalizers, Finalizer) {
		return nil
	}
	before := job.DeepCopy()
	job.Finalizers = slices.DeleteFunc(job.Finalizers, func(f string) bool { return f == Finalizer })
	return cluster.Client.Patch(ctx, job, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// stopJob deletes a running Job and waits until its pods are gone; those of a node that is gone count as gone. It removes the finalizer last, so that
// another attempt finds the Job and waits, too.
func (j *Activities) stopJob(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job, node string) error {
	if err := deleteJob(ctx, cluster, job, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	pod := &corev1.Pod{}
	pod.Namespace = job.Namespace
	var left []string
	done, err := j.Waits.AwaitUntil(ctx, beforeTimeout(ctx), cluster, append(activitykit.NodeToWatch(node), pod),
		func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
			var err error
			left, err = podsLeft(ctx, cluster, reader, job, node)
			return temporal.Observation{Wait: stopping(job, left)}, len(left) == 0, err
		})
	switch {
	case err != nil:
		return activitykit.Explain(cluster, "stop "+jobPath(job), err)
	case !done:
		return temporal.Error(ReasonJobStopping, stopping(job, left).Message, nil)
	}
	return releaseJob(ctx, cluster, job)
}

// podsLeft names the Job's pods that are not gone.
func podsLeft(ctx context.Context, cluster *kube.Cluster, reader client.Reader, job *batchv1.Job, node string) ([]string, error) {
	pods, err := podsOfJob(ctx, reader, job)
	if err == nil && len(pods) == 0 {
		// The cache may not have a pod that was just created.
		pods, err = podsOfJob(ctx, cluster.Client, job)
	}
	if err != nil {
		return nil, err
	}
	if node != "" {
		if _, err := cluster.Node(ctx, node); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	}
	var left []string
	for _, pod := range pods {
		left = append(left, pod.Namespace+"/"+pod.Name)
	}
	return left, nil
}

// beforeTimeout is when an attempt returns its wait, shortly before it times out.
func beforeTimeout(ctx context.Context) *time.Time {
	timeout, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return new(temporal.Now(ctx).Add(time.Until(timeout) - time.Second))
}

func deleteJob(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job, propagation metav1.DeletionPropagation) error {
	return activitykit.Explain(cluster, "delete "+jobPath(job), kube.DeleteExactly(ctx, cluster.Client, job, client.PropagationPolicy(propagation)))
}

// releaseJob removes our finalizer from the Job.
func releaseJob(ctx context.Context, cluster *kube.Cluster, job *batchv1.Job) error {
	err := kube.RetryOnConflict(func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		return unhold(ctx, cluster, job)
	})
	return activitykit.Explain(cluster, "release "+jobPath(job), client.IgnoreNotFound(err))
}

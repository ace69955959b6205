package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/deploy/rbac"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// Reasons of the wait for an agent that is to create a Job.
const (
	// ReasonAgentPending: the agent has not answered yet.
	ReasonAgentPending = "AgentPending"
	// ReasonAgentFailed: the agent has failed, and is asked again.
	ReasonAgentFailed = "AgentFailed"
)

// BeforeCreation reports whether a wait for a Job has one of these reasons: the Job is not known to exist.
func BeforeCreation(reason string) bool {
	return reason == ReasonAgentPending || reason == ReasonAgentFailed
}

// agentJob is a ClusterJob that the agent of its cluster creates and reads. Everything is decided again from the objects on the hub at each change, so that another
// attempt continues anywhere.
type agentJob struct {
	in         ClusterJob
	run        jobRun
	hub        *kube.Cluster
	owner      viewsapi.Owner
	unlessHeld func(context.Context) error
	// job is the Job as it is created. Its UID is that of the Job on the cluster, once the agent has read it.
	job *batchv1.Job
	// objects are what the agent creates, one after the other; the Job is the last one. missing is the index of the first that may be missing.
	objects []*unstructured.Unstructured
	missing int
	resumed bool
	// created: the Job exists, or existed. outdated is the UID of a view that the agent may have read before that.
	created  bool
	outdated types.UID
	// configured: the ConfigMap exists.
	configured bool
	// pauses are those before failed actions are repeated. The alarm goes off at retryAt.
	pauses  wait.Backoff
	retryAt time.Time
	alarm   *time.Timer
	// failure is the wait after the agent's last failure. A time-out names it, although the agent has been asked again.
	failure *drydockv1.Wait
}

func newAgentJob(hub *kube.Cluster, in ClusterJob) (*agentJob, error) {
	objects, err := rbac.Preparation(in.Work.Kind.Namespace())
	if err != nil {
		return nil, err
	}
	job := in.job()
	template, err := templateOf(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	return &agentJob{
		in: in, run: in.run(), hub: hub, owner: viewsapi.OwnerOf(in.Owner), job: job, objects: append(objects, template),
		pauses: wait.Backoff{Duration: 2 * time.Second, Factor: 2, Steps: 6, Cap: time.Minute},
	}, err
}

// templateOf converts an object for an action.
func templateOf(object client.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	template := &unstructured.Unstructured{Object: fields}
	template.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(template.Object, "status")
	unstructured.RemoveNestedField(template.Object, "metadata", "creationTimestamp")
	return template, err
}

// kinds are the kinds to watch: what the agent is asked and has answered, and whether it is offline.
func (a *agentJob) kinds() []client.Object {
	return append(viewsapi.Kinds(a.in.Cluster), activitykit.ManagedCluster(a.in.Cluster))
}

// object is the Job on the cluster.
func (a *agentJob) object() views.Object { return views.ObjectOf(a.objects[len(a.objects)-1]) }

// runThroughAgent lets the agent of the cluster create the Job, and waits until it is complete.
func (j *Activities) runThroughAgent(ctx context.Context, hub *kube.Cluster, in ClusterJob, run jobRun) error {
	a, err := newAgentJob(hub, in)
	if err != nil {
		return err
	}
	a.run, a.unlessHeld = run, func(ctx context.Context) error { return j.Waits.UnlessHeldNow(ctx, in.Cluster) }
	a.alarm = time.NewTimer(0)
	a.alarm.Stop()
	defer a.alarm.Stop()
	var last *drydockv1.Wait
	done, err := j.Waits.AwaitUntilAlarm(ctx, run.deadline, a.alarm.C, hub, a.kinds(), func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
		wait, done, err := a.step(ctx, reader)
		if wait != nil {
			last = wait
		}
		return temporal.Observation{Cluster: in.Cluster, Wait: wait}, done, err
	})
	if err != nil || done {
		return a.explain(err)
	}
	return a.timedOut(last)
}

// timedOut is the error for a Job that is not complete in time.
func (a *agentJob) timedOut(wait *drydockv1.Wait) error {
	if !a.created && a.failure != nil {
		wait = a.failure
	}
	return a.seen(nil).timedOut(wait.Message, wait.Blockers...)
}

// seen is the Job as the agent has read it; nil: it is gone.
func (a *agentJob) seen(found *batchv1.Job) jobSeen {
	return jobSeen{run: a.run, created: a.job, found: found, byAgent: true}
}

// explain turns an error of the hub into one with advice.
func (a *agentJob) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return temporal.Error(temporal.ErrForbidden, fmt.Sprintf("the hub: %s: apply deploy/rbac/hub.yaml and views.yaml on it", temporal.ErrorMessage(err)), err)
	}
	return activitykit.Explain(a.hub, "run "+jobPath(a.job)+" through the agent of cluster "+a.in.Cluster, err)
}

// step returns the wait for the Job and whether it is complete, and asks the agent for what comes next.
func (a *agentJob) step(ctx context.Context, reader client.Reader) (*drydockv1.Wait, bool, error) {
	registered, err := activitykit.ReadManagedCluster(ctx, a.hub, a.in.Cluster)
	if err != nil {
		return nil, false, err
	}
	if registered == nil {
		return nil, false, temporal.Error(temporal.ErrNotFound, "ManagedCluster "+a.in.Cluster+" does not exist", nil)
	}
	if err := a.reachable(ctx, reader, registered); err != nil {
		return nil, false, err
	}
	view, err := a.view(ctx, reader)
	if err != nil {
		return nil, false, err
	}
	switch viewed := views.Read(view, a.object()); {
	case viewed.Object != nil:
		return a.follow(ctx, reader, registered, viewed.Object)
	case viewed.Missing && a.created:
		return a.seen(nil).judge()
	case viewed.Missing:
		wait, err := a.create(ctx, reader, registered, view)
		return wait, false, err
	case viewed.Problem != "":
		return &drydockv1.Wait{Reason: a.before(ReasonAgentFailed), Message: fmt.Sprintf("the agent of the cluster cannot read %s: %s", jobPath(a.job), viewed.Problem)}, false, nil
	}
	return a.pending(registered, view, "read "+jobPath(a.job)), false, nil
}

// reachable returns AgentOffline if the agent is offline, unless it has read the Job. It gets no action then, since it could carry it out much later.
func (a *agentJob) reachable(ctx context.Context, reader client.Reader, registered *unstructured.Unstructured) error {
	if a.created || !policies.Offline(registered) {
		return nil
	}
	view, err := viewsapi.Get(ctx, reader, views.Views, a.owner, a.in.Cluster, a.object())
	if err != nil || view != nil && views.Read(view, a.object()).Object != nil {
		return err
	}
	return temporal.Error(temporal.ErrAgentOffline, offline(registered)+"; "+jobPath(a.job)+" is created when it is back", nil)
}

// before returns the reason of a wait, unless the Job exists.
func (a *agentJob) before(reason string) string {
	if a.created {
		return ReasonJobPodMissing
	}
	return reason
}

// view returns the view of the Job, and creates it if there is none that is newer than the Job.
func (a *agentJob) view(ctx context.Context, reader client.Reader) (*unstructured.Unstructured, error) {
	for _, reader := range []client.Reader{reader, a.hub.Client} {
		view, err := viewsapi.Get(ctx, reader, views.Views, a.owner, a.in.Cluster, a.object())
		if err != nil || view != nil && view.GetUID() != a.outdated {
			return view, err
		}
	}
	view := views.View(a.owner.NamespacedName, a.in.Cluster, a.object(), a.in.Interval)
	return view, viewsapi.Create(ctx, a.hub, view, a.owner)
}

// offline says since when a cluster is offline; "": it is not.
func offline(registered *unstructured.Unstructured) string {
	if !policies.Offline(registered) {
		return ""
	}
	text := rollout.MessageOffline
	if since := policies.OfflineSince(registered); !since.IsZero() {
		text += " since " + since.UTC().Format(time.RFC3339)
	}
	return text
}

// pending is the wait for the agent to do what an object on the hub asks of it.
func (a *agentJob) pending(registered, asks *unstructured.Unstructured, does string) *drydockv1.Wait {
	message := "waiting for the agent of the cluster to " + does
	if asked := asks.GetCreationTimestamp(); !asked.IsZero() {
		message += " since " + asked.UTC().Format(time.RFC3339)
	}
	if offline := offline(registered); offline != "" {
		message += ": " + offline
	}
	return &drydockv1.Wait{Reason: a.before(ReasonAgentPending), Message: message}
}

// create asks the agent for the first object that may be missing, and for a new view once the Job is created.
func (a *agentJob) create(ctx context.Context, reader client.Reader, registered, view *unstructured.Unstructured) (*drydockv1.Wait, error) {
	if a.in.Held != "" {
		return nil, temporal.Error(temporal.ErrHeld, a.in.Held, nil)
	}
	if err := a.resume(ctx, reader); err != nil {
		return nil, err
	}
	for a.missing < len(a.objects) {
		object := a.objects[a.missing]
		wait, done, err := a.carryOut(ctx, reader, registered, object, a.mayCreate)
		if err != nil || wait != nil {
			return wait, err
		}
		if done {
			a.missing++
		}
	}
	a.created, a.outdated = true, view.GetUID()
	if err := viewsapi.Delete(ctx, a.hub, view); err != nil {
		return nil, err
	}
	view, err := a.view(ctx, reader)
	if err != nil {
		return nil, err
	}
	a.run.logger(ctx).Info("Job started through the agent of its cluster", "job", client.ObjectKeyFromObject(a.job).String())
	return a.pending(registered, view, "read "+jobPath(a.job)), nil
}

// resume continues with the action that an earlier attempt left, so that the agent has one at a time.
func (a *agentJob) resume(ctx context.Context, reader client.Reader) error {
	if a.resumed {
		return nil
	}
	for i, object := range a.objects {
		action, err := viewsapi.Get(ctx, reader, views.Actions, a.owner, a.in.Cluster, views.ObjectOf(object))
		if err != nil {
			return err
		}
		if action != nil {
			a.missing = i
		}
	}
	a.resumed = true
	return nil
}

// mayCreate returns an error if the agent may not be asked to create the next object now.
func (a *agentJob) mayCreate(ctx context.Context) error {
	err := a.run.allowed(ctx)
	switch {
	case err != nil:
		return err
	case temporal.Now(ctx).After(*a.run.deadline):
		return a.timedOut(&drydockv1.Wait{Message: "it could not be created in time"})
	case a.missing == len(a.objects)-1: // this may come long after the start of the activity
		return a.unlessHeld(ctx)
	}
	return nil
}

// carryOut lets the agent create an object. It returns the wait for that, or whether it is done. If neither, the action has failed before and is repeated now, and all
// objects are created again: the namespace may have been deleted meanwhile.
func (a *agentJob) carryOut(ctx context.Context, reader client.Reader, registered, object *unstructured.Unstructured, mayCreate func(context.Context) error) (*drydockv1.Wait, bool, error) {
	name := views.ObjectOf(object)
	action, outcome, err := viewsapi.CarryOut(ctx, a.hub, reader, a.owner, views.Create(a.owner.NamespacedName, a.in.Cluster, object), mayCreate)
	switch {
	case err != nil || outcome.Done:
		return nil, err == nil, err
	case outcome.Failure == "":
		return a.pending(registered, action, "create "+name.String()), false, nil
	case a.retryAt.IsZero():
		pause := a.pauses.Step()
		a.retryAt = time.Now().Add(pause)
		a.alarm.Reset(pause)
	case !time.Now().Before(a.retryAt):
		a.retryAt, a.missing = time.Time{}, 0
		return nil, false, viewsapi.Delete(ctx, a.hub, action)
	}
	message := fmt.Sprintf("the agent of the cluster could not create %s, and is asked again: %s", name, outcome.Failure)
	if strings.Contains(outcome.Failure, "is forbidden") {
		message += ": grant the agent this right"
	}
	a.failure = &drydockv1.Wait{Reason: a.before(ReasonAgentFailed), Message: message}
	return a.failure, false, nil
}

// follow judges the Job as the agent has read it, and lets the agent create its ConfigMap.
func (a *agentJob) follow(ctx context.Context, reader client.Reader, registered, viewed *unstructured.Unstructured) (*drydockv1.Wait, bool, error) {
	found := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(viewed.Object, found); err != nil {
		return nil, false, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: the agent shows %s in an unknown form: %v", a.in.Cluster, jobPath(a.job), err), err)
	}
	if !kube.OwnedBy(found, a.in.Owner) {
		return nil, false, a.run.foreign(a.in.Cluster, found)
	}
	a.created, a.job.UID = true, found.UID
	wait, done, err := a.seen(found).judge()
	if err != nil || done {
		return nil, done, err
	}
	// An API server before Kubernetes 1.24 does not count ready pods.
	if runs := wait.Reason == ReasonJobRunning && found.Status.Ready != nil; !runs && !a.configured {
		configuring, err := a.configure(ctx, reader, registered)
		if err != nil || configuring != nil {
			return configuring, false, err
		}
	}
	if offline := offline(registered); offline != "" {
		wait.Message += "; this was so when the agent last read it: " + offline
	}
	return wait, false, nil
}

// configure lets the agent create the ConfigMap of the Job, which its pod waits for.
func (a *agentJob) configure(ctx context.Context, reader client.Reader, registered *unstructured.Unstructured) (*drydockv1.Wait, error) {
	data := a.in.Work.Config()
	if data == nil {
		return nil, nil
	}
	config, err := templateOf(configOf(a.job, data), corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err != nil {
		return nil, err
	}
	always := func(context.Context) error { return nil }
	for !a.configured {
		wait, done, err := a.carryOut(ctx, reader, registered, config, always)
		if err != nil || wait != nil {
			return wait, err
		}
		a.configured = done
	}
	return nil, nil
}

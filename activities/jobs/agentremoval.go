package jobs

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// removeThroughAgent lets the agent of the cluster delete the Job, unless it has failed, and removes the views and actions. If the agent is offline, the Job ends and
// expires by itself.
func (j *Activities) removeThroughAgent(ctx context.Context, hub *kube.Cluster, in ClusterJob) error {
	a, err := newAgentJob(hub, in)
	if err != nil {
		return err
	}
	var last *drydockv1.Wait
	done, err := j.Waits.AwaitUntil(ctx, &in.Deadline, hub, a.kinds(), func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
		var done bool
		var err error
		last, done, err = a.remove(ctx, reader)
		return temporal.Observation{Wait: last}, done, err
	})
	left := viewsapi.RemoveAll(ctx, hub, a.owner, []string{in.Cluster})
	switch {
	case err != nil:
		return a.explain(err)
	case !done:
		return temporal.Error(ReasonJobStopping, jobPath(a.job)+" is not removed: "+last.Message, nil)
	}
	return left
}

// remove returns whether the Job is removed, or needs not be, and the wait for that.
func (a *agentJob) remove(ctx context.Context, reader client.Reader) (*drydockv1.Wait, bool, error) {
	registered, err := activitykit.ReadManagedCluster(ctx, a.hub, a.in.Cluster)
	if err != nil || registered == nil || policies.Offline(registered) {
		return nil, err == nil, err
	}
	view, err := viewsapi.Get(ctx, reader, views.Views, a.owner, a.in.Cluster, a.object())
	if err != nil {
		return nil, false, err
	}
	if view != nil && a.stays(views.Read(view, a.object()).Object) {
		return nil, true, nil
	}
	action, outcome, err := viewsapi.CarryOut(ctx, a.hub, reader, a.owner, views.Delete(a.owner.NamespacedName, a.in.Cluster, a.object()), func(context.Context) error { return nil })
	if err != nil || outcome.Done {
		return nil, err == nil, err
	}
	if outcome.Failure != "" {
		return nil, false, errors.Join(fmt.Errorf("the agent of cluster %s could not delete %s: %s", a.in.Cluster, jobPath(a.job), outcome.Failure), viewsapi.Delete(ctx, a.hub, action))
	}
	return a.pending(registered, action, "delete "+jobPath(a.job)), false, nil
}

// stays reports whether a viewed Job is not to be removed: it has failed, or is not ours.
func (a *agentJob) stays(viewed *unstructured.Unstructured) bool {
	found := &batchv1.Job{}
	if viewed == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(viewed.Object, found) != nil {
		return false
	}
	return !kube.OwnedBy(found, a.in.Owner) || finished(found, batchv1.JobFailed) != nil
}

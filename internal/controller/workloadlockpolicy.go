package controller

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/locks"
)

// workloadLockPolicies is the kind WorkloadLockPolicy.
func workloadLockPolicies() kind {
	gvk := drydockv1.GroupVersion.WithKind("WorkloadLockPolicy")
	return kind{
		name:     gvk.Kind,
		resource: drydockv1.GroupVersion.WithResource("workloadlockpolicies").GroupResource(),
		gvk:      gvk,
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			of := &workloadLockPolicy{cluster: cluster, temporal: options.Temporal}
			reconciler := newRequests(of, gvk, cluster, options)
			reconciler.standing, reconciler.identify = true, of.lockController
			reconciler.ended = func(policy *drydockv1.WorkloadLockPolicy) bool { return policy.Status.State.Ended() }
			return reconciler.watch(options), nil
		},
	}
}

// workloadLockPolicy is how WorkloadLockPolicies of one cluster run lock controllers.
type workloadLockPolicy struct {
	cluster  *kube.Cluster
	temporal client.Client
}

// lockController returns the workflow of a policy: an application has one in a cluster, and its policies may have any name. That of a policy which no
// longer exists is found among the running workflows.
func (w *workloadLockPolicy) lockController(ctx context.Context, name types.NamespacedName) (string, error) {
	policy := &drydockv1.WorkloadLockPolicy{}
	err := w.cluster.Cache.Get(ctx, name, policy)
	if err == nil {
		return temporal.WorkloadLockControllerID(w.cluster.Name, policy.Spec.ControllerName), nil
	}
	if !apierrors.IsNotFound(err) {
		return "", err
	}
	running, err := runningRuns(ctx, w.temporal, w.running(), w.cluster.Name, "WorkloadLockPolicy")
	for _, run := range running {
		if run.object.NamespacedName() == name {
			return run.workflowID, nil
		}
	}
	return "", err
}

// workflow returns no id, which lockController finds.
func (w *workloadLockPolicy) workflow(types.NamespacedName) (workflowType, id string) {
	return temporal.WorkloadLockController, ""
}

func (w *workloadLockPolicy) running() string {
	return fmt.Sprintf("%s AND %s = '%s'", observe.WorkflowsOf(temporal.WorkloadLockController, true), temporal.AttributeCluster.GetName(), w.cluster.Name)
}

func (w *workloadLockPolicy) condition() string { return drydockv1.ConditionReady }

func (w *workloadLockPolicy) conditions(policy *drydockv1.WorkloadLockPolicy) []metav1.Condition {
	return policy.Status.Conditions
}

// over: an ended controller starts again with the next edit of its policy.
func (w *workloadLockPolicy) over(policy *drydockv1.WorkloadLockPolicy, _ bool) bool {
	return policy.Status.State.Ended() && policy.Status.ObservedGeneration == policy.Generation
}

func (w *workloadLockPolicy) adopts(run) bool { return false }

func (w *workloadLockPolicy) besideSpec(*drydockv1.WorkloadLockPolicy) any { return nil }

func (w *workloadLockPolicy) gone(uid types.UID) any {
	return locks.ObjectRequest{UID: uid, Deleted: true}
}

func (w *workloadLockPolicy) request(policy *drydockv1.WorkloadLockPolicy) any {
	request := locks.ObjectRequest{UID: policy.UID, Generation: policy.Generation, Deleted: policy.DeletionTimestamp != nil}
	complete, err := completedPolicy(policy)
	if err != nil {
		request.InvalidSpec = err.Error()
	}
	request.Spec = complete.Spec
	return request
}

// completedPolicy returns the name and the spec of a policy with their defaults, and why the spec is invalid.
func completedPolicy(policy *drydockv1.WorkloadLockPolicy) (*drydockv1.WorkloadLockPolicy, error) {
	complete := &drydockv1.WorkloadLockPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}, Spec: *policy.Spec.DeepCopy()}
	return complete, manifest.Complete(complete)
}

func (w *workloadLockPolicy) prepare(ctx context.Context, of temporal.Object, policy *drydockv1.WorkloadLockPolicy) (*start, *metav1.Condition, error) {
	complete, err := completedPolicy(policy)
	if policy.DeletionTimestamp == nil {
		if err != nil {
			return nil, refusal(reasonInvalidSpec, err.Error()), nil
		}
		if _, err := objects.Hold(ctx, w.cluster.Client, policy, nil); err != nil {
			return nil, nil, err
		}
	}
	return &start{
		options: temporal.WorkloadLockControllerOptions(of.Cluster, policy.Spec.ControllerName),
		input:   locks.Input{Cluster: of.Cluster, Policy: *complete, Source: &of},
	}, nil, nil
}

// Package onboarding holds the activities that find clusters that are new on a hub and wait for their rollouts.
package onboarding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// Activities finds clusters that are new on the hub, and follows their rollouts.
type Activities struct {
	Clusters *kube.Clusters
	Temporal RunFinder

	objects objectKind
}

// RunFinder finds runs of workflows. Temporal's client implements it.
type RunFinder interface {
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// AwaitNewClustersInput names the clusters that are known already.
type AwaitNewClustersInput struct {
	// Running are being onboarded or wait for that. The onboarding of Failed has failed.
	Running []string `json:"running,omitempty"`
	Failed  []string `json:"failed,omitempty"`
	// Objects are those of Failed whose rollouts have objects: a cluster whose object is deleted is settled.
	Objects []string `json:"objects,omitempty"`
}

// NewClusters is the result of AwaitNewClusters.
type NewClusters struct {
	// Found are Available and not onboarded, at most 100 at a time, by name.
	Found []NewCluster `json:"found,omitempty"`
	// Settled are failed clusters that are onboarded, not Available, or gone by now, or whose objects were deleted.
	Settled []string `json:"settled,omitempty"`
}

// NewCluster is a cluster that has not been onboarded.
type NewCluster struct {
	Name string `json:"name"`
	// Policies of its rollout, in order.
	Policies []string `json:"policies,omitempty"`
	// Problem is why they cannot be determined.
	Problem string `json:"problem,omitempty"`
}

// maxFound is the maximum number of new clusters in one result.
const maxFound = 100

// AwaitNewClusters watches the ManagedClusters of the hub until one needs onboarding, or a failed one is settled.
func (o *Activities) AwaitNewClusters(ctx context.Context, in AwaitNewClustersInput) (NewClusters, error) {
	hub, err := o.Clusters.Hub(ctx)
	if err != nil {
		return NewClusters{}, err
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(activitykit.ManagedClusterKind)
	var found NewClusters
	kinds := []kubeclient.Object{kind}
	if len(in.Objects) > 0 {
		kinds = append(kinds, kube.IfServed(&ranv1.ClusterGroupUpgrade{}))
	}
	err = activitykit.Waits{}.Await(ctx, hub, kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		var err error
		found, err = lookForNew(ctx, hub, in)
		return temporal.Observation{}, len(found.Found)+len(found.Settled) > 0, err
	})
	if meta.IsNoMatchError(err) {
		return found, temporal.Error(temporal.ErrNotFound,
			"the hub does not serve ManagedClusters (cluster.open-cluster-management.io/v1): is the right cluster named as the hub?", err)
	}
	return found, activitykit.Explain(hub, "look for new clusters", err)
}

func lookForNew(ctx context.Context, hub *kube.Cluster, in AwaitNewClustersInput) (NewClusters, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(activitykit.ManagedClusterKind.GroupVersion().WithKind(activitykit.ManagedClusterKind.Kind + "List"))
	if err := hub.Cache.List(ctx, list, kubeclient.UnsafeDisableDeepCopy); err != nil {
		return NewClusters{}, err
	}
	running, failed := setOf(in.Running), setOf(in.Failed)
	var found NewClusters
	var candidates []string
	for i := range list.Items {
		cluster := &list.Items[i]
		name := cluster.GetName()
		switch {
		case failed[name]:
			stays, err := staysFailed(ctx, hub, cluster, slices.Contains(in.Objects, name))
			if err != nil {
				return NewClusters{}, err
			}
			if stays {
				delete(failed, name)
			}
		case !running[name] && rollout.ToOnboard(cluster):
			candidates = append(candidates, name)
		}
	}
	slices.Sort(candidates)
	var err error
	if found.Found, err = newClusters(ctx, hub, candidates[:min(len(candidates), maxFound)]); err != nil {
		return NewClusters{}, err
	}
	for name := range failed {
		found.Settled = append(found.Settled, name)
	}
	slices.Sort(found.Settled)
	return found, nil
}

// newClusters returns those of the clusters that need onboarding. It reads them in parallel: the workflow interrupts a look that takes longer than the
// rollouts of others to end.
func newClusters(ctx context.Context, hub *kube.Cluster, names []string) ([]NewCluster, error) {
	read := make([]*NewCluster, len(names))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, name := range names {
		reads.Go(func() error {
			found, isNew, err := newCluster(reading, hub, name)
			if isNew {
				read[i] = &found
			}
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var found []NewCluster
	for _, one := range read {
		if one != nil {
			found = append(found, *one)
		}
	}
	return found, nil
}

// staysFailed reports whether a failed cluster still counts as failed.
func staysFailed(ctx context.Context, hub *kube.Cluster, cluster *unstructured.Unstructured, hadObject bool) (bool, error) {
	if !rollout.ToOnboard(cluster) || !hadObject {
		return rollout.ToOnboard(cluster), nil
	}
	gone, err := objectGone(ctx, hub, cluster.GetName())
	return !gone, err
}

// newCluster reads from the API server whether the cluster needs onboarding, and by which policies. The cache may be behind, and a cluster that was
// just onboarded must not be onboarded again.
func newCluster(ctx context.Context, hub *kube.Cluster, name string) (found NewCluster, isNew bool, err error) {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(activitykit.ManagedClusterKind)
	err = hub.Client.Get(ctx, kubeclient.ObjectKey{Name: name}, cluster)
	if err != nil || !rollout.ToOnboard(cluster) {
		return NewCluster{}, false, kubeclient.IgnoreNotFound(err)
	}
	replicas := &unstructured.UnstructuredList{}
	replicas.SetGroupVersionKind(policies.Policies.GroupVersion().WithKind(policies.Policies.Kind + "List"))
	selector, err := labels.Parse(policies.Replicas)
	if err != nil {
		return NewCluster{}, false, err
	}
	if err := hub.Client.List(ctx, replicas, kubeclient.InNamespace(name), kubeclient.MatchingLabelsSelector{Selector: selector}); err != nil && !meta.IsNoMatchError(err) {
		return NewCluster{}, false, fmt.Errorf("list the policies in namespace %s: %w", name, err)
	}
	found.Name = name
	if found.Policies, err = rollout.OnboardingPolicies(replicas.Items); err != nil {
		found.Problem = err.Error()
	}
	return found, true, nil
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// RolloutRun names a run of a rollout.
type RolloutRun struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// RunID; empty: the last one.
	RunID string `json:"runID,omitempty"`
}

// RolloutEnd is the end of a rollout.
type RolloutEnd struct {
	Succeeded bool `json:"succeeded"`
	// Reason and Message if it did not succeed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Cancelled is the end of a rollout that was cancelled.
func Cancelled() RolloutEnd {
	return RolloutEnd{Reason: ranv1.ReasonCancelled, Message: "its rollout was cancelled"}
}

// AwaitRollout waits for the end of a rollout.
func (o *Activities) AwaitRollout(ctx context.Context, in RolloutRun) (RolloutEnd, error) {
	stop := activitykit.NewReport(ctx, nil).Start(ctx, nil)
	defer stop()
	id := temporal.ClusterGroupUpgradeID(in.Namespace, in.Name)
	err := o.Temporal.GetWorkflow(ctx, id, in.RunID).Get(ctx, nil)
	failed, over := errors.AsType[*sdktemporal.WorkflowExecutionError](err)
	_, forgotten := errors.AsType[*serviceerror.NotFound](err)
	switch {
	case err == nil:
		return RolloutEnd{Succeeded: true}, nil
	case over:
		return RolloutEnd{Reason: cmp.Or(temporal.ErrorType(failed), "Failed"), Message: temporal.ErrorMessage(failed)}, nil
	case forgotten:
		return RolloutEnd{Reason: temporal.ErrNotFound, Message: "Temporal no longer knows rollout " + in.Namespace + "/" + in.Name}, nil
	}
	return RolloutEnd{}, fmt.Errorf("wait for the end of workflow %s: %w", id, err)
}

package installplans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// MaxApprovals is the maximum number of InstallPlans in one call of ApproveInstallPlans. They are approved at the same time.
const MaxApprovals = activitykit.MaxParallelRequests

// approvalTimeout limits an approval. A cluster that does not answer must not delay the others: it is shorter than the timeout of a short activity.
// Tests raise it, because their servers may be slow.
var approvalTimeout = 3 * time.Second

// ApproveInstallPlansInput names the InstallPlans to approve, at most MaxApprovals.
type ApproveInstallPlansInput struct {
	Rollout   Rollout                 `json:"rollout"`
	Approvals []installplans.Approval `json:"approvals"`
	// Closes is as in AcquireNodeInput: the first close of a window of the clusters.
	Closes *time.Time `json:"closes,omitempty"`
}

// FailedApproval is an InstallPlan that could not be approved, and why.
type FailedApproval struct {
	installplans.Approval
	Message string `json:"message"`
}

// ApproveInstallPlans approves InstallPlans, or lets the agents of their clusters do it. It returns those that it could not approve. Errors: Held if a cluster is held.
func (a *Activities) ApproveInstallPlans(ctx context.Context, in ApproveInstallPlansInput) ([]FailedApproval, error) {
	var clusters []string
	for _, approval := range in.Approvals {
		clusters = append(clusters, approval.Cluster)
	}
	if err := a.Waits.MayBeginOn(ctx, clusters, in.Closes); err != nil {
		return nil, err
	}
	messages := make([]string, len(in.Approvals))
	owner := in.Rollout.owner()
	var approvals errgroup.Group
	approvals.SetLimit(activitykit.MaxParallelRequests)
	for i, approval := range in.Approvals {
		approvals.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, approvalTimeout)
			defer cancel()
			if err := a.approve(ctx, owner, approval); err != nil {
				messages[i] = temporal.Cut(temporal.ErrorMessage(err), messageLimit)
			}
			return nil
		})
	}
	_ = approvals.Wait()
	failed := []FailedApproval{}
	for i, message := range messages {
		if message != "" {
			failed = append(failed, FailedApproval{in.Approvals[i], message})
		}
	}
	return failed, ctx.Err()
}

func (a *Activities) approve(ctx context.Context, owner viewsapi.Owner, approval installplans.Approval) error {
	log := activitykit.OwnerLogger(ctx, approval.Cluster, owner.Mark)
	reached, err := a.Clusters.Reaches(approval.Cluster)
	if err != nil {
		return err
	}
	if reached {
		cluster, err := a.Clusters.Cluster(ctx, approval.Cluster)
		if err != nil {
			return err
		}
		approved, err := approveDirectly(ctx, cluster, approval)
		if err == nil && approved != nil {
			log.Info("Approved "+approval.String(), "subscription", approval.Subscription, "versions", strings.Join(approved.CSVs, ","))
		}
		return err
	}
	hub, err := a.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	requested, err := approveThroughAgent(ctx, hub, owner, approval)
	if err == nil && requested != nil {
		log.Info("Asked the agent of the cluster to approve "+approval.String(), "subscription", approval.Subscription, "versions", strings.Join(requested.CSVs, ","))
	}
	return err
}

// check returns the InstallPlan if it still waits for the approval; nil: it is approved.
func check(approval installplans.Approval, found *unstructured.Unstructured) (*installplans.Plan, error) {
	switch plan := installplans.ReadPlan(found); {
	case plan.UID != approval.UID:
		return nil, fmt.Errorf("InstallPlan %s was replaced", approval.Plan)
	case plan.Approved:
		return nil, nil
	case !plan.Manual:
		return nil, fmt.Errorf("InstallPlan %s needs no approval any longer", approval.Plan)
	case plan.Version != approval.Version:
		return nil, fmt.Errorf("InstallPlan %s has changed since it was read", approval.Plan)
	default:
		return plan, nil
	}
}

// approveDirectly approves an InstallPlan on its cluster, and returns it; nil: it was approved already.
func approveDirectly(ctx context.Context, cluster *kube.Cluster, approval installplans.Approval) (*installplans.Plan, error) {
	found := newObject(installplans.InstallPlans)
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: approval.Namespace, Name: approval.Plan}, found); err != nil {
		return nil, explain(cluster, approval, err)
	}
	plan, err := check(approval, found)
	if plan == nil || err != nil {
		return nil, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": plan.UID, "resourceVersion": plan.Version},
		"spec":     map[string]any{"approved": true},
	})
	if err != nil {
		return nil, err
	}
	return plan, explain(cluster, approval, cluster.Client.Patch(ctx, found, client.RawPatch(types.MergePatchType, patch)))
}

func explain(cluster *kube.Cluster, approval installplans.Approval, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: apply deploy/rbac/install-plans.yaml on the cluster", err)
	}
	return activitykit.Explain(cluster, "approve InstallPlan "+approval.Namespace+"/"+approval.Plan, err)
}

// approveThroughAgent creates the action that approves an InstallPlan, and returns the InstallPlan as it was viewed; nil: it was approved already, or the action exists.
// After a failure it removes the view and the action, so that the agent reads the InstallPlan again. An agent that is offline gets no action: it could carry it out much
// later.
func approveThroughAgent(ctx context.Context, hub *kube.Cluster, owner viewsapi.Owner, approval installplans.Approval) (*installplans.Plan, error) {
	object := approval.Object()
	view, err := viewsapi.Get(ctx, hub.Client, views.Views, owner, approval.Cluster, object)
	if err != nil {
		return nil, activitykit.Explain(hub, "read the view of "+object.String(), err)
	}
	action, err := viewsapi.Get(ctx, hub.Client, views.Actions, owner, approval.Cluster, object)
	if err != nil {
		return nil, activitykit.Explain(hub, "read the action on "+object.String(), err)
	}
	if approval.Failed {
		if err := viewsapi.Delete(ctx, hub, view); err != nil {
			return nil, err
		}
		return nil, viewsapi.Delete(ctx, hub, action)
	}
	viewed, err := readView(view, object)
	if err != nil {
		return nil, err
	}
	plan, err := check(approval, viewed)
	if plan == nil || err != nil {
		return nil, err
	}
	registered := activitykit.ManagedCluster(approval.Cluster)
	if err := client.IgnoreNotFound(hub.Client.Get(ctx, client.ObjectKeyFromObject(registered), registered)); err != nil {
		return nil, activitykit.Explain(hub, "get ManagedCluster "+approval.Cluster, err)
	}
	if policies.Offline(registered) {
		return nil, errors.New("the agent of the cluster is offline")
	}
	if action != nil {
		outcome := views.OutcomeOf(action)
		if pending := !outcome.Done && outcome.Failure == ""; pending || outcome.Done && outcome.Version == plan.Version {
			return nil, nil
		}
		if err := viewsapi.Delete(ctx, hub, action); err != nil {
			return nil, err
		}
	}
	made, err := views.Update(owner.NamespacedName, approval.Cluster, viewed, func(plan *unstructured.Unstructured) error {
		return unstructured.SetNestedField(plan.Object, true, "spec", "approved")
	})
	if err != nil {
		return nil, err
	}
	return plan, viewsapi.Create(ctx, hub, made, owner)
}

// readView returns the object of a view; nil: there is no view.
func readView(view *unstructured.Unstructured, object views.Object) (*unstructured.Unstructured, error) {
	var viewed views.Viewed
	if view != nil {
		viewed = views.Read(view, object)
	}
	switch {
	case viewed.Problem != "":
		return nil, fmt.Errorf("the agent of the cluster cannot read %s: %s", object, viewed.Problem)
	case viewed.Object == nil:
		return nil, fmt.Errorf("the agent of the cluster has not read %s", object)
	}
	return viewed.Object, nil
}

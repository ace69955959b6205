package installplans

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestAPendingInstallPlanIsApprovedAndFollowed(t *testing.T) {
	for name, newScene := range ways {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			before := s.plan()
			seen := s.await(s.approving())
			require.Equal(t, []installplans.Approval{{
				Cluster: s.cluster, Subscription: s.namespace + "/ptp", Namespace: s.namespace, Plan: "install-abc", UID: before.GetUID(), Version: before.GetResourceVersion(),
			}}, seen.Approvals)
			s.approveAll(seen.Approvals...)
			s.requireApproved(before)
			require.Empty(t, s.await("InstallPlan install-abc of Subscription "+s.namespace+"/ptp is approved, installing").Approvals)
			s.approveAll(seen.Approvals...) // another attempt changes nothing

			s.setStatus(installplans.Subscriptions, "ptp", "{state: AtLatestKnown, installedCSV: ptp.v2}")
			require.Empty(t, s.await("").Digest)
			s.removeViews(s.cluster)
			require.Empty(t, s.created())
		})
	}
}

func TestAnotherVersionIsNotApproved(t *testing.T) {
	for name, newScene := range ways {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.requested[0].Spec = map[string]string{"channel": "fast"}
			require.Empty(t, s.await(`Subscription `+s.namespace+`/ptp on the cluster has channel "stable", not "fast" as in the policy`).Approvals)

			s.requested[0].Spec = map[string]string{"channel": "stable"}
			approval := s.await(s.approving()).Approvals[0]
			approval.UID = "another"
			failed := s.approve(approval)
			require.Len(t, failed, 1)
			require.Equal(t, "InstallPlan install-abc was replaced", failed[0].Message)
			s.requireNotApproved()
		})
	}
}

func TestASubscriptionThatAppearsLaterIsSeen(t *testing.T) {
	for name, newScene := range ways {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.requested[0].Name = "later"
			s.await("Subscription " + s.namespace + "/later does not exist on the cluster yet")
			s.create("{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: " + s.namespace +
				", name: later}, spec: {name: ptp, channel: stable, source: redhat, sourceNamespace: marketplace, installPlanApproval: Manual}}")
			s.await("Subscription " + s.namespace + "/later has no InstallPlan yet")
		})
	}
}

func TestAFailedApprovalIsNamedAndRetried(t *testing.T) {
	var refused atomic.Bool
	refused.Store(true)
	s := newAgentScene(t, agent.Options{Refuse: func(string) error {
		if refused.Load() {
			return errors.New("the agent may not")
		}
		return nil
	}})
	before := s.plan()
	seen := s.await(s.approving())
	s.approveAll(seen.Approvals...)
	seen = s.await(s.approving() + " has failed and is retried: failed to handle Update action with err: the agent may not")
	require.True(t, seen.Approvals[0].Failed)
	refused.Store(false)
	s.approveAll(seen.Approvals...) // it is read again
	s.follow()
	s.requireApproved(before)
}

// The InstallPlan is changed after the agent has read it.
func TestAnInstallPlanThatHasChangedIsReadAgain(t *testing.T) {
	var stopped offline
	s := newAgentScene(t, stopped.options())
	seen := s.await(s.approving())
	stopped.Store(true)
	patched := s.plan()
	require.NoError(t, s.hub.Client.Patch(t.Context(), patched, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
	s.approveAll(seen.Approvals...)
	stopped.Store(false)
	s.agents.Wake()
	before := s.plan()
	s.follow()
	s.requireApproved(before)
	require.Equal(t, "yes", s.plan().GetLabels()["changed"])
}

// An action that waits for its agent would take effect outside the window.
func TestAnActionThatWaitsForItsAgentIsRemoved(t *testing.T) {
	var stopped offline
	s := newAgentScene(t, stopped.options())
	seen := s.await(s.approving())
	stopped.Store(true)
	s.approveAll(seen.Approvals...)
	require.Empty(t, s.await(s.approving()+": waiting for the agent of the cluster").Approvals)
	require.Len(t, s.created(), 3, "the views of the Subscription and its InstallPlan, and the action")
	s.removeViews("another")
	require.Len(t, s.created(), 3)
	next := s.rollout
	next.Owner = "cgu/" + s.namespace + "/june/another-run"
	require.NoError(t, removeViews(t, next.Owner), "a run that starts again removes those of the run before")
	require.Empty(t, s.created())
	s.requireNotApproved()
}

func TestViewsOfOthersStay(t *testing.T) {
	s := newAgentScene(t, agent.Options{})
	s.await(s.approving())
	theirs := s.rollout
	theirs.Owner = "cgu/" + s.namespace + "/july/first-run"
	require.NoError(t, removeViews(t, theirs.Owner))
	require.Len(t, s.created(), 2)
	s.removeViews()
	require.Empty(t, s.created())
}

// The spoke serves neither views nor Subscriptions.
func TestAClusterWaitsForAWayToItsInstallPlans(t *testing.T) {
	bare := activitytest.Stack.Cluster(activitytest.SpokeName).Config
	clusters := kube.New(kube.FromConfigs(bare, map[string]*rest.Config{"known": bare}), kube.Options{})
	t.Cleanup(clusters.Close)
	requested := []installplans.Requested{{Namespace: "ptp", Name: "ptp"}}
	in := AwaitInstallPlansInput{
		Rollout: Rollout{Namespace: "default", Name: "june", Owner: "cgu/default/june/1"}, Subscriptions: [][]installplans.Requested{requested}, Gather: time.Hour,
		Clusters: []KnownCluster{{Cluster: "known"}, {Cluster: "unknown"}},
	}
	a := &Activities{Clusters: clusters}
	seen, err := a.AwaitInstallPlans(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, []string{
		"the cluster does not serve Subscriptions: Operator Lifecycle Manager is not installed",
		"InstallPlans cannot be approved: this worker has no credentials for the cluster, and the hub serves no ManagedClusterViews",
	}, []string{seen[0].Message, seen[1].Message})
	require.NoError(t, (&viewsapi.Activities{Clusters: clusters}).RemoveViews(t.Context(), viewsapi.RemoveViewsInput{Owner: in.Rollout.Owner}))
}

// A cluster that cannot be reached does not stop the others.
func TestAnUnreachableClusterIsNamed(t *testing.T) {
	s := newDirectScene(t)
	hub := activitytest.Stack.Cluster(activitytest.HubName).Config
	clusters := kube.New(kube.FromConfigs(hub, map[string]*rest.Config{s.cluster: hub, "away": {Host: "https://127.0.0.1:1"}}), kube.Options{})
	t.Cleanup(clusters.Close)
	seen, err := (&Activities{Clusters: clusters}).AwaitInstallPlans(t.Context(), AwaitInstallPlansInput{
		Rollout: s.rollout, Subscriptions: [][]installplans.Requested{s.requested}, Gather: time.Hour, Clusters: []KnownCluster{{Cluster: "away"}, {Cluster: s.cluster}},
	})
	require.NoError(t, err)
	require.Contains(t, seen[0].Message, "its Subscriptions cannot be read: cluster away")
	require.Len(t, seen[1].Approvals, 1)
}

func TestNoInstallPlanIsApprovedOnAHeldClusterOrAfterItsWindow(t *testing.T) {
	s := newDirectScene(t)
	workflow := &activitytest.HeldWorkflow{}
	guarded := &Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Workflows: workflow}}
	in := ApproveInstallPlansInput{Rollout: s.rollout, Approvals: s.await(s.approving()).Approvals}
	workflow.RequireHeld(t, guarded.ApproveInstallPlans, in, temporal.QueryHeld, []string{s.cluster})
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := in
	late.Closes = &closes
	activitytest.Attempt{Number: 1, At: closes}.RequireClosed(t, guarded.ApproveInstallPlans, late)
	s.requireNotApproved()
	before := s.plan()
	require.NoError(t, activitytest.RunAttempt(2, guarded.ApproveInstallPlans, in))
	s.requireApproved(before)
}

package installplans

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/views"
)

// Reads of InstallPlans get no answer from one cluster.
func TestAClusterThatDoesNotAnswerDoesNotDelayOtherApprovals(t *testing.T) {
	s := newAgentScene(t, agent.Options{})
	seen := s.await(s.approving())
	before := s.plan()
	hub := activitytest.Stack.Cluster(activitytest.HubName)
	proxy, err := faultproxy.Start(hub.Config)
	require.NoError(t, err)
	account, err := hub.ServiceAccountConfig(t.Context(), "drydock-system", "drydock-initiator")
	require.NoError(t, err)
	clusters := kube.New(kube.FromConfigs(hub.Config, map[string]*rest.Config{"stuck": proxy.Config(account)}), kube.Options{})
	t.Cleanup(func() {
		clusters.Close()
		require.NoError(t, proxy.Close())
	})
	proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Resource: "installplans"}, Fault: faultproxy.Stop()})
	lost := seen.Approvals[0]
	lost.Cluster = "stuck"
	limit := approvalTimeout
	t.Cleanup(func() { approvalTimeout = limit })
	var failed []FailedApproval
	for approvalTimeout = 3 * time.Second; approvalTimeout < activitytest.EventTimeout && len(failed) != 1; approvalTimeout *= 2 { // until the other one is made in time
		ctx, cancel := context.WithTimeout(t.Context(), 3*approvalTimeout) // the timeout of the activity
		defer cancel()
		failed, err = (&Activities{Clusters: clusters}).ApproveInstallPlans(ctx, ApproveInstallPlansInput{Rollout: s.rollout, Approvals: append(seen.Approvals, lost)})
		require.NoError(t, err)
	}
	require.Len(t, failed, 1)
	require.Equal(t, lost, failed[0].Approval)
	require.Contains(t, failed[0].Message, "cluster stuck")
	s.requireApproved(before)
}

// A policy that is enforced later requires the other version of the InstallPlan.
func TestAVersionOfALaterPolicyIsNotApproved(t *testing.T) {
	for name, newScene := range ways {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.create("{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: " + s.namespace + ", name: sriov}, spec: {name: sriov, channel: stable, source: redhat, sourceNamespace: marketplace, installPlanApproval: Manual}}")
			s.setStatus(installplans.Subscriptions, "sriov", `{state: UpgradePending, currentCSV: sriov.v5, lastUpdated: "2026-01-10T12:00:00Z", installPlanRef: {name: install-abc}}`)
			s.patchPlan(`{"spec":{"clusterServiceVersionNames":["ptp.v2","sriov.v5"]}}`)
			sriov := []installplans.Requested{{Namespace: s.namespace, Name: "sriov", Spec: map[string]string{"installPlanApproval": "Manual"}}}
			in := AwaitInstallPlansInput{Rollout: s.rollout, Interval: time.Second, Subscriptions: [][]installplans.Requested{sriov, s.requested, sriov}}
			await := func(message string, earlier ...int) installplans.Cluster {
				in.Clusters = []KnownCluster{{Cluster: s.cluster, Policy: 1, Earlier: earlier}}
				for {
					seen, err := s.activities.AwaitInstallPlans(t.Context(), in)
					require.NoError(t, err, "waiting for %q", message)
					if in.Clusters[0].Digest = seen[0].Digest; seen[0].Message == message {
						return seen[0]
					}
				}
			}
			require.Empty(t, await("InstallPlan install-abc of Subscription "+s.namespace+"/ptp also installs sriov.v5, which neither this policy nor an earlier one of the cluster requests: approve it by hand, or add the Subscription to the policy").Approvals)
			require.Len(t, await(s.approving(), 0).Approvals, 1, "an earlier policy of the cluster requires it")
		})
	}
}

// awaitCached waits until the cache of the hub has this object: with an older state, a rollout would make the view its own.
func awaitCached(t *testing.T, made *unstructured.Unstructured) {
	t.Helper()
	hub, err := activitytest.Clusters.Hub(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		cached := &unstructured.Unstructured{}
		cached.SetGroupVersionKind(made.GroupVersionKind())
		return hub.Cache.Get(t.Context(), client.ObjectKeyFromObject(made), cached) == nil && cached.GetUID() == made.GetUID()
	}, activitytest.EventTimeout, 10*time.Millisecond)
}

// A user who may create views, but not actions, knows the names of the views of a rollout.
func TestAViewThatAnotherUserHasCreatedIsNotTrusted(t *testing.T) {
	s := newAgentScene(t, agent.Options{})
	s.create("{apiVersion: operators.coreos.com/v1alpha1, kind: InstallPlan, metadata: {namespace: " + s.namespace + ", name: install-evil}, spec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2], generation: 1}}")
	rollout := types.NamespacedName{Namespace: s.rollout.Namespace, Name: s.rollout.Name}
	plan := views.Object{Kind: installplans.InstallPlans, Namespace: s.namespace, Name: "install-abc"}
	evil := views.View(rollout, s.cluster, views.Object{Kind: plan.Kind, Namespace: plan.Namespace, Name: "install-evil"}, time.Second)
	evil.SetName(views.Name(views.Views, rollout, s.cluster, plan).Name)
	for name, text := range map[string]struct {
		owner, says string
	}{
		"another owner":                {"", plan.String() + " cannot be read: ManagedClusterView " + s.cluster + "/" + evil.GetName() + " is not of this rollout (it belongs to an unknown owner): delete it, or give the rollout another name"},
		"with the mark of the rollout": {s.rollout.Owner, "the agent of the cluster cannot read " + plan.String() + ": ManagedClusterView " + s.cluster + "/" + evil.GetName() + " is not of this object: delete it"},
	} {
		t.Run(name, func(t *testing.T) {
			s.digest = ""
			made := evil.DeepCopy()
			made.SetAnnotations(map[string]string{kube.AnnotationOwner: text.owner})
			require.NoError(t, s.hub.Client.Create(t.Context(), made))
			awaitCached(t, made)
			s.t = t
			require.Empty(t, s.await(text.says).Approvals)
			found := s.plan()
			failed := s.approve(installplans.Approval{Cluster: s.cluster, Subscription: s.namespace + "/ptp", Namespace: s.namespace, Plan: "install-abc", UID: found.GetUID(), Version: found.GetResourceVersion()})
			require.Len(t, failed, 1)
			require.Contains(t, failed[0].Message, "delete it")
			require.Empty(t, s.agents.Actions())
			require.NoError(t, s.hub.Client.Delete(t.Context(), made))
		})
	}
}

// The view still shows the InstallPlan before its approval: a second attempt must not replace the action.
func TestAnActionThatHasSucceededIsNotReplaced(t *testing.T) {
	var stopped offline
	s := newAgentScene(t, stopped.options())
	seen := s.await(s.approving())
	stopped.Store(true)
	s.approveAll(seen.Approvals...)
	action := s.viewOf(views.Actions)
	done := `{"status":{"conditions":[{"type":"Completed","status":"True","reason":"ActionDone","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`
	require.NoError(t, s.hub.Client.Status().Patch(t.Context(), action.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(done))))
	s.approveAll(seen.Approvals...)
	require.Equal(t, action.GetUID(), s.viewOf(views.Actions).GetUID())
}

// The InstallPlan has changed since the decision.
func TestAnInstallPlanIsApprovedOnlyAsItWasDecidedAbout(t *testing.T) {
	s := newDirectScene(t)
	seen := s.await(s.approving())
	s.patchPlan(`{"spec":{"clusterServiceVersionNames":["ptp.v2","sriov.v5"]}}`)
	failed := s.approve(seen.Approvals...)
	require.Len(t, failed, 1)
	require.Equal(t, "InstallPlan install-abc has changed since it was read", failed[0].Message)
	s.requireNotApproved()
}

// An offline agent would carry out the action when it is back, whatever has happened until then.
func TestAnOfflineAgentGetsNoAction(t *testing.T) {
	s := newAgentScene(t, agent.Options{})
	seen := s.await(s.approving())
	activitytest.ManagedCluster(t, s.cluster, nil)
	activitytest.SetAvailable(t, s.cluster, metav1.ConditionUnknown)
	failed := s.approve(seen.Approvals...)
	require.Len(t, failed, 1)
	require.Equal(t, "the agent of the cluster is offline", failed[0].Message)
	require.Empty(t, s.agents.Actions())
}

func TestAMessageOfAClusterIsCut(t *testing.T) {
	w := newWatch(AwaitInstallPlansInput{Clusters: []KnownCluster{{Cluster: "c1"}}})
	w.record(installplans.Cluster{Cluster: "c1", Message: string(make([]byte, 10000))})
	changes, err := w.await(t.Context())
	require.NoError(t, err)
	require.Len(t, changes[0].Message, messageLimit)
}

// A changed state of the only watched cluster is gathered too: an approval passes through several states.
func TestChangesOfOneClusterAreGathered(t *testing.T) {
	w := newWatch(AwaitInstallPlansInput{Clusters: []KnownCluster{{Cluster: "c1", Digest: "known"}}, Gather: time.Hour})
	w.record(installplans.Cluster{Cluster: "c1", Message: "approved"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.await(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

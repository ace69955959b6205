package installplans

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/views"
)

// scene is a cluster with one Subscription, ptp, whose upgrade waits for an approval. The hub plays the cluster. The test plays Operator Lifecycle Manager.
type scene struct {
	t          *testing.T
	hub        *kube.Cluster
	activities *Activities
	rollout    Rollout
	// cluster is the name of the cluster, and namespace that of the Subscription.
	cluster, namespace string
	requested          []installplans.Requested
	// agents simulate the agent of the cluster; nil: the worker has credentials.
	agents *agent.Agents
	// digest is that of the last seen state.
	digest string
}

// ways are the ways to a cluster.
var ways = map[string]func(*testing.T) *scene{
	"with credentials":  newDirectScene,
	"through the agent": func(t *testing.T) *scene { return newAgentScene(t, agent.Options{}) },
}

// newDirectScene creates a scene with a cluster for which the worker has credentials.
func newDirectScene(t *testing.T) *scene {
	t.Helper()
	return newScene(t, activitytest.HubName)
}

// newAgentScene creates a scene with a cluster whose agent is simulated.
func newAgentScene(t *testing.T, options agent.Options) *scene {
	t.Helper()
	hub := activitytest.Stack.Cluster(activitytest.HubName)
	cluster := devstacktest.Namespace(t, hub)
	agents, err := agent.Start(t.Context(), hub.Config, map[string]*rest.Config{cluster: hub.Config}, options)
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	s := newScene(t, cluster)
	s.agents = agents
	return s
}

func newScene(t *testing.T, cluster string) *scene {
	t.Helper()
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	s := &scene{
		t: t, hub: activitytest.BareCluster(t), activities: &Activities{Clusters: activitytest.Clusters}, cluster: cluster, namespace: namespace,
		rollout:   Rollout{Namespace: namespace, Name: "june", Owner: "cgu/" + namespace + "/june/first-run"},
		requested: []installplans.Requested{{Namespace: namespace, Name: "ptp", Spec: map[string]string{"channel": "stable", "installPlanApproval": "Manual"}}},
	}
	s.create(fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {namespace: %s, name: ptp}
spec: {name: ptp, channel: stable, source: redhat, sourceNamespace: marketplace, installPlanApproval: Manual}`, namespace))
	s.create(fmt.Sprintf(`
apiVersion: operators.coreos.com/v1alpha1
kind: InstallPlan
metadata: {namespace: %s, name: install-abc, labels: {operators.coreos.com/ptp: ""}}
spec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2], generation: 3}`, namespace))
	s.setStatus(installplans.Subscriptions, "ptp", `{state: UpgradePending, installedCSV: ptp.v1, currentCSV: ptp.v2, lastUpdated: "2026-01-10T12:00:00Z", installPlanRef: {name: install-abc}}`)
	return s
}

func (s *scene) create(text string) {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(text), &object.Object))
	require.NoError(s.t, s.hub.Client.Create(s.t.Context(), object))
}

// setStatus sets fields of the status of an object of the cluster.
func (s *scene) setStatus(kind schema.GroupVersionKind, name, status string) {
	s.t.Helper()
	patch, err := yaml.YAMLToJSON([]byte("status: " + status))
	require.NoError(s.t, err)
	object := newObject(kind)
	object.SetNamespace(s.namespace)
	object.SetName(name)
	require.NoError(s.t, s.hub.Client.Status().Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

// plan reads the InstallPlan.
func (s *scene) plan() *unstructured.Unstructured {
	s.t.Helper()
	plan := newObject(installplans.InstallPlans)
	require.NoError(s.t, s.hub.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "install-abc"}, plan))
	return plan
}

// await returns the state of the cluster when it has this message.
func (s *scene) await(message string) installplans.Cluster {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), activitytest.EventTimeout)
	defer cancel()
	for {
		seen, err := s.activities.AwaitInstallPlans(ctx, AwaitInstallPlansInput{
			Rollout: s.rollout, Subscriptions: [][]installplans.Requested{nil, s.requested}, Interval: time.Second,
			Clusters: []KnownCluster{{Cluster: s.cluster, Policy: 1, Digest: s.digest}},
		})
		require.NoError(s.t, err, "waiting for %q", message)
		require.Len(s.t, seen, 1)
		require.NotEqual(s.t, s.digest, seen[0].Digest, "it returns only changes")
		s.digest = seen[0].Digest
		if seen[0].Message == message {
			return seen[0]
		}
	}
}

// follow approves what is due until the InstallPlan is approved. Like a rollout, it repeats what fails, for example because a cache lags.
func (s *scene) follow() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), activitytest.EventTimeout)
	defer cancel()
	for approved := false; !approved; approved, _, _ = unstructured.NestedBool(s.plan().Object, "spec", "approved") {
		next, err := s.activities.AwaitInstallPlans(ctx, AwaitInstallPlansInput{
			Rollout: s.rollout, Subscriptions: [][]installplans.Requested{s.requested}, Interval: time.Second, Clusters: []KnownCluster{{Cluster: s.cluster, Digest: s.digest}},
		})
		require.NoError(s.t, err)
		s.digest = next[0].Digest
		if len(s.approve(next[0].Approvals...)) > 0 {
			s.digest = ""
		}
	}
}

func (s *scene) approve(approvals ...installplans.Approval) []FailedApproval {
	s.t.Helper()
	failed, err := s.activities.ApproveInstallPlans(s.t.Context(), ApproveInstallPlansInput{Rollout: s.rollout, Approvals: approvals})
	require.NoError(s.t, err)
	return failed
}

// approveAll approves until none has failed: a cluster that answers late is reported as failed, and is approved later.
func (s *scene) approveAll(approvals ...installplans.Approval) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		failed, err := s.activities.ApproveInstallPlans(s.t.Context(), ApproveInstallPlansInput{Rollout: s.rollout, Approvals: approvals})
		return err == nil && len(failed) == 0
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func (s *scene) removeViews(clusters ...string) {
	s.t.Helper()
	require.NoError(s.t, removeViews(s.t, s.rollout.Owner, clusters...))
}

func removeViews(t *testing.T, owner string, clusters ...string) error {
	t.Helper()
	return (&viewsapi.Activities{Clusters: activitytest.Clusters}).RemoveViews(t.Context(), viewsapi.RemoveViewsInput{Owner: owner, Clusters: clusters})
}

// created returns the names of the views and actions of the rollout.
func (s *scene) created() []string {
	s.t.Helper()
	names := []string{}
	for _, kind := range []schema.GroupVersionKind{views.Views, views.Actions} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		labels := policies.RolloutLabels(types.NamespacedName{Namespace: s.rollout.Namespace, Name: s.rollout.Name})
		require.NoError(s.t, s.hub.Client.List(s.t.Context(), list, client.MatchingLabels(labels)))
		for _, item := range list.Items {
			names = append(names, item.GetKind()+" "+item.GetName())
		}
	}
	return names
}

// approving is the message while the InstallPlan may be approved.
func (s *scene) approving() string {
	return "approving InstallPlan install-abc of Subscription " + s.namespace + "/ptp"
}

// requireApproved waits until the InstallPlan is approved, and requires that nothing else of it has changed.
func (s *scene) requireApproved(before *unstructured.Unstructured) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		approved, _, _ := unstructured.NestedBool(s.plan().Object, "spec", "approved")
		assert.True(c, approved)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	after := s.plan()
	require.NoError(s.t, unstructured.SetNestedField(before.Object, true, "spec", "approved"))
	require.Equal(s.t, before.Object["spec"], after.Object["spec"])
	require.Equal(s.t, before.GetLabels(), after.GetLabels())
}

// requireNotApproved requires that the InstallPlan is not approved now.
func (s *scene) requireNotApproved() {
	s.t.Helper()
	approved, _, _ := unstructured.NestedBool(s.plan().Object, "spec", "approved")
	require.False(s.t, approved)
}

// viewOf reads the view, or the action, of the InstallPlan.
func (s *scene) viewOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	s.t.Helper()
	rollout := types.NamespacedName{Namespace: s.rollout.Namespace, Name: s.rollout.Name}
	found := newObject(kind)
	require.NoError(s.t, s.hub.Client.Get(s.t.Context(), views.Name(kind, rollout, s.cluster, views.Object{Kind: installplans.InstallPlans, Namespace: s.namespace, Name: "install-abc"}), found))
	return found
}

// patchPlan changes the InstallPlan.
func (s *scene) patchPlan(patch string) {
	s.t.Helper()
	require.NoError(s.t, s.hub.Client.Patch(s.t.Context(), s.plan(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// offline is a switch for an agent.
type offline struct{ atomic.Bool }

func (o *offline) options() agent.Options {
	return agent.Options{Offline: func(string) bool { return o.Load() }}
}

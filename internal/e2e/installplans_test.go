package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/temporal"
)

var (
	subscriptionKind = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
	installPlanKind  = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"}
)

// lifecycle simulates Operator Lifecycle Manager in one namespace of a cluster, for the operator ptp.
type lifecycle struct {
	t         *testing.T
	api       client.Client
	namespace string
}

// newLifecycle creates the Subscription with its version ptp.v1 installed.
func newLifecycle(t *testing.T, spoke *devstack.Cluster, namespace string) *lifecycle {
	t.Helper()
	api, err := client.New(spoke.Config, client.Options{})
	require.NoError(t, err)
	l := &lifecycle{t: t, api: api, namespace: namespace}
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(t, api.Create(t.Context(), created))
	t.Cleanup(func() { require.NoError(t, api.Delete(context.Background(), created)) })
	l.create(`{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: NS, name: ptp},
spec: {name: ptp, channel: stable, source: redhat, sourceNamespace: marketplace, startingCSV: ptp.v2, installPlanApproval: Manual}}`)
	l.setStatus(`{state: AtLatestKnown, installedCSV: ptp.v1, currentCSV: ptp.v1, lastUpdated: "2026-01-10T12:00:00Z"}`)
	return l
}

func (l *lifecycle) create(text string) {
	l.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(l.t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "NS", l.namespace)), &object.Object))
	require.NoError(l.t, l.api.Create(l.t.Context(), object))
}

// setStatus sets fields of the status of the Subscription.
func (l *lifecycle) setStatus(status string) {
	l.t.Helper()
	patch, err := yaml.YAMLToJSON([]byte("status: " + status))
	require.NoError(l.t, err)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(subscriptionKind)
	object.SetNamespace(l.namespace)
	object.SetName("ptp")
	require.NoError(l.t, l.api.Status().Patch(l.t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}

// offer creates an InstallPlan for a version, which waits for an approval.
func (l *lifecycle) offer(plan, csv string) {
	l.t.Helper()
	l.create(fmt.Sprintf("{apiVersion: operators.coreos.com/v1alpha1, kind: InstallPlan, metadata: {namespace: NS, name: %s, labels: {owner: ptp}}, spec: {approval: Manual, approved: false, clusterServiceVersionNames: [%s], generation: 2}}", plan, csv))
	l.setStatus(fmt.Sprintf("{state: UpgradePending, currentCSV: %s, installPlanRef: {name: %s}}", csv, plan))
}

// plan reads an InstallPlan.
func (l *lifecycle) plan(name string) (*unstructured.Unstructured, error) {
	plan := &unstructured.Unstructured{}
	plan.SetGroupVersionKind(installPlanKind)
	return plan, l.api.Get(l.t.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, plan)
}

// awaitApproved waits until an InstallPlan is approved, and requires that nothing else of it has changed.
func (l *lifecycle) awaitApproved(name string) {
	l.t.Helper()
	require.EventuallyWithT(l.t, func(c *assert.CollectT) {
		plan, err := l.plan(name)
		assert.NoError(c, err)
		approved, _, _ := unstructured.NestedBool(plan.Object, "spec", "approved")
		assert.True(c, approved)
	}, stateLimit, 100*time.Millisecond)
	plan, err := l.plan(name)
	require.NoError(l.t, err)
	require.Equal(l.t, map[string]string{"owner": "ptp"}, plan.GetLabels())
	require.Equal(l.t, map[string]any{"approval": "Manual", "approved": true, "clusterServiceVersionNames": []any{"ptp.v2"}, "generation": int64(2)}, plan.Object["spec"])
}

// operatorPolicy is an inform policy for the Subscription with its version ptp.v2, bound to clusters.
func operatorPolicy(name, namespace string, clusters ...string) string {
	return strings.Replace(informPolicy(name, "", clusters...), "objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}",
		"objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: "+namespace+", name: ptp}, spec: {channel: stable, startingCSV: ptp.v2, installPlanApproval: Manual}}", 1)
}

// viewsAndActions are the names of the views and actions of a rollout.
func viewsAndActions(t *testing.T, rollout string) []string {
	t.Helper()
	var names []string
	for _, kind := range []string{"view.open-cluster-management.io/v1beta1, ManagedClusterView", "action.open-cluster-management.io/v1beta1, ManagedClusterAction"} {
		version, kind, _ := strings.Cut(kind, ", ")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		require.NoError(t, hubClient(t).List(t.Context(), list, client.MatchingLabels{"openshift-cluster-group-upgrades/clusterGroupUpgrade": rollout}))
		for _, item := range list.Items {
			names = append(names, kind+" "+item.GetName())
		}
	}
	return names
}

// upgradeOperator rolls out ptp.v2 to a cluster for which the worker has credentials, and to one that only the hub reaches. Only the agent of the latter can approve its
// InstallPlans. disturb is called while these wait for their approval.
func upgradeOperator(t *testing.T, direct, behind *devstack.Cluster, disturb func()) {
	t.Helper()
	const name = "operators"
	onlyHub := "island-" + direct.Name
	register(t, onlyHub, nil)
	var installed atomic.Bool
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration {
		if installed.Load() {
			return 0
		}
		return -1
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	agents, err := agent.Start(t.Context(), theFleet.Hub.Config, map[string]*rest.Config{onlyHub: behind.Config}, agent.Options{})
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	namespace := "ptp-" + direct.Name
	clusters := []*lifecycle{newLifecycle(t, direct, namespace), newLifecycle(t, behind, namespace)}
	createOnHub(t, operatorPolicy("ptp", namespace, direct.Name, onlyHub))
	awaitNonCompliant(t, 2, "ptp")
	r := applyRollout(t, fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [%s, %s]
  managedPolicies: [ptp]
  remediationStrategy: {maxConcurrency: 2, timeout: 20}`, name, direct.Name, onlyHub))
	await := func(message string) {
		t.Helper()
		awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
			return strings.Contains(clusterOf(s, direct.Name).Message, message) && strings.Contains(clusterOf(s, onlyHub).Message, message)
		})
	}
	await("waiting for the cluster to comply; Subscription " + namespace + "/ptp has installed ptp.v1, and its catalog has no update to ptp.v2")
	for _, cluster := range clusters {
		cluster.offer("install-3", "ptp.v3")
	}
	await("InstallPlan install-3 of Subscription " + namespace + "/ptp installs ptp.v3, not the requested ptp.v2")
	for _, cluster := range clusters {
		cluster.offer("install-2", "ptp.v2")
	}
	disturb()
	for _, cluster := range clusters {
		cluster.awaitApproved("install-2")
		other, err := cluster.plan("install-3")
		require.NoError(t, err)
		approved, _, _ := unstructured.NestedBool(other.Object, "spec", "approved")
		require.False(t, approved, "another version")
	}
	await("InstallPlan install-2 of Subscription " + namespace + "/ptp is approved, installing")
	require.Equal(t, []string{onlyHub + " InstallPlan " + namespace + "/install-2"}, agents.Actions(), "once")
	for _, cluster := range clusters {
		cluster.setStatus("{state: AtLatestKnown, installedCSV: ptp.v2}")
	}
	installed.Store(true)
	hub.Evaluate()
	status, code := awaitEnd(t, name)
	require.Zero(t, code, "%v", status.Conditions)
	require.EqualValues(t, 2, status.Counts.Complete)
	require.Eventually(t, func() bool { return agents.Err() == nil }, stateLimit, 100*time.Millisecond, "conflicts with other writers are retried")
	requireNoHubObjects(t, name)
	require.Empty(t, viewsAndActions(t, name))
	shown := r.awaitCondition("Succeeded", "True Completed")
	require.Eventually(t, func() bool { return slices.Contains(eventsOf(t, shown), "CguApprovingInstallPlans") }, stateLimit, 200*time.Millisecond) // Events follow the status
}

func TestInstallPlansAreApprovedDirectlyAndThroughAgents(t *testing.T) {
	reserve(t, policyHub, "spoke-4")
	upgradeOperator(t, theFleet.Spokes[3], theFleet.Spokes[4], func() {})
}

func TestInstallPlansAreApprovedAlthoughTheWorkerIsKilled(t *testing.T) {
	alone(t)
	upgradeOperator(t, theFleet.Spokes[0], theFleet.Spokes[1], func() {
		require.NoError(t, theFleet.Worker.Kill())
		require.NoError(t, theFleet.Worker.Start(t.Context()))
	})
}

// awaitServed waits until the agent of a cluster has served everything that is on the hub now.
func awaitServed(t *testing.T, cluster, namespace string) {
	t.Helper()
	createOnHub(t, `
apiVersion: view.open-cluster-management.io/v1beta1
kind: ManagedClusterView
metadata: {namespace: `+cluster+`, name: last}
spec: {scope: {apiGroup: operators.coreos.com, version: v1alpha1, kind: Subscription, namespace: `+namespace+`, name: ptp}}`)
	hub, last := hubClient(t), &unstructured.Unstructured{}
	last.SetAPIVersion("view.open-cluster-management.io/v1beta1")
	last.SetKind("ManagedClusterView")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, hub.Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: "last"}, last))
		conditions, _, _ := unstructured.NestedSlice(last.Object, "status", "conditions")
		assert.NotEmpty(c, conditions)
	}, stateLimit, 100*time.Millisecond)
}

// The agent of the cluster has not begun the action when the rollout is terminated.
func TestAnActionOfATerminatedRolloutTakesNoEffect(t *testing.T) {
	reserve(t, policyHub, "spoke-5")
	const name, cluster, namespace = "cut-off", "island", "ptp-island"
	register(t, cluster, nil)
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return -1 }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	var begins atomic.Bool
	agents, err := agent.Start(t.Context(), theFleet.Hub.Config, map[string]*rest.Config{cluster: theFleet.Spokes[4].Config}, agent.Options{
		Refuse: func(string) error {
			if begins.Load() {
				return nil
			}
			return agent.ErrNotBegun
		},
	})
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	operator := newLifecycle(t, theFleet.Spokes[4], namespace)
	createOnHub(t, operatorPolicy("island-ptp", namespace, cluster))
	awaitNonCompliant(t, 1, "island-ptp")
	text := fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [%s]
  managedPolicies: [island-ptp]
  remediationStrategy: {maxConcurrency: 1, timeout: 20}`, name, cluster)
	startRollout(t, text)
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return strings.Contains(clusterOf(s, cluster).Message, "has installed ptp.v1")
	})
	operator.offer("install-2", "ptp.v2")
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return strings.HasSuffix(clusterOf(s, cluster).Message, "approving InstallPlan install-2 of Subscription "+namespace+"/ptp: waiting for the agent of the cluster")
	})
	isAction := func(name string) bool { return strings.HasPrefix(name, "ManagedClusterAction") }
	require.True(t, slices.ContainsFunc(viewsAndActions(t, name), isAction))
	require.NoError(t, temporalClient(t).TerminateWorkflow(t.Context(), temporal.ClusterGroupUpgradeID("default", name), "", "test"))
	require.Eventually(t, func() bool { return len(viewsAndActions(t, name)) == 0 }, stateLimit, time.Second, "the sweeper of the hub removes them")
	begins.Store(true)
	awaitServed(t, cluster, namespace)
	agents.Stop() // after what it has begun
	require.Empty(t, agents.Actions())
	plan, err := operator.plan("install-2")
	require.NoError(t, err)
	approved, _, _ := unstructured.NestedBool(plan.Object, "spec", "approved")
	require.False(t, approved)

	startRollout(t, text) // it adopts and removes what the terminated one left on the hub
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return strings.Contains(clusterOf(s, cluster).Message, "waiting for the agent of the cluster to read")
	})
	succeeds(t, "upgrade", "cancel", name)
	awaitEnd(t, name)
	requireNoHubObjects(t, name)
}

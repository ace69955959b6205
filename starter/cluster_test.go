package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/setup"
)

func TestCommandsOnARealCluster(t *testing.T) {
	isolate(t)
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true}},
		Temporal: &devstack.TemporalOptions{},
	})
	hub := stack.Cluster("hub")
	t.Setenv("TEMPORAL_ADDRESS", stack.Temporal.Address)
	t.Setenv("KUBECONFIG", hub.KubeconfigFile)
	objects, err := dynamic.NewForConfig(hub.Config)
	require.NoError(t, err)

	t.Run("doctor reports missing CRDs with the fix", doctorNamesMissingCRDs)
	t.Run("locks of a cluster that does not serve them are not reported as none", refusesClustersWithoutLocks)
	t.Run("setup keeps a foreign CRD, and reports its missing fields", func(t *testing.T) { setupKeepsForeignCRD(t, objects) })
	t.Run("setup installs the other CRDs, and updates its own", func(t *testing.T) { setupInstalls(t, objects) })
	t.Run("doctor accepts the CRDs", doctorContentWithCluster)
	t.Run("doctor reports running original operators", func(t *testing.T) { doctorNamesOperators(t, objects) })
	t.Run("doctor shows where clusters come from", func(t *testing.T) { doctorShowsWhereClustersComeFrom(t, hub, objects) })
	t.Run("a plan from the live hub equals that from a file of its objects", func(t *testing.T) { plansAlike(t, objects) })
	t.Run("a schedule from the live cluster equals that from a file of its objects", func(t *testing.T) { schedulesAlike(t, objects) })
	t.Run("lock commands on the live cluster equal those on a file of its objects", func(t *testing.T) { locksAlike(t, hub.Config) })
	t.Run("health checks are evaluated on the live cluster and on endpoints", checksLiveHealth)
	t.Run("a live HarborCluster is evaluated as one in a file", func(t *testing.T) { harborsAlike(t, hub.Config) })
	t.Run("a run that only the hub has saved is listed", func(t *testing.T) { listsTheSavedRun(t, hub.Config) })
	t.Run("a window that is stored on the hub can be read from its printed YAML", func(t *testing.T) { readsAStoredWindow(t, objects) })
	t.Run("events of Drydock are listed and followed", func(t *testing.T) { listsEvents(t, hub.Config) })
	t.Run("contexts are completed, and an unknown one is an error", namesContexts)
}

var (
	crdResource            = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	managedClusterResource = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
)

const lockCRD = "nodeworkloadlocks.lcm.mirantis.com"

func doctorNamesMissingCRDs(t *testing.T) {
	doctorSays(t, []string{
		`(?m)^ok +hub hub: objects +not on ClusterGroupUpgrade, MaintenanceWindow, Component, Maintenance, Incident: not served`,
		`(?m)^ok +hub hub: managed clusters`,
		`(?m)^NOT OK +spoke hub: CRDs +missing: .*` + lockCRD,
	}, "--hub-context", "hub", "--spoke-context", "hub")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := drydock(t, "doctor", "--hub-context", "hub", "--spoke-context", "hub", "-o", "json")
		assert.Equal(c, exitFailed, got.status)
		var findings []finding
		assert.NoError(c, json.Unmarshal([]byte(got.stdout), &findings))
		assert.Contains(c, findings, finding{
			Check: "hub hub: CRDs", Fix: "run `drydock setup --hub-context hub`",
			Detail: "missing: maintenancewindows.drydock.dev, clustergroupupgrades.ran.openshift.io, precachingconfigs.ran.openshift.io, components.sreportal.io, incidents.sreportal.io, maintenances.sreportal.io",
		})
		assert.Contains(c, findings, finding{
			Check: "hub hub: namespace", Fix: "run `drydock setup --hub-context hub`",
			Detail: "drydock-system is missing: holds and the final status of rollouts are not saved, and no rollout can be retried",
		})
	}, patience, tick)

	got := drydock(t, "doctor", "--spoke-context", "nowhere")
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stdout, `kubeconfig has no context "nowhere"; it has hub`)
}

// refusesClustersWithoutLocks reads the wrong context: a hub.
func refusesClustersWithoutLocks(t *testing.T) {
	for _, verb := range []string{"list", "progress"} {
		require.Equal(t, outcome{
			status: exitFailed,
			stderr: "error: the cluster of context hub (--context) does not serve NodeWorkloadLocks (lcm.mirantis.com/v1alpha1): name the context of the spoke\n",
		}, drydock(t, "lock", verb))
	}
	require.Equal(t, "the cluster of context hub (--context) is not held\n", succeeds(t, "lock", "gate"))
	got := drydock(t, "lock", "gate", "--node", "worker-9")
	require.Equal(t, outcome{status: exitFailed, stderr: "error: node worker-9 not found in the cluster of context hub (--context)\n"}, got)
}

// setupKeepsForeignCRD creates the CRD of node locks of an older operator, without the release field.
func setupKeepsForeignCRD(t *testing.T, objects dynamic.Interface) {
	wanted, err := setup.Definitions(setup.Spoke)
	require.NoError(t, err)
	i := slices.IndexFunc(wanted, func(d *unstructured.Unstructured) bool { return d.GetName() == lockCRD })
	foreign := wanted[i].DeepCopy()
	versions, _, err := unstructured.NestedSlice(foreign.Object, "spec", "versions")
	require.NoError(t, err)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "release")
	require.NoError(t, unstructured.SetNestedSlice(foreign.Object, versions, "spec", "versions"))
	_, err = objects.Resource(crdResource).Create(t.Context(), foreign, metav1.CreateOptions{})
	require.NoError(t, err)
	before := crdNamed(t, objects, lockCRD)

	steps := parsed[[]setupStep](t, "setup", "--spoke-context", "hub")
	i = slices.IndexFunc(steps, func(s setupStep) bool { return s.What == "CRD "+lockCRD })
	require.Equal(t, setupStep{
		Where: "spoke hub", What: "CRD " + lockCRD, Result: "kept", Note: "another client created it, and it lacks these fields: status.release",
	}, steps[i])
	require.Equal(t, before.GetGeneration(), crdNamed(t, objects, lockCRD).GetGeneration())
}

func crdNamed(t *testing.T, objects dynamic.Interface, name string) *unstructured.Unstructured {
	t.Helper()
	definition, err := objects.Resource(crdResource).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return definition
}

func setupInstalls(t *testing.T, objects dynamic.Interface) {
	const cgus = "clustergroupupgrades.ran.openshift.io"
	table := succeeds(t, "setup", "--hub-context", "hub")
	require.Regexp(t, `(?m)^hub hub +CRD `+cgus+` +added$`, table)
	require.Regexp(t, `(?m)^hub hub +namespace drydock-system +added$`, table)
	require.True(t, setup.Established(crdNamed(t, objects, cgus)), "setup waits until the cluster serves it")

	// An older version of the CRD lacked a short name.
	older := crdNamed(t, objects, cgus)
	require.NoError(t, unstructured.SetNestedStringSlice(older.Object, nil, "spec", "names", "shortNames"))
	older.SetManagedFields(nil)
	_, err := objects.Resource(crdResource).Apply(t.Context(), cgus, withoutServerFields(older), metav1.ApplyOptions{FieldManager: setup.FieldManager, Force: true})
	require.NoError(t, err)
	table = succeeds(t, "setup", "--hub-context", "hub")
	require.Regexp(t, `(?m)^hub hub +CRD `+cgus+` +upToDate$`, table)
	require.Regexp(t, `(?m)^hub hub +namespace drydock-system +upToDate$`, table)
	prints(t, `(?m)^ok +hub hub: namespace +drydock-system exists$`, "doctor", "--hub-context", "hub")
	shortNames, _, err := unstructured.NestedStringSlice(crdNamed(t, objects, cgus).Object, "spec", "names", "shortNames")
	require.NoError(t, err)
	require.Equal(t, []string{"cgu"}, shortNames)
}

func withoutServerFields(object *unstructured.Unstructured) *unstructured.Unstructured {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return object
}

func doctorContentWithCluster(t *testing.T) {
	doctorSays(t, []string{
		`(?m)^ok +hub hub: CRDs`,
		`(?m)^ok +hub hub: managed clusters`,
		`(?m)^WARNING +spoke hub: CRDs +.*` + lockCRD + `: another client created it, and it lacks these fields: status\.release`,
		`(?m)^ok +hub hub: objects +workers with controllers act on ClusterGroupUpgrade, MaintenanceWindow, Component, Maintenance, Incident$`,
		`(?m)^ok +spoke hub: objects +workers with controllers act on NodeMaintenance, MaintenanceOperatorConfig, WorkloadLockPolicy, HarborCluster$`,
	}, "--hub-context", "hub", "--spoke-context", "hub")
}

func doctorNamesOperators(t *testing.T, objects dynamic.Interface) {
	const check = "hub hub: operators"
	prints(t, `(?m)^ok +`+check+` +none runs for ClusterGroupUpgrades, NodeMaintenances or Maintenances$`, "doctor", "--hub-context", "hub")
	resource := func(group, name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
	}
	deployments := objects.Resource(resource("apps", "deployments")).Namespace("default")
	for _, one := range []struct {
		client dynamic.ResourceInterface
		object string
	}{
		{objects.Resource(resource("rbac.authorization.k8s.io", "clusterroles")), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: upgrader}
rules: [{apiGroups: [ran.openshift.io], resources: [clustergroupupgrades/status], verbs: [get, update]}]`},
		{objects.Resource(resource("rbac.authorization.k8s.io", "clusterrolebindings")), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: upgrader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: upgrader}
subjects: [{kind: ServiceAccount, namespace: default, name: upgrader}]`},
		{deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: upgrade-operator, namespace: default}
spec:
  selector: {matchLabels: {app: upgrader}}
  template:
    metadata: {labels: {app: upgrader}}
    spec: {serviceAccountName: upgrader, containers: [{name: manager, image: registry.example.com/upgrader:1.0}]}`},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		require.NoError(t, yaml.Unmarshal([]byte(one.object), &object.Object))
		_, err := one.client.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	doctorSays(t, []string{
		`(?m)^ok +` + check + ` +still running, and .* left to them: Deployment default/upgrade-operator for clustergroupupgrades.ran.openshift.io$`,
		`(?m)^ok +hub hub: objects +workers with controllers act on MaintenanceWindow, .*; not on ClusterGroupUpgrade: Deployment default/upgrade-operator acts on them$`,
	}, "--hub-context", "hub", "--spoke-context", "hub")

	_, err := deployments.Patch(t.Context(), "upgrade-operator", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	prints(t, `(?m)^ok +`+check+` +none runs for ClusterGroupUpgrades, NodeMaintenances or Maintenances$`, "doctor", "--hub-context", "hub")
}

func plansAlike(t *testing.T, objects dynamic.Interface) {
	for _, document := range strings.Split(hubObjects, "---") {
		cluster := &unstructured.Unstructured{Object: map[string]any{}}
		require.NoError(t, yaml.Unmarshal([]byte(document), &cluster.Object))
		_, err := objects.Resource(managedClusterResource).Create(t.Context(), cluster, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	list, err := objects.Resource(managedClusterResource).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	text, err := list.MarshalJSON()
	require.NoError(t, err)
	at := []string{"upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--at", "2026-11-20T22:00:00Z", "-o", "json"}
	offline := succeeds(t, append(at, "--snapshot", file(t, "hub.json", string(text)))...)
	require.Equal(t, offline, succeeds(t, append(at, "--context", "hub")...))
	var plan rollout.Plan
	require.NoError(t, json.Unmarshal([]byte(offline), &plan))
	require.Len(t, plan.RemediationPlan, 3)
}

func namesContexts(t *testing.T) {
	require.Equal(t, "hub\n:4\n", succeedsSilently(t, "__complete", "upgrade", "plan", "--context", ""))
	got := drydock(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--context", "nowhere")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, `error: kubeconfig has no context "nowhere"; it has hub`)
	got = drydock(t, "setup", "--hub-context", "hub", "--spoke-context", "nowhere")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, `error: kubeconfig has no context "nowhere"; it has hub`)
	require.Empty(t, got.stdout, "setup changes nothing for an unknown context")
}

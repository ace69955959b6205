package snapshot_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/snapshot"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

const policyRollout = `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: r, namespace: default}
spec:
  clusterLabelSelectors: [{}]
  managedPolicies: [p1]
  remediationStrategy: {maxConcurrency: 1}
`

// decisions returns all decisions from the objects, as Drydock prints them.
func decisions(t *testing.T, reader client.Reader) map[string]string {
	t.Helper()
	objects, err := manifest.Decode("rollout", []byte(policyRollout))
	require.NoError(t, err)
	cgu := objects[0].(*ranv1.ClusterGroupUpgrade)

	inventory, err := snapshot.Inventory(t.Context(), reader, cgu, noon)
	require.NoError(t, err)
	schedulingInput, err := snapshot.Scheduling(t.Context(), reader, nil, types.NamespacedName{Namespace: kube.SystemNamespace}, noon)
	require.NoError(t, err)
	drainInput, err := drain.Read(t.Context(), reader, "n1")
	require.NoError(t, err)
	preview, err := drain.Decide(t.Context(), "n1", drainInput, maintenancev1.DrainSpec{}, noon)
	require.NoError(t, err)

	printed := map[string]string{}
	for name, decision := range map[string]any{
		"plan": rollout.NewPlan(cgu, inventory, noon), "schedule": scheduling.Schedule(schedulingInput), "drain": preview,
	} {
		text, err := json.MarshalIndent(decision, "", "  ")
		require.NoError(t, err)
		printed[name] = string(text)
	}
	return printed
}

func TestDecisionsFromAFile(t *testing.T) {
	file, err := snapshot.Open("testdata/cluster.yaml", nil)
	require.NoError(t, err)
	got := decisions(t, file)

	var plan rollout.Plan
	require.NoError(t, json.Unmarshal([]byte(got["plan"]), &plan))
	require.Equal(t, [][]string{{"c1"}, {"c3"}}, plan.RemediationPlan)
	require.Nil(t, plan.PolicyEnforcement, "the file does not tell what the hub can do")
	var schedule scheduling.Decision
	require.NoError(t, json.Unmarshal([]byte(got["schedule"]), &schedule))
	require.Equal(t, 2, schedule.AvailableSlots)
	require.Equal(t, "m3", schedule.Granted[0].Name)
	require.Equal(t, scheduling.BudgetReason("zones"), schedule.Waiting[0].Reason)
	require.Contains(t, got["drain"], `"name": "bare"`)
	require.NotContains(t, got["drain"], "elsewhere")
}

func TestAClusterHasOneConfiguration(t *testing.T) {
	file, err := snapshot.Parse("f", []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n"+
		"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: a, name: other}}\n---\n"+
		"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: a, name: default}}"))
	require.NoError(t, err)
	_, err = snapshot.Scheduling(t.Context(), file, nil, types.NamespacedName{Namespace: "a"}, noon)
	require.EqualError(t, err, "2 MaintenanceOperatorConfigs found (a/default, a/other): delete all but one, or name one with --maintenance-config of drydock-worker")
}

// The same cluster is read from its API server, from a cache and from files.
func TestAFileOfLiveObjectsGivesTheDecisionsOfTheLiveCluster(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{
		Name: "hub", CRDs: []string{"deploy/crds", "deploy/crds/testing"}, ControlPlaneOnly: true,
	}}})
	clusters := kube.New(kube.FromConfigs(stack.Cluster("hub").Config, nil), kube.Options{})
	t.Cleanup(clusters.Close)
	hub, err := clusters.Hub(t.Context())
	require.NoError(t, err)
	create(t, hub.Client)

	live := decisions(t, hub.Client)
	cached := decisions(t, hub.Cache)
	cached["plan"] = live["plan"] // the cache has only parts of policies: plans read them from the API server
	require.Equal(t, live, cached, "from the cache")

	text := dump(t, hub.Client)
	file, err := snapshot.Parse("live.yaml", text)
	require.NoError(t, err)
	require.Equal(t, live, decisions(t, file), "from a file")

	created, err := os.ReadFile("testdata/cluster.yaml")
	require.NoError(t, err)
	for _, kind := range []string{"policy.open-cluster-management.io_placementbindings", "cluster.open-cluster-management.io_placements"} {
		crd, err := os.ReadFile("../../deploy/crds/testing/" + kind + ".yaml")
		require.NoError(t, err)
		created = slices.Concat(created, []byte("\n---\n"), crd)
	}
	original, err := snapshot.Parse("cluster.yaml", created)
	require.NoError(t, err)
	require.Equal(t, live, decisions(t, original), "from the file that the cluster was created from")
}

// create creates the objects of the test file, with their status, in a cluster whose controllers do not run.
func create(t *testing.T, c client.Client) {
	text, err := os.ReadFile("testdata/cluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Parse("cluster.yaml", text)
	require.NoError(t, err)
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.SystemNamespace}}))
	// Pods need the service account that a controller would create.
	require.NoError(t, c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}))
	for _, object := range objects {
		status, hasStatus := object.Object["status"]
		require.NoError(t, c.Create(t.Context(), object))
		if hasStatus {
			object.Object["status"] = status
			require.NoError(t, c.Status().Update(t.Context(), object))
		}
	}
}

// dump prints the objects of a cluster as kubectl prints several kinds.
func dump(t *testing.T, c client.Client) []byte {
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion("v1")
	all.SetKind("List")
	for kind, apiVersion := range map[string]string{
		"ManagedCluster": "cluster.open-cluster-management.io/v1", "Policy": "policy.open-cluster-management.io/v1",
		"Node": "v1", "Pod": "v1", "PodDisruptionBudget": "policy/v1", "ServiceAccount": "v1",
		"ManagedClusterSetBinding": "cluster.open-cluster-management.io/v1beta2", "CustomResourceDefinition": "apiextensions.k8s.io/v1",
		"NodeMaintenance": "maintenance.nvidia.com/v1alpha1", "MaintenanceOperatorConfig": "maintenance.nvidia.com/v1alpha1",
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		require.NoError(t, c.List(t.Context(), list))
		all.Items = append(all.Items, list.Items...)
	}
	printed, err := all.MarshalJSON()
	require.NoError(t, err)
	text, err := yaml.JSONToYAML(printed)
	require.NoError(t, err)
	return text
}

func TestARetryReadsItsBindingsFromThePolicies(t *testing.T) {
	policy := func(namespace, name, clusters string) string {
		return "{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: " + namespace + ", name: " + name + "}, spec: {remediationAction: inform}, status: {status: [" + clusters + "]}}\n---\n"
	}
	file, err := snapshot.Parse("f", []byte(policy("fleet", "kernel", "{clustername: c1, compliant: Compliant}, {clustername: c2}")+
		policy("fleet", "network", "{clustername: c2}")+policy("other", "network", "{clustername: c1}")))
	require.NoError(t, err)
	status := &ranv1.ClusterGroupUpgradeStatus{ManagedPoliciesForUpgrade: []ranv1.ManagedPolicy{{Name: "kernel", Namespace: "fleet"}, {Name: "network", Namespace: "fleet"}}}
	notBound, err := snapshot.NotBound(t.Context(), file, status, []string{"c1", "c2"})
	require.NoError(t, err)
	require.Equal(t, map[string][]int{"c1": {1}}, notBound)

	status.ManagedPoliciesForUpgrade = append(status.ManagedPoliciesForUpgrade, ranv1.ManagedPolicy{Name: "gone", Namespace: "fleet"})
	notBound, err = snapshot.NotBound(t.Context(), file, status, []string{"c1"})
	require.NoError(t, err)
	require.Empty(t, notBound, "a deleted policy does not count as unbound")
}

// recordingReader records the policies that were read in full.
type recordingReader struct {
	client.Reader
	mu       sync.Mutex
	policies []string
}

func (r *recordingReader) record(object *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if object.GetKind() == "Policy" {
		r.policies = append(r.policies, object.GetNamespace()+"/"+object.GetName())
	}
}

func (r *recordingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, options...)
	if whole, is := object.(*unstructured.Unstructured); is && err == nil {
		r.record(whole)
	}
	return err
}

func (r *recordingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if whole, is := list.(*unstructured.UnstructuredList); is {
		for i := range whole.Items {
			r.record(&whole.Items[i])
		}
	}
	return err
}

// The status of a policy has an entry for each cluster of the fleet.
func TestAPlanReadsOnlyTheMetadataOfUnnamedPolicies(t *testing.T) {
	policy := func(namespace, name string) string {
		return "{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: " + namespace + ", name: " + name + "}, spec: {remediationAction: inform}}\n---\n"
	}
	file, err := snapshot.Parse("f", []byte(policy("fleet", "p1")+policy("other", "p1")+policy("fleet", "p2")+policy("fleet", "p3")))
	require.NoError(t, err)
	objects, err := manifest.Decode("rollout", []byte(policyRollout))
	require.NoError(t, err)
	reader := &recordingReader{Reader: file}
	inventory, err := snapshot.Inventory(t.Context(), reader, objects[0].(*ranv1.ClusterGroupUpgrade), noon)
	require.NoError(t, err)
	require.Len(t, inventory.Policies, 2, "from all namespaces")
	require.ElementsMatch(t, []string{"fleet/p1", "other/p1"}, reader.policies)
}

func TestAPlanReportsInvalidTemplateExpectations(t *testing.T) {
	file, err := snapshot.Parse("f", []byte(`
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c1}}
---
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {namespace: default, name: os, annotations: {openshift-cluster-group-upgrades/expectedValues: '[{"value":"1"}]'}}
`))
	require.NoError(t, err)
	objects, err := manifest.Decode("rollout", []byte(strings.Replace(policyRollout, "managedPolicies: [p1]", "manifestWorkTemplates: [os]", 1)))
	require.NoError(t, err)
	cgu := objects[0].(*ranv1.ClusterGroupUpgrade)
	inventory, err := snapshot.Inventory(t.Context(), file, cgu, noon)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Invalid manifest templates: [os]; manifest template default/os: annotation openshift-cluster-group-upgrades/expectedValues[0].name: is missing",
	}, rollout.NewPlan(cgu, inventory, noon).Problems())
}

func TestTheNamedConfigurationCounts(t *testing.T) {
	file, err := snapshot.Parse("f", []byte("{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: b, name: default}, spec: {maxParallelOperations: 3}}\n---\n"+
		"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: a, name: default}}"))
	require.NoError(t, err)
	config, err := snapshot.MaintenanceConfig(t.Context(), file, types.NamespacedName{Namespace: "b", Name: "default"})
	require.NoError(t, err)
	require.Equal(t, "3", config.MaxParallelOperations.String())
	for _, named := range []types.NamespacedName{{Namespace: "c", Name: "default"}, {Namespace: "a"}} {
		config, err = snapshot.MaintenanceConfig(t.Context(), file, named)
		require.NoError(t, err, "a tenant's second configuration does not stop the scheduling")
		require.Nil(t, config.MaxParallelOperations, "nor does a tenant's configuration count: %s", named)
	}
}

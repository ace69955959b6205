package propagator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/propagator"
)

var hub *devstack.Cluster

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	m.Run()
}

// The simulated propagator behaves as the controllers of a hub that it stands for. Each rule names the source of the fact.
func TestTheSimulatedHubBehavesAsTheControllersItStandsFor(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{
		Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true,
	}}})
	hub = stack.Cluster("hub")
	simulated, err := propagator.Start(t.Context(), hub.Config, propagator.Options{})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Log("source:", rule.source)
			rule.holds(newScene(t))
		})
	}
}

const (
	propagation = "governance-policy-propagator: controllers/propagator"
	rootStatus  = "governance-policy-propagator: controllers/rootpolicystatus"
	bindings    = "governance-policy-propagator: api/v1/placementbinding_types.go"
	placement   = "ocm: pkg/placement/controllers/scheduling; api: cluster/v1beta1/types_placement.go"
	taints      = "api: cluster/v1/types.go (Taint); ocm: pkg/placement/plugins/tainttoleration"
	templates   = "go-template-utils: pkg/templates; governance-policy-propagator: controllers/propagator (hub templates)"
)

// rules are what Drydock depends on.
var rules = []struct {
	name, source string
	holds        func(s *scene)
}{
	{"a policy has replicas only where it is bound, named after it", propagation, func(s *scene) {
		s.policy("kernel", "")
		s.never("a", "kernel")
		s.bind("kernel", "a")
		replica := s.await("a", "kernel", "NonCompliant")
		require.Equal(s.t, map[string]string{
			"policy.open-cluster-management.io/root-policy":  s.namespace + ".kernel",
			"policy.open-cluster-management.io/cluster-name": s.cluster("a"), "policy.open-cluster-management.io/cluster-namespace": s.cluster("a"),
		}, replica.GetLabels())
	}},
	{"a replica goes with its binding, and with its policy", propagation, func(s *scene) {
		s.policy("kernel", "")
		s.bind("kernel", "a", "b")
		s.await("a", "kernel", "NonCompliant")
		s.await("b", "kernel", "NonCompliant")
		s.patch("PlacementRule", "kernel", `{"spec":{"clusters":[{"name":"`+s.cluster("b")+`"}]}}`)
		s.awaitGone("a", "kernel")
		s.patch("Policy", "kernel", `{"spec":{"disabled":true}}`)
		s.awaitGone("b", "kernel")
	}},
	{"a replica lacks the annotations of its policy on request", propagation, func(s *scene) {
		s.policy("kernel", "copyPolicyMetadata: false")
		s.bind("kernel", "a")
		require.Empty(s.t, s.await("a", "kernel", "NonCompliant").GetAnnotations())
	}},
	{"a restricted binding binds nothing, but overrides the action on bound clusters", bindings, func(s *scene) {
		s.policy("kernel", "")
		s.bind("kernel", "a")
		s.bindSets("global")
		s.place("all", "")
		s.override("kernel", "all")
		s.await("a", "kernel", "Compliant")
		s.never("b", "kernel")
	}},
	{"a placement selects only from sets that are bound to its namespace", placement, func(s *scene) {
		s.policy("kernel", "")
		s.place("all", "")
		s.bindTo("kernel", "Placement", "all")
		s.never("a", "kernel")
		s.bindSets("global")
		s.await("a", "kernel", "NonCompliant")
	}},
	{"a set has the clusters with its name in a label, or those that its selector selects", placement, func(s *scene) {
		s.policy("kernel", "")
		s.place("all", "")
		s.bindTo("kernel", "Placement", "all")
		s.create("{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: NAMESPACE-some}, " +
			"spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {name: " + s.cluster("b") + "}}}}}")
		s.bindSets(s.namespace + "-some")
		s.await("b", "kernel", "NonCompliant")
		s.never("a", "kernel")
	}},
	{"replicas go with the binding of the set of their cluster, and come back with it", placement, func(s *scene) {
		s.policy("kernel", "")
		s.bindSets("global")
		s.place("all", "")
		s.bindTo("kernel", "Placement", "all")
		s.await("a", "kernel", "NonCompliant")
		s.unbindSets("global")
		s.awaitGone("a", "kernel")
		s.bindSets("global")
		s.await("a", "kernel", "NonCompliant")
	}},
	{"a placement keeps the clusters that it has, up to numberOfClusters", placement, func(s *scene) {
		s.bindSets("global")
		s.policy("kernel", "")
		s.place("some", "numberOfClusters: 1, "+s.labelled("b", "c"))
		s.bindTo("kernel", "Placement", "some")
		s.await("b", "kernel", "NonCompliant")
		s.patch("Placement", "some", `{"spec":{`+s.labelledJSON("a", "b", "c")+`}}`)
		s.never("a", "kernel")
		s.await("b", "kernel", "NonCompliant")
		s.patch("Placement", "some", `{"spec":{"numberOfClusters":0}}`)
		s.awaitGone("b", "kernel")
	}},
	{"a placement leaves out tainted clusters that it does not tolerate", taints, func(s *scene) {
		s.bindSets("global")
		s.policy("kernel", "")
		s.place("some", s.labelled("a", "b"))
		s.bindTo("kernel", "Placement", "some")
		s.await("a", "kernel", "NonCompliant")
		s.taint("a", "NoSelectIfNew")
		s.taint("b", "NoSelect")
		s.awaitGone("b", "kernel")
		s.await("a", "kernel", "NonCompliant")
		s.patch("Placement", "some", `{"spec":{"tolerations":[{"key":"upgrade","operator":"Exists"}]}}`)
		s.await("b", "kernel", "NonCompliant")
	}},
	{"a cluster that is not available has a taint", taints, func(s *scene) {
		s.bindSets("global")
		s.policy("kernel", "")
		s.place("some", s.labelled("a"))
		s.bindTo("kernel", "Placement", "some")
		s.await("a", "kernel", "NonCompliant")
		s.available("a", "Unknown")
		s.awaitGone("a", "kernel")
		s.patch("Placement", "some", `{"spec":{"tolerations":[{"key":"cluster.open-cluster-management.io/unreachable","operator":"Exists"}]}}`)
		s.await("a", "kernel", "NonCompliant")
	}},
	{"the status of a policy lists its clusters, and the worst of them", rootStatus, func(s *scene) {
		s.policy("kernel", "")
		s.bind("kernel", "a", "b")
		s.awaitRoot("kernel", "NonCompliant", "a: NonCompliant", "b: NonCompliant")
		s.patch("Policy", "kernel", `{"spec":{"remediationAction":"enforce"}}`)
		s.awaitRoot("kernel", "Compliant", "a: Compliant", "b: Compliant")
	}},
	{"a policy waits for its dependencies", propagation, func(s *scene) {
		s.policy("base", "")
		s.policy("apps", "dependencies: [{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, name: base, compliance: Compliant}]")
		s.bind("base", "a")
		s.bind("apps", "a")
		s.await("a", "apps", "Pending")
		s.patch("Policy", "base", `{"spec":{"remediationAction":"enforce"}}`)
		s.await("a", "apps", "NonCompliant")
	}},
	{"hub templates read objects of the namespace of the policy", templates, func(s *scene) {
		s.templated("kernel", `{{hub fromConfigMap "" "release" "version" hub}} on {{hub .ManagedClusterName hub}}`)
		s.bind("kernel", "a")
		require.Contains(s.t, fmt.Sprint(s.await("a", "kernel", "NonCompliant").Object["spec"]), "not found", "the error is an annotation of the template")
		s.create("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NAMESPACE, name: release}, data: {version: '4.20'}}")
		s.awaitReplica("a", "kernel", func(c *assert.CollectT, replica *unstructured.Unstructured) {
			assert.Contains(c, fmt.Sprint(replica.Object["spec"]), "4.20 on "+s.cluster("a"))
		})
	}},
	{"hub templates are resolved again when what they read changes", templates, func(s *scene) {
		s.create("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NAMESPACE, name: release}, data: {version: '4.20'}}")
		s.templated("kernel", `{{hub fromConfigMap "NAMESPACE" "release" "version" hub}}`)
		s.bind("kernel", "a")
		resolved := func(version string) {
			s.awaitReplica("a", "kernel", func(c *assert.CollectT, replica *unstructured.Unstructured) {
				assert.Contains(c, fmt.Sprint(replica.Object["spec"]), version)
			})
		}
		resolved("4.20")
		s.patch("ConfigMap", "release", `{"data":{"version":"4.21"}}`)
		resolved("4.21")
	}},
	{"hub templates do not read objects of other namespaces", templates, func(s *scene) {
		s.templated("kernel", `{{hub fromConfigMap "kube-system" "release" "version" hub}}`)
		s.bind("kernel", "a")
		require.Contains(s.t, fmt.Sprint(s.await("a", "kernel", "NonCompliant").Object["spec"]), "restricted to "+s.namespace)
	}},
}

// scene is a namespace with policies, and clusters a, b and c.
type scene struct {
	t         *testing.T
	namespace string
	client    client.Client
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c, err := client.New(hub.Config, client.Options{})
	require.NoError(t, err)
	s := &scene{t: t, namespace: devstacktest.Namespace(t, hub), client: c}
	for _, name := range []string{"a", "b", "c"} {
		s.create("{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: " + s.cluster(name) + ", labels: {name: " + s.cluster(name) + "}}, spec: {hubAcceptsClient: true}}")
	}
	return s
}

func (s *scene) cluster(name string) string { return s.namespace + "-" + name }

// create creates an object, which is deleted after the test.
func (s *scene) create(text string) {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "NAMESPACE", s.namespace)), &object.Object), text)
	require.NoError(s.t, s.client.Create(s.t.Context(), object), text)
	s.t.Cleanup(func() { require.NoError(s.t, client.IgnoreNotFound(s.client.Delete(context.Background(), object))) })
}

// policy creates an inform policy with more fields of its spec.
func (s *scene) policy(name, more string) {
	s.t.Helper()
	s.create(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: NAMESPACE, name: ` + name + `, annotations: {wave: "1"}}
spec:
  disabled: false
  remediationAction: inform
  ` + more + `
  policy-templates: [{objectDefinition: {apiVersion: policy.open-cluster-management.io/v1, kind: ConfigurationPolicy, metadata: {name: ` + name + `},
    spec: {object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAMESPACE-` + name + `}}}]}}}]`)
}

// templated creates an inform policy with a hub template.
func (s *scene) templated(name, template string) {
	s.t.Helper()
	s.create(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: NAMESPACE, name: ` + name + `}
spec:
  disabled: false
  remediationAction: inform
  policy-templates: [{objectDefinition: {apiVersion: policy.open-cluster-management.io/v1, kind: ConfigurationPolicy, metadata: {name: ` + name + `},
    spec: {object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: '` + template + `'}}}]}}}]`)
}

// bind binds a policy to clusters with a PlacementRule.
func (s *scene) bind(policy string, clusters ...string) {
	s.t.Helper()
	listed := ""
	for _, name := range clusters {
		listed += "{name: " + s.cluster(name) + "},"
	}
	s.create("{apiVersion: apps.open-cluster-management.io/v1, kind: PlacementRule, metadata: {namespace: NAMESPACE, name: " + policy + "}, spec: {clusters: [" + listed + "]}}")
	s.bindTo(policy, "PlacementRule", policy)
}

var groups = map[string]string{
	"PlacementRule": "apps.open-cluster-management.io", "Placement": "cluster.open-cluster-management.io", "Policy": "policy.open-cluster-management.io",
}

func (s *scene) bindTo(policy, kind, placement string) {
	s.t.Helper()
	s.create(fmt.Sprintf("{apiVersion: policy.open-cluster-management.io/v1, kind: PlacementBinding, metadata: {namespace: NAMESPACE, name: %s-%s}, "+
		"placementRef: {apiGroup: %s, kind: %s, name: %s}, subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: %s}]}",
		policy, strings.ToLower(kind), groups[kind], kind, placement, policy))
}

// override enforces a policy on the clusters of a placement.
func (s *scene) override(policy, placement string) {
	s.t.Helper()
	s.create(fmt.Sprintf("{apiVersion: policy.open-cluster-management.io/v1, kind: PlacementBinding, metadata: {namespace: NAMESPACE, name: override}, "+
		"subFilter: restricted, bindingOverrides: {remediationAction: enforce}, "+
		"placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: %s}, subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: %s}]}", placement, policy))
}

func (s *scene) place(name, spec string) {
	s.t.Helper()
	s.create("{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {namespace: NAMESPACE, name: " + name + "}, spec: {" + spec + "}}")
}

func (s *scene) bindSets(set string) {
	s.t.Helper()
	s.create("{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {namespace: NAMESPACE, name: " + set + "}, spec: {clusterSet: " + set + "}}")
}

func (s *scene) unbindSets(set string) {
	s.t.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("cluster.open-cluster-management.io/v1beta2")
	binding.SetKind("ManagedClusterSetBinding")
	binding.SetNamespace(s.namespace)
	binding.SetName(set)
	require.NoError(s.t, s.client.Delete(s.t.Context(), binding))
}

// labelled is the part of a spec that selects clusters, and labelledJSON the same as JSON.
func (s *scene) labelled(names ...string) string {
	return strings.NewReplacer(`"`, "").Replace(s.labelledJSON(names...))
}

func (s *scene) labelledJSON(names ...string) string {
	var values []string
	for _, name := range names {
		values = append(values, `"`+s.cluster(name)+`"`)
	}
	return `"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": [` + strings.Join(values, ", ") + `]}]}}}]`
}

func (s *scene) patch(kind, name, patch string) {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(groups[kind] + map[string]string{"PlacementRule": "/v1", "Policy": "/v1", "Placement": "/v1beta1", "ConfigMap": "v1"}[kind])
	object.SetKind(kind)
	object.SetNamespace(s.namespace)
	object.SetName(name)
	require.NoError(s.t, s.client.Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (s *scene) managed(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("cluster.open-cluster-management.io/v1")
	object.SetKind("ManagedCluster")
	object.SetName(s.cluster(name))
	return object
}

func (s *scene) taint(name, effect string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":"upgrade","effect":%q,"timeAdded":%q}]}}`, effect, time.Now().UTC().Format(time.RFC3339))
	require.NoError(s.t, s.client.Patch(s.t.Context(), s.managed(name), client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (s *scene) available(name, status string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":%q,"reason":"Test","message":"","lastTransitionTime":%q}]}}`, status, metav1.Now().UTC().Format(time.RFC3339))
	require.NoError(s.t, s.client.Status().Patch(s.t.Context(), s.managed(name), client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (s *scene) replica(cluster, policy string) (*unstructured.Unstructured, error) {
	return s.read(s.cluster(cluster), s.namespace+"."+policy)
}

func (s *scene) read(namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("policy.open-cluster-management.io/v1")
	object.SetKind("Policy")
	return object, s.client.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
}

const limit = 5 * time.Minute

// await waits until the replica of a policy has a compliance.
func (s *scene) await(cluster, policy, compliant string) *unstructured.Unstructured {
	s.t.Helper()
	return s.awaitReplica(cluster, policy, func(c *assert.CollectT, replica *unstructured.Unstructured) {
		found, _, _ := unstructured.NestedString(replica.Object, "status", "compliant")
		assert.Equal(c, compliant, found)
	})
}

func (s *scene) awaitReplica(cluster, policy string, matches func(*assert.CollectT, *unstructured.Unstructured)) *unstructured.Unstructured {
	s.t.Helper()
	var replica *unstructured.Unstructured
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		var err error
		if replica, err = s.replica(cluster, policy); assert.NoError(c, err) {
			matches(c, replica)
		}
	}, limit, 20*time.Millisecond, "%s on %s", policy, cluster)
	return replica
}

func (s *scene) awaitGone(cluster, policy string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := s.replica(cluster, policy)
		return err != nil && client.IgnoreNotFound(err) == nil
	}, limit, 20*time.Millisecond, "%s on %s", policy, cluster)
}

// never requires that a policy has no replica on a cluster once the hub has acted on all changes so far.
func (s *scene) never(cluster, policy string) {
	s.t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	s.policy(marker, "")
	s.bind(marker, "c")
	s.await("c", marker, "NonCompliant")
	_, err := s.replica(cluster, policy)
	require.Error(s.t, err)
}

// awaitRoot waits until the status of a policy has a compliance, and its clusters have theirs, as <cluster>: <compliance>.
func (s *scene) awaitRoot(policy, compliant string, clusters ...string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		root, err := s.read(s.namespace, policy)
		assert.NoError(c, err)
		all, _, _ := unstructured.NestedString(root.Object, "status", "compliant")
		assert.Equal(c, compliant, all)
		var found []string
		entries, _, _ := unstructured.NestedSlice(root.Object, "status", "status")
		for _, entry := range entries {
			fields := entry.(map[string]any)
			found = append(found, strings.TrimPrefix(fields["clustername"].(string), s.namespace+"-")+": "+fmt.Sprint(fields["compliant"]))
		}
		slices.Sort(found)
		assert.Equal(c, clusters, found)
	}, limit, 20*time.Millisecond)
}

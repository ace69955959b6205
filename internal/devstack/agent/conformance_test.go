package agent_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	m.Run()
}

// scene is a cluster whose agent is simulated. The hub plays the cluster.
type scene struct {
	t       *testing.T
	hub     client.Client
	cluster string
	agents  *agent.Agents
	// refused: the agent may not carry out actions. tries counts its attempts.
	refused atomic.Bool
	tries   atomic.Int32
}

// The simulated agents behave as the add-on that they stand for. Each rule names the source of the fact.
func TestTheSimulatedAgentsBehaveAsTheAddOnTheyStandFor(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{
		Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true,
	}}})
	hub := stack.Cluster("hub")
	api, err := client.New(hub.Config, client.Options{})
	require.NoError(t, err)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Log("source:", rule.source)
			s := &scene{t: t, hub: api, cluster: devstacktest.Namespace(t, hub)}
			s.agents, err = agent.Start(t.Context(), hub.Config, map[string]*rest.Config{s.cluster: hub.Config}, agent.Options{Refuse: func(string) error {
				// The count comes last: whoever reads it knows how that try ended.
				defer s.tries.Add(1)
				if s.refused.Load() {
					return errors.New("configmaps is forbidden")
				}
				return nil
			}})
			require.NoError(t, err)
			t.Cleanup(s.agents.Stop)
			rule.holds(s)
		})
	}
}

const (
	actions = "multicloud-operators-foundation: pkg/klusterlet/action"
	views   = "multicloud-operators-foundation: pkg/klusterlet/view"
)

// rules are what Drydock depends on.
var rules = []struct {
	name, source string
	holds        func(s *scene)
}{
	{"an action creates an object", actions, func(s *scene) {
		s.create("motd", "Create")
		require.Equal(s.t, "True ActionDone", s.outcome("motd"))
		require.Nil(s.t, s.read("motd").DeletionTimestamp)
	}},
	{"an action fails if the object exists already", actions, func(s *scene) {
		s.create("motd", "Create")
		s.outcome("motd")
		s.delete("motd")
		s.create("motd", "Create")
		require.Equal(s.t, `False CreateResourceFailed failed to handle Create action with err: configmaps "motd" already exists`, s.outcome("motd"))
	}},
	{"an action deletes an object by the name of its resource", actions, func(s *scene) {
		s.create("motd", "Create")
		s.outcome("motd")
		s.delete("motd")
		s.create("motd", "Delete")
		require.Equal(s.t, "True ActionDone", s.outcome("motd"))
		require.NotNil(s.t, s.read("motd").DeletionTimestamp, "in the foreground")
	}},
	{"an action that deletes fails if the object does not exist", actions, func(s *scene) {
		s.create("motd", "Delete")
		require.Equal(s.t, `False DeleteResourceFailed failed to handle Delete action with err: configmaps "motd" not found`, s.outcome("motd"))
	}},
	{"a failed action is tried again when it changes, also by the report of its failure", actions, func(s *scene) {
		s.refused.Store(true)
		s.create("motd", "Create")
		require.Equal(s.t, "False CreateResourceFailed failed to handle Create action with err: configmaps is forbidden", s.outcome("motd"))
		require.Eventually(s.t, func() bool { return s.tries.Load() >= 2 }, 5*time.Minute, 10*time.Millisecond)
		s.refused.Store(false)
		require.NoError(s.t, s.hub.Patch(s.t.Context(), s.action("motd"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`))))
		// Its report may meet the change of the action: then it creates the object again, and reports that it exists.
		require.EventuallyWithT(s.t, func(c *assert.CollectT) {
			assert.NoError(c, s.hub.Get(s.t.Context(), client.ObjectKey{Namespace: s.cluster, Name: "motd"}, &corev1.ConfigMap{}), "%d tries, %v", s.tries.Load(), s.agents.Err())
		}, 5*time.Minute, 10*time.Millisecond)
	}},
	{"an action of an unknown type fails", actions, func(s *scene) {
		s.create("motd", "Replace")
		require.Equal(s.t, "False ActionTypeInvalid failed to handle Replace action with err: invalid action type", s.outcome("motd"))
	}},
	{"a view shows the object, and keeps its last result when the object is gone", views, func(s *scene) {
		s.create("motd", "Create")
		s.outcome("motd")
		s.apply(`
apiVersion: view.open-cluster-management.io/v1beta1
kind: ManagedClusterView
metadata: {namespace: CLUSTER, name: motd}
spec: {scope: {version: v1, kind: ConfigMap, namespace: CLUSTER, name: motd, updateIntervalSeconds: 1}}`)
		s.awaitView("True GetResourceProcessing Watching resources successfully")
		require.NoError(s.t, s.hub.Delete(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster, Name: "motd"}}))
		s.awaitView(`False GetResourceFailed failed to get resource with err: configmaps "motd" not found`)
	}},
}

func (s *scene) apply(text string) {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "CLUSTER", s.cluster)), &object.Object))
	require.NoError(s.t, s.hub.Create(s.t.Context(), object))
}

// create creates an action on a ConfigMap.
func (s *scene) create(name, does string) {
	s.t.Helper()
	s.apply(strings.NewReplacer("NAME", name, "TYPE", does).Replace(`
apiVersion: action.open-cluster-management.io/v1beta1
kind: ManagedClusterAction
metadata: {namespace: CLUSTER, name: NAME}
spec:
  actionType: TYPE
  kube: {resource: configmap, namespace: CLUSTER, name: NAME, template: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: CLUSTER, name: NAME}}}`))
}

func (s *scene) action(name string) *unstructured.Unstructured {
	s.t.Helper()
	action := &unstructured.Unstructured{}
	action.SetAPIVersion("action.open-cluster-management.io/v1beta1")
	action.SetKind("ManagedClusterAction")
	require.NoError(s.t, s.hub.Get(s.t.Context(), client.ObjectKey{Namespace: s.cluster, Name: name}, action))
	return action
}

func (s *scene) delete(name string) {
	s.t.Helper()
	require.NoError(s.t, s.hub.Delete(s.t.Context(), s.action(name)))
}

// outcome waits for the condition of an action.
func (s *scene) outcome(name string) string {
	s.t.Helper()
	var outcome string
	require.Eventually(s.t, func() bool {
		outcome = condition(s.action(name))
		return outcome != ""
	}, 5*time.Minute, 10*time.Millisecond)
	return strings.TrimSuffix(outcome, " Resource action is done.")
}

// condition is the status, reason and message of the only condition of an object; empty if it has none.
func condition(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	if len(conditions) != 1 {
		return ""
	}
	fields := conditions[0].(map[string]any)
	return fields["status"].(string) + " " + fields["reason"].(string) + " " + fields["message"].(string)
}

// read reads the ConfigMap.
func (s *scene) read(name string) *corev1.ConfigMap {
	s.t.Helper()
	config := &corev1.ConfigMap{}
	require.NoError(s.t, s.hub.Get(s.t.Context(), client.ObjectKey{Namespace: s.cluster, Name: name}, config))
	return config
}

// awaitView waits until the view has this condition, and a result.
func (s *scene) awaitView(says string) {
	s.t.Helper()
	view := &unstructured.Unstructured{}
	view.SetAPIVersion("view.open-cluster-management.io/v1beta1")
	view.SetKind("ManagedClusterView")
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		assert.NoError(c, s.hub.Get(s.t.Context(), client.ObjectKey{Namespace: s.cluster, Name: "motd"}, view))
		assert.Equal(c, says, condition(view))
		name, _, _ := unstructured.NestedString(view.Object, "status", "result", "metadata", "name")
		assert.Equal(c, "motd", name)
	}, 5*time.Minute, 20*time.Millisecond)
}

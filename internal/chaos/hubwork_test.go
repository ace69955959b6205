package chaos

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/policies"
)

// enforcing: a policy is enforced on a cluster that does not comply yet.
func enforcing() state {
	return groupState("InProgress, policies enforced", "AwaitCompliance", func(t *testing.T, s *scenarioRun, at target) reached {
		var compliant atomic.Bool
		s.createOnHub(t, "testdata/policy.yaml", at.spoke.Name)
		hub, err := propagator.Start(t.Context(), s.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration {
			if compliant.Load() {
				return 0
			}
			return -1
		}})
		require.NoError(t, err)
		t.Cleanup(hub.Stop)
		policy := s.name + "-motd"
		s.awaitComplianceStatus(t, policy)
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.NodeMaintenance, spec.ManagedPolicies = nil, []string{policy}
		})
		require.Eventually(t, func() bool { return len(hub.Enforced()[at.spoke.Name]) > 0 }, waitLimit, 20*time.Millisecond, "no policy is enforced on %s", at.spoke.Name)
		s.awaitScheduled(t, w.workflow, "AwaitCompliance")
		return reached{workflow: w.workflow, unblock: func() {
			compliant.Store(true)
			hub.Drift(at.spoke.Name, namespace, policy)
		}}
	})
}

// lookingUp: the server of the update graph does not answer when the release of a policy is looked up.
func lookingUp() state {
	return groupState("planning, its release looked up", "LookUpRelease", func(t *testing.T, s *scenarioRun, at target) reached {
		answers := make(chan struct{})
		graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-answers:
				_, _ = w.Write([]byte(`{"nodes":[{"version":"4.18.3","payload":"registry.example.com/release:4.18.3"}]}`))
			case <-r.Context().Done():
			}
		}))
		answer := sync.OnceFunc(func() { close(answers) })
		t.Cleanup(func() {
			answer()
			graph.Close()
		})
		s.createOnHub(t, "testdata/release.yaml", at.spoke.Name, "UPSTREAM", graph.URL)
		hub, err := propagator.Start(t.Context(), s.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 0 }})
		require.NoError(t, err)
		t.Cleanup(hub.Stop)
		policy := s.name + "-release"
		s.awaitComplianceStatus(t, policy)
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.NodeMaintenance, spec.ManagedPolicies = nil, []string{policy}
			spec.PreCaching, spec.PreCachingConfigRef = true, &ranv1.ObjectRef{Name: policy}
		})
		s.awaitScheduled(t, w.workflow, "LookUpRelease")
		return reached{workflow: w.workflow, unblock: answer}
	})
}

// unselectable: a policy is enforced on a cluster whose set is no longer bound to the namespace of the policy.
func unselectable() state {
	return groupState("InProgress, WaitingForPlacement", "AwaitCompliance", func(t *testing.T, s *scenarioRun, at target) reached {
		arrived := enforcing().reach(t, s, at)
		bind := s.unbindSets(t)
		awaitStatus(t, s, arrived.workflow, "waits for placement", func(status ranv1.ClusterGroupUpgradeStatus) bool {
			return len(status.Clusters) > 0 && status.Clusters[0].Reason == ranv1.ReasonWaitingForPlacement
		})
		comply := arrived.unblock
		arrived.unblock = func() {
			bind()
			comply()
		}
		return arrived
	})
}

// unbindSets deletes the binding that lets Placements of the namespace of scenarios select clusters. The returned function creates it again.
func (s *scenarioRun) unbindSets(t *testing.T) (bind func()) {
	t.Helper()
	hub := objectClient(t, s.Hub)
	binding := &unstructured.Unstructured{}
	binding.SetGroupVersionKind(policies.SetBindings)
	require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: policies.GlobalSet}, binding))
	require.NoError(t, hub.Delete(t.Context(), binding))
	binding.SetResourceVersion("")
	binding.SetUID("")
	bind = sync.OnceFunc(func() { require.NoError(t, hub.Create(context.Background(), binding)) })
	t.Cleanup(bind)
	return bind
}

// awaitComplianceStatus waits until a policy has the compliance status of its cluster.
func (s *scenarioRun) awaitComplianceStatus(t *testing.T, policy string) {
	t.Helper()
	found := &unstructured.Unstructured{}
	found.SetAPIVersion("policy.open-cluster-management.io/v1")
	found.SetKind("Policy")
	hub, err := s.Watch(t.Context(), s.Hub)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		err := hub.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: policy}, found)
		statuses, _, _ := unstructured.NestedSlice(found.Object, "status", "status")
		return err == nil && len(statuses) == 1
	}, waitLimit, 20*time.Millisecond, "policy %s has no compliance status", policy)
}

// creatingWorks: a ManifestWork is created for a cluster whose agent has not applied it yet.
func creatingWorks() state {
	return groupState("InProgress, manifest works created", "AwaitManifestWorks", func(t *testing.T, s *scenarioRun, at target) reached {
		s.createOnHub(t, "testdata/work.yaml", at.spoke.Name)
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.NodeMaintenance, spec.ManifestWorkTemplates = nil, []string{s.name + "-motd"}
		})
		s.awaitScheduled(t, w.workflow, "AwaitManifestWorks")
		return reached{workflow: w.workflow, unblock: func() { s.applyWorks(t, at) }}
	})
}

// applied is the status of a ManifestWork that the agent has applied.
const applied = `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"},{"type":"Available","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`

// applyWorks sets the status of the ManifestWorks of a cluster, as its agent does.
func (s *scenarioRun) applyWorks(t *testing.T, at target) {
	t.Helper()
	works := s.onHub(t, "work.open-cluster-management.io/v1/ManifestWork", client.InNamespace(at.spoke.Name))
	hub, err := s.Watch(context.Background(), s.Hub)
	require.NoError(t, err)
	for i := range works {
		require.NoError(t, hub.Client.Status().Patch(context.Background(), &works[i], client.RawPatch(types.MergePatchType, []byte(applied))))
	}
}

// hubKinds are the kinds that rollouts create or read on the hub.
func hubKinds() []string {
	return []string{
		"policy.open-cluster-management.io/v1/Policy", "policy.open-cluster-management.io/v1/PlacementBinding", "apps.open-cluster-management.io/v1/PlacementRule",
		"cluster.open-cluster-management.io/v1beta1/Placement",
		"ran.openshift.io/v1alpha1/PreCachingConfig", "work.open-cluster-management.io/v1/ManifestWork", "work.open-cluster-management.io/v1alpha1/ManifestWorkReplicaSet",
	}
}

// createOnHub creates the objects of a file, with the name of the scenario and for a cluster, and with other replaced words. The cleanup deletes all objects of
// hubKinds, including those that a terminated rollout left.
func (s *scenarioRun) createOnHub(t *testing.T, file, cluster string, replace ...string) {
	t.Helper()
	hub, err := s.Watch(t.Context(), s.Hub)
	require.NoError(t, err)
	for _, object := range s.documents(t, file, cluster, replace...) {
		require.NoError(t, client.IgnoreAlreadyExists(hub.Client.Create(t.Context(), &object)), object.GetName())
	}
	t.Cleanup(func() {
		for _, kind := range hubKinds() {
			for _, object := range s.onHub(t, kind) {
				require.NoError(t, client.IgnoreNotFound(hub.Client.Delete(context.Background(), &object)))
			}
		}
	})
}

// documents are the objects of a file, with the name of the scenario and that of a cluster.
func (s *scenarioRun) documents(t *testing.T, file, cluster string, replace ...string) []unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var objects []unstructured.Unstructured
	for _, document := range strings.Split(strings.NewReplacer(append(replace, "SCENARIO", s.name, "CLUSTER", cluster)...).Replace(string(content)), "\n---\n") {
		object := unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
		objects = append(objects, object)
	}
	return objects
}

// onHub lists the objects of a kind, given as <group>/<version>/<kind>.
func (s *scenarioRun) onHub(t *testing.T, kind string, options ...client.ListOption) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	i := strings.LastIndex(kind, "/")
	list.SetAPIVersion(kind[:i])
	list.SetKind(kind[i+1:] + "List")
	hub, err := s.Watch(context.Background(), s.Hub)
	require.NoError(t, err)
	require.NoError(t, hub.Client.List(context.Background(), list, options...))
	return list.Items
}

package chaos

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// islandOf is a cluster for which no worker has credentials. Only its agent reaches it: it is the spoke under another name.
func islandOf(spoke *devstack.Cluster) string { return "island-" + spoke.Name }

// registerIslands registers an island for each spoke.
func (s *testFleet) registerIslands(ctx context.Context) error {
	hub, err := client.New(s.Hub.Config, client.Options{})
	if err != nil {
		return err
	}
	for _, spoke := range s.Spokes {
		registered := &unstructured.Unstructured{}
		registered.SetAPIVersion("cluster.open-cluster-management.io/v1")
		registered.SetKind("ManagedCluster")
		registered.SetName(islandOf(spoke))
		registered.SetLabels(map[string]string{"name": islandOf(spoke)})
		for _, object := range []client.Object{registered, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: islandOf(spoke)}}} {
			if err := client.IgnoreAlreadyExists(hub.Create(ctx, object)); err != nil {
				return err
			}
		}
	}
	return nil
}

// onIsland starts the agent of an island, a propagator, and a rollout of a policy in a file to the island. The policy complies once comply is called.
func (s *scenarioRun) onIsland(t *testing.T, at target, file string, options agent.Options, change func(*ranv1.ClusterGroupUpgradeSpec)) (w *work, agents *agent.Agents, comply func()) {
	t.Helper()
	island := islandOf(at.spoke)
	agents, err := agent.Start(t.Context(), s.Hub.Config, map[string]*rest.Config{island: at.spoke.Config}, options)
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	var compliant atomic.Bool
	s.createOnHub(t, file, island)
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
	w = s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance, spec.Clusters, spec.ManagedPolicies = nil, []string{island}, []string{policy}
		change(spec)
	})
	w.plan = [][]string{{island}}
	require.Eventually(t, func() bool {
		return len(s.onHub(t, "action.open-cluster-management.io/v1beta1/ManagedClusterAction", client.InNamespace(island))) > 0
	}, waitLimit, 20*time.Millisecond, "no action for %s", island)
	return w, agents, func() {
		compliant.Store(true)
		hub.Drift(island, namespace, policy)
	}
}

// preparingByAgent: the agent is asked to create what a Job needs. If it has, it has not reported that.
func preparingByAgent(name string, reported bool, change func(*ranv1.ClusterGroupUpgradeSpec)) state {
	return groupState(name, "ClusterPreparation: RunClusterJob", func(t *testing.T, s *scenarioRun, at target) reached {
		require.NoError(t, s.Hub.Apply(t.Context(), "docs/examples/precaching-config.yaml"))
		var answers atomic.Bool
		options := agent.Options{Forgets: func(string) bool { return !answers.Load() }}
		if reported {
			options = agent.Options{Refuse: func(string) error {
				if answers.Load() {
					return nil
				}
				return agent.ErrNotBegun
			}}
		}
		w, agents, comply := s.onIsland(t, at, "testdata/policy.yaml", options, change)
		return reached{workflow: w.workflow, unblock: func() {
			answers.Store(true)
			agents.Wake()
			comply()
		}}
	})
}

func precachingByAgent() state {
	return preparingByAgent("precaching by an agent", true, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.PreCaching, spec.PreCachingConfigRef = true, &ranv1.ObjectRef{Namespace: namespace, Name: "june"}
	})
}

func backingUpByAgent() state {
	return preparingByAgent("backup by an agent", false, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Backup = true })
}

// approvingByAgent: the agent is asked to approve an InstallPlan.
func approvingByAgent() state {
	return groupState("InProgress, InstallPlans approved by an agent", "AwaitInstallPlans", func(t *testing.T, s *scenarioRun, at target) reached {
		plan := s.offerInstallPlan(t, at)
		var answers atomic.Bool
		w, agents, comply := s.onIsland(t, at, "testdata/operatorpolicy.yaml", agent.Options{Refuse: func(string) error {
			if answers.Load() {
				return nil
			}
			return agent.ErrNotBegun
		}}, func(*ranv1.ClusterGroupUpgradeSpec) {})
		s.awaitScheduled(t, w.workflow, "AwaitInstallPlans")
		return reached{workflow: w.workflow, unblock: func() {
			answers.Store(true)
			agents.Wake()
			if !w.terminated {
				require.Eventually(t, func() bool { return plan() }, waitLimit, 100*time.Millisecond, "the InstallPlan is not approved")
			}
			comply()
		}}
	})
}

// offerInstallPlan creates a Subscription on a spoke, with an InstallPlan that waits for its approval, and returns a function that says whether it has it.
func (s *scenarioRun) offerInstallPlan(t *testing.T, at target) (approved func() bool) {
	t.Helper()
	spoke := objectClient(t, at.spoke)
	objects := s.documents(t, "testdata/operator.yaml", at.spoke.Name)
	for i := range objects {
		object := objects[i].DeepCopy()
		require.NoError(t, spoke.Create(t.Context(), object))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(spoke.Delete(context.Background(), object))) })
	}
	subscription, plan := objects[1], objects[2]
	require.NoError(t, spoke.Status().Patch(t.Context(), &subscription, client.RawPatch(types.MergePatchType, []byte(
		`{"status":{"state":"UpgradePending","installedCSV":"ptp.v1","currentCSV":"ptp.v2","lastUpdated":"2026-01-10T12:00:00Z","installPlanRef":{"name":"install-2"}}}`))))
	return func() bool {
		err := spoke.Get(context.Background(), client.ObjectKeyFromObject(&plan), &plan)
		is, _, _ := unstructured.NestedBool(plan.Object, "spec", "approved")
		return err == nil && is
	}
}

// removingWorks: the agent of a cluster has not removed the manifests of a work yet, and the next work waits for that.
func removingWorks() state {
	return groupState("InProgress, a manifest work removed", "AwaitRemoved", func(t *testing.T, s *scenarioRun, at target) reached {
		s.createOnHub(t, "testdata/work.yaml", at.spoke.Name)
		s.createOnHub(t, "testdata/nextwork.yaml", at.spoke.Name)
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.NodeMaintenance, spec.ManifestWorkTemplates = nil, []string{s.name + "-motd", s.name + "-issue"}
		})
		first := s.awaitWork(t, at, "motd")
		s.setFinalizers(t, first, `["cluster.open-cluster-management.io/manifest-work-cleanup"]`)
		s.applyWorks(t, at)
		s.awaitScheduled(t, w.workflow, "AwaitRemoved")
		return reached{workflow: w.workflow, unblock: func() {
			s.setFinalizers(t, first, "null")
			if !w.terminated {
				s.awaitWork(t, at, "issue")
				s.applyWorks(t, at)
			}
		}}
	})
}

// awaitWork waits for the ManifestWork of a template on a cluster.
func (s *scenarioRun) awaitWork(t *testing.T, at target, template string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	require.Eventually(t, func() bool {
		works := s.onHub(t, "work.open-cluster-management.io/v1/ManifestWork", client.InNamespace(at.spoke.Name))
		for i := range works {
			if strings.Contains(works[i].GetName(), s.name+"-"+template) {
				found = &works[i]
			}
		}
		return found != nil
	}, waitLimit, 20*time.Millisecond, "no work of %s on %s", template, at.spoke.Name)
	return found
}

func (s *scenarioRun) setFinalizers(t *testing.T, work *unstructured.Unstructured, finalizers string) {
	t.Helper()
	hub, err := s.Watch(context.Background(), s.Hub)
	require.NoError(t, err)
	patch := []byte(`{"metadata":{"finalizers":` + finalizers + `}}`)
	require.NoError(t, client.IgnoreNotFound(hub.Client.Patch(context.Background(), work.DeepCopy(), client.RawPatch(types.MergePatchType, patch))))
}

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// watch waits until a cluster is as wanted, with one watch after the other, like a workflow.
func (s *policyScene) watch(known policies.KnownCluster, enforced Enforced, want func(policies.ClusterCompliance) bool) policies.ClusterCompliance {
	s.t.Helper()
	var last policies.ClusterCompliance
	found := make(chan error, 1)
	go func() {
		for {
			seen, err := s.activities.AwaitCompliance(s.t.Context(), AwaitComplianceInput{Enforced: enforced, Clusters: []policies.KnownCluster{known}})
			if err != nil {
				found <- err
				return
			}
			if last = seen[0]; want(last) {
				found <- nil
				return
			}
			known.Status, known.Unselectable = last.Status, last.Unselectable
		}
	}()
	select {
	case err := <-found:
		require.NoError(s.t, err)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(s.t, "no change", "known: %+v", known)
	}
	return last
}

func (s *policyScene) setBinding() *unstructured.Unstructured {
	binding := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterSet": policies.GlobalSet}}}
	binding.SetGroupVersionKind(policies.SetBindings)
	binding.SetNamespace(s.rollout.Namespace)
	binding.SetName(policies.GlobalSet)
	return binding
}

// deleteSet deletes a ManagedClusterSet.
func (s *policyScene) deleteSet(name string) {
	s.t.Helper()
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(policies.ClusterSets)
	set.SetName(name)
	require.NoError(s.t, s.hub.Client.Delete(s.t.Context(), set))
}

// relabel changes labels of a ManagedCluster. A nil value removes one.
func (s *policyScene) relabel(cluster string, labels string) {
	s.t.Helper()
	registered := activitykit.ManagedCluster(cluster)
	patch := fmt.Sprintf(`{"metadata":{"labels":%s}}`, labels)
	require.NoError(s.t, s.hub.Client.Patch(s.t.Context(), registered, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func TestAClusterThatPlacementsCannotSelectIsReportedUntilTheyCan(t *testing.T) {
	s := newPolicyScene(t, byOverride, func(string, string) time.Duration { return -1 })
	s.prepare()
	cluster, namespace := s.clusters[0], s.rollout.Namespace
	s.place(0, cluster)
	known := policies.KnownCluster{Cluster: cluster, Status: "NN", Placed: true}
	enforced := Enforced{Rollout: s.rollout}
	requireReported := func(problem string) {
		t.Helper()
		seen := s.watch(known, enforced, func(seen policies.ClusterCompliance) bool { return seen.Unselectable != known.Unselectable })
		require.Equal(t, problem, seen.Unselectable)
		require.False(t, seen.Displaced)
		known.Status, known.Unselectable = seen.Status, seen.Unselectable
	}
	require.NoError(t, s.hub.Client.Delete(t.Context(), s.setBinding()))
	requireReported("Placements in namespace " + namespace + " cannot pick it: create the ManagedClusterSetBinding there for the set global")
	s.relabel(cluster, `{"cluster.open-cluster-management.io/clusterset":"factory"}`)
	requireReported("Placements in namespace " + namespace + " cannot pick it: create the ManagedClusterSetBinding there for the set factory")
	s.create("{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: " + namespace + "}, " +
		"spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {name: " + cluster + "}}}}}")
	s.create("{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {namespace: " + namespace + ", name: " + namespace + "}, spec: {clusterSet: " + namespace + "}}")
	requireReported("")
	s.deleteSet(namespace)
	requireReported("Placements in namespace " + namespace + " cannot pick it: create the ManagedClusterSetBinding there for the set factory")
	require.NoError(t, s.hub.Client.Create(t.Context(), s.setBinding()))
	requireReported("")
	s.relabel(cluster, `{"name":"another"}`)
	requireReported("Placements pick clusters by their label name: its ManagedCluster needs the label name=" + cluster)
	s.relabel(cluster, fmt.Sprintf(`{"name":%q}`, cluster))
	requireReported("")
}

// The Placement that binds the policy needs the ManagedClusterSetBinding, too.
func TestAPolicyThatNoPlacementCanBindIsAwaited(t *testing.T) {
	s := newPolicyScene(t, byOverride, func(string, string) time.Duration { return -1 })
	apps := policies.Ref{Namespace: s.rollout.Namespace, Name: "apps"}
	s.create(informing(apps, ""))
	s.bindByPlacement(apps, s.clusters...)
	s.rollout.Policies = append(s.rollout.Policies, apps)
	s.awaitCompliance("NNN", s.clusters...)
	cluster := s.clusters[0]
	enforced := Enforced{Rollout: s.rollout, Started: time.Now()}
	known := policies.KnownCluster{Cluster: cluster, Status: "NNN", Policy: 2}

	require.NoError(t, s.hub.Client.Delete(t.Context(), s.setBinding()))
	seen := s.watch(known, enforced, func(seen policies.ClusterCompliance) bool { return seen.Status != known.Status })
	require.Equal(t, policies.ComplianceStatus("NNS"), seen.Status)
	require.Contains(t, seen.Unselectable, "create the ManagedClusterSetBinding there for the set global")
	read, err := s.activities.ReadCompliance(t.Context(), ReadComplianceInput{Enforced: enforced, Clusters: []string{cluster}})
	require.NoError(t, err)
	require.Equal(t, policies.ComplianceStatus("NNS"), read[0].Status)

	s.propagator.Stop() // a slow hub: the binding is back, and the replica is not
	require.NoError(t, s.hub.Client.Create(t.Context(), s.setBinding()))
	known.Status, known.Unselectable = seen.Status, seen.Unselectable
	seen = s.watch(known, enforced, func(seen policies.ClusterCompliance) bool { return seen.Unselectable != known.Unselectable })
	require.Equal(t, policies.ComplianceStatus("NNS"), seen.Status)
	require.Contains(t, seen.Unselectable, "waiting until the hub has acted on a new ManagedClusterSetBinding")
	s.restartPropagator(func(string, string) time.Duration { return -1 })
	known.Status, known.Unselectable = seen.Status, seen.Unselectable
	seen = s.watch(known, enforced, func(seen policies.ClusterCompliance) bool { return seen.Status == "NNN" })
	require.Empty(t, seen.Unselectable)
}

func TestAPolicyThatIsUnboundWhileItsSetIsBoundFailsItsClusters(t *testing.T) {
	s := newPolicyScene(t, byOverride, nil)
	enforced := Enforced{Rollout: s.rollout, Started: time.Now().Add(time.Second)}
	gone := &unstructured.Unstructured{}
	gone.SetGroupVersionKind(policies.PlacementBindings)
	gone.SetNamespace(s.rollout.Namespace)
	gone.SetName("network")
	require.NoError(t, s.hub.Client.Delete(t.Context(), gone))
	known := policies.KnownCluster{Cluster: s.clusters[0], Status: "NN"}
	seen := s.watch(known, enforced, func(seen policies.ClusterCompliance) bool { return seen.Status != known.Status })
	require.Equal(t, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "N-"}, seen)
}

// selecting is a patch with which a Placement selects clusters by these expressions.
func selecting(expressions string) string {
	return `{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchExpressions":[` + expressions + `]}}}]}}`
}

// A held cluster, or one whose window has closed, stays without its policy.
func TestAHeldClusterDoesNotGetItsPolicyBackWithADeletedBinding(t *testing.T) {
	s := newPolicyScene(t, byOverride, func(string, string) time.Duration { return -1 })
	s.pin()
	held, free := s.clusters[0], s.clusters[1]
	s.place(0, held, free)
	names, err := policies.NamesFor(s.rollout.name(), s.rollout.Policies[0], byOverride.By)
	require.NoError(t, err)
	binding := enforcementObjects(s.rollout, s.rollout.Policies[0], names)[0]
	deleteBinding := func() {
		t.Helper()
		require.NoError(t, s.hub.Client.Delete(t.Context(), binding))
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Empty(c, s.enforced()) }, activitytest.EventTimeout, 20*time.Millisecond)
	}

	deleteBinding()
	placed := s.enforce(policies.DesiredPlacement{Item: 0, Held: []string{held, free}, Displaced: true})
	require.Equal(t, []string{held, free}, placed.Waiting)
	require.Empty(t, placed.Recreated)
	require.True(t, apierrors.IsNotFound(s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding)))

	placed = s.enforce(policies.DesiredPlacement{Item: 0, Clusters: []string{free}, Held: []string{held}, Displaced: true})
	require.Equal(t, []string{held}, placed.Waiting)
	require.Equal(t, []string{activitykit.ObjectName(binding)}, placed.Recreated)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, []string{free}, s.enforced()) }, activitytest.EventTimeout, 20*time.Millisecond)

	deleteBinding()
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	places := &Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Workflows: &activitytest.HeldWorkflow{}}}
	activitytest.Attempt{Number: 1, At: closes}.RequireClosed(t, places.PlacePolicies,
		PlacePoliciesInput{Rollout: s.rollout, Closes: &closes, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: []string{free}, Displaced: true}}})
	require.True(t, apierrors.IsNotFound(s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding)))
}

func TestAPolicyIsTakenFromTheClustersOfAChangedPlacement(t *testing.T) {
	s := newPolicyScene(t, byOverride, func(string, string) time.Duration { return -1 })
	s.pin()
	cluster := s.clusters[0]
	for _, change := range []string{`{"spec":{"numberOfClusters":5}}`, `{"spec":{"tolerations":null}}`, `{"metadata":{"labels":{"by":"ann"}}}`} {
		s.place(0, cluster)
		placement, err := s.rollout.placement(s.rollout.Policies[0], nil)
		require.NoError(t, err)
		require.NoError(t, s.hub.Client.Patch(t.Context(), placement, client.RawPatch(types.MergePatchType, []byte(change))))
		s.place(1, cluster)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, []string{s.rollout.Policies[1].Replica()}, s.propagator.Enforced()[cluster], change)
		}, activitytest.EventTimeout, 20*time.Millisecond)
	}
}

// Another user deletes or changes an object of the rollout while it waits for a cluster.
func TestObjectsOfTheRolloutThatAreDeletedOrChangedAreReportedAndRestored(t *testing.T) {
	for _, enforcement := range []ranv1.EnforcementStatus{byOverride, byCopy, byCopyAndRule} {
		t.Run(string(enforcement.By)+" "+string(enforcement.Placements), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, func(string, string) time.Duration { return -1 })
			s.pin()
			cluster := s.clusters[0]
			s.place(0, cluster)
			names, err := policies.NamesFor(s.rollout.name(), s.rollout.Policies[0], enforcement.By)
			require.NoError(t, err)
			objects := append(enforcementObjects(s.rollout, s.rollout.Policies[0], names), policies.Placement(s.rollout.name(), names, "kernel", enforcement, nil))
			displaced := func() {
				t.Helper()
				known := policies.KnownCluster{Cluster: cluster, Status: "NN", Placed: true}
				s.watch(known, Enforced{Rollout: s.rollout}, func(seen policies.ClusterCompliance) bool { return seen.Displaced })
			}
			again := policies.DesiredPlacement{Item: 0, Clusters: []string{cluster}, Displaced: true}
			for _, object := range objects {
				require.NoError(t, s.hub.Client.Delete(t.Context(), object))
				displaced()
				require.Equal(t, []string{activitykit.ObjectName(object)}, s.enforce(again).Recreated)
			}
			patches := map[string][]string{
				policies.PlacementBindings.Kind: {
					`{"bindingOverrides":{"remediationAction":null},"subjects":[{"apiGroup":"policy.open-cluster-management.io","kind":"Policy","name":"other"}]}`,
				},
				policies.Placements.Kind: {
					`{"spec":{"numberOfClusters":0}}`, `{"spec":{"tolerations":null}}`, `{"metadata":{"annotations":{"` + policies.AnnotationUnscheduled + `":"true"}}}`,
					selecting(`{"key":"name","operator":"NotIn","values":["` + cluster + `"]}`),
					selecting(`{"key":"name","operator":"In","values":["` + cluster + `"]},{"key":"vendor","operator":"Exists"}`),
				},
				policies.PlacementRules.Kind: {`{"spec":{"clusters":[{"name":"other"}],"clusterReplicas":1}}`},
			}
			if enforcement.By == ranv1.EnforceCopy {
				patches[policies.PlacementBindings.Kind] = append(patches[policies.PlacementBindings.Kind], `{"bindingOverrides":{"remediationAction":"enforce"}}`, `{"subFilter":"restricted"}`)
			}
			for _, object := range objects {
				for _, patch := range patches[object.GetKind()] {
					require.NoError(t, s.hub.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
					displaced()
					placed := s.enforce(again)
					require.Equal(t, []string{activitykit.ObjectName(object)}, placed.Restored, patch)
					require.Empty(t, placed.Recreated)
					require.Empty(t, s.enforce(again).Restored, "once: %s", patch)
				}
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, []string{cluster}, s.enforced()) }, activitytest.EventTimeout, 20*time.Millisecond)
			s.cleanUp()
			require.Empty(t, s.created())
		})
	}
}

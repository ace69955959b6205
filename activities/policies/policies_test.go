package policies

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// policyScene is a hub on which policies are propagated: some are bound to all clusters of the scene, to inform.
type policyScene struct {
	t          *testing.T
	hub        *kube.Cluster
	propagator *propagator.Propagator
	activities *Activities
	rollout    Rollout
	clusters   []string
}

// newPolicyScene makes a scene with two policies, for the test alone.
func newPolicyScene(t *testing.T, enforcement ranv1.PolicyEnforcement, takes func(cluster, policy string) time.Duration) *policyScene {
	t.Helper()
	played, err := propagator.Start(t.Context(), activitytest.Stack.Cluster(activitytest.HubName).Config, propagator.Options{Takes: takes})
	require.NoError(t, err)
	t.Cleanup(played.Stop)
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	s := &policyScene{
		t: t, hub: activitytest.BareCluster(t), propagator: played, activities: &Activities{Clusters: activitytest.Clusters},
		rollout: Rollout{
			Namespace: namespace, Name: "june", Owner: "cgu/" + namespace + "/june/first-run", Enforcement: enforcement,
			Policies: []policies.Ref{{Namespace: namespace, Name: "kernel"}, {Namespace: namespace, Name: "network"}},
		},
	}
	grantRollouts(t, namespace)
	for i := range 3 {
		s.clusters = append(s.clusters, fmt.Sprintf("%s-c%d", namespace, i+1))
		s.create("apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: " + s.clusters[i] + ", labels: {name: " + s.clusters[i] + "}}")
	}
	if enforcement == ranv1.EnforceOverride {
		s.bindAllClusters()
	}
	for _, policy := range s.rollout.Policies {
		s.create(informing(policy, ""))
		s.bind(policy, s.clusters...)
	}
	s.awaitCompliance("NN", s.clusters...)
	return s
}

// grantRollouts lets the hub's account do in a namespace what deploy/rbac says has to be allowed in those of rollouts.
func grantRollouts(t *testing.T, namespace string) {
	t.Helper()
	binding := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: drydock-rollouts, namespace: `+namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drydock-rollouts}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]`), &binding.Object))
	require.NoError(t, activitytest.BareCluster(t).Client.Create(t.Context(), binding))
}

// informing is a policy that wants a ConfigMap of its name.
func informing(policy policies.Ref, annotations string) string {
	return fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: %s, name: %s, annotations: {%s}}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: %s-config}
      spec:
        remediationAction: inform
        object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%s}}}]
`, policy.Namespace, policy.Name, annotations, policy.Name, policy.Namespace, policy.Name)
}

func (s *policyScene) create(text string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(text), &object.Object))
	require.NoError(s.t, s.hub.Client.Create(s.t.Context(), object))
	s.t.Cleanup(func() {
		require.NoError(s.t, client.IgnoreNotFound(s.hub.Client.Delete(context.Background(), object)))
	})
	return object
}

// bindAllClusters lets placements of the namespace pick from all clusters.
func (s *policyScene) bindAllClusters() {
	s.t.Helper()
	s.create("apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {namespace: " + s.rollout.Namespace + ", name: global}\nspec: {clusterSet: global}")
}

// bind binds a policy to clusters as people do.
func (s *policyScene) bind(policy policies.Ref, clusters ...string) {
	s.t.Helper()
	listed := ""
	for _, cluster := range clusters {
		listed += "{name: " + cluster + "},"
	}
	s.create(fmt.Sprintf("apiVersion: apps.open-cluster-management.io/v1\nkind: PlacementRule\nmetadata: {namespace: %s, name: %s}\nspec: {clusters: [%s]}", policy.Namespace, policy.Name, listed))
	s.create(fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: %s, name: %s}
placementRef: {apiGroup: apps.open-cluster-management.io, kind: PlacementRule, name: %s}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: %s}]`, policy.Namespace, policy.Name, policy.Name, policy.Name))
}

// compliance is the compliance status of clusters, as the API server has it.
func (s *policyScene) compliance(clusters ...string) map[string]policies.ComplianceStatus {
	s.t.Helper()
	read, err := s.activities.ReadCompliance(s.t.Context(), ReadComplianceInput{Policies: s.rollout.Policies, Clusters: clusters})
	require.NoError(s.t, err)
	found := map[string]policies.ComplianceStatus{}
	for _, one := range read {
		found[one.Cluster] = one.Status
	}
	return found
}

func (s *policyScene) awaitCompliance(want policies.ComplianceStatus, clusters ...string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		read, err := s.activities.ReadCompliance(s.t.Context(), ReadComplianceInput{Policies: s.rollout.Policies, Clusters: clusters})
		assert.NoError(c, err)
		for _, one := range read {
			assert.Equal(c, want, one.Status, one.Cluster)
		}
		var known []policies.KnownCluster
		for _, cluster := range clusters {
			known = append(known, policies.KnownCluster{Cluster: cluster})
		}
		seen, err := s.activities.AwaitCompliance(s.t.Context(), AwaitComplianceInput{Policies: s.rollout.Policies, Clusters: known})
		assert.NoError(c, err)
		for _, one := range seen {
			assert.Equal(c, want, one.Status, "the watch of %s", one.Cluster)
		}
	}, activitytest.NewsLimit, 20*time.Millisecond)
}

func (s *policyScene) prepare() []Prepared {
	s.t.Helper()
	prepared, err := s.activities.PreparePolicies(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	return prepared
}

func (s *policyScene) place(policy int, clusters ...string) {
	s.t.Helper()
	s.enforce(policies.DesiredPlacement{Item: policy, Clusters: clusters})
}

// enforce places policies on clusters, and nothing anywhere else.
func (s *policyScene) enforce(desired ...policies.DesiredPlacement) remediation.PlacementResult {
	s.t.Helper()
	placed, err := s.activities.PlacePolicies(s.t.Context(), PlacePoliciesInput{Rollout: s.rollout, Desired: desired})
	require.NoError(s.t, err)
	return placed
}

// cleanUp removes what was made, and returns which policies have changed.
func (s *policyScene) cleanUp() []int {
	s.t.Helper()
	changed, err := s.activities.CleanUpPolicies(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	return changed
}

// pin lets the rollout know what its policies were when they were prepared.
func (s *policyScene) pin() {
	s.t.Helper()
	s.rollout.Pins = nil
	for _, one := range s.prepare() {
		s.rollout.Pins = append(s.rollout.Pins, one.Pin)
	}
}

func (s *policyScene) patch(ref policies.Ref, patch string) {
	s.t.Helper()
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.SetNamespace(ref.Namespace)
	policy.SetName(ref.Name)
	require.NoError(s.t, s.hub.Client.Patch(s.t.Context(), policy, client.RawPatch(types.JSONPatchType, []byte(patch))))
}

// made are the objects of the rollout, as <kind> <name>.
func (s *policyScene) made() []unstructured.Unstructured {
	s.t.Helper()
	var made []unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{policies.Policies, policies.PlacementRules, policies.Placements, policies.PlacementBindings} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		require.NoError(s.t, s.hub.Client.List(s.t.Context(), list, client.InNamespace(s.rollout.Namespace), client.MatchingLabels(policies.RolloutLabels(s.rollout.name()))))
		made = append(made, list.Items...)
	}
	return made
}

// enforced reports on which clusters of the scene something is enforced.
func (s *policyScene) enforced() []string {
	var found []string
	enforced := s.propagator.Enforced()
	for _, cluster := range s.clusters {
		if len(enforced[cluster]) > 0 {
			found = append(found, cluster)
		}
	}
	return found
}

func TestPoliciesAreEnforcedOnlyOnPlacedClusters(t *testing.T) {
	for _, enforcement := range []ranv1.PolicyEnforcement{ranv1.EnforceCopy, ranv1.EnforceOverride} {
		t.Run(string(enforcement), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			for _, object := range s.made() {
				require.Equal(t, s.rollout.Owner, kube.Owner(&object), activitykit.ObjectName(&object))
			}
			s.place(0, s.clusters[0])
			s.awaitCompliance("CN", s.clusters[0])
			require.Equal(t, map[string]policies.ComplianceStatus{s.clusters[1]: "NN", s.clusters[2]: "NN"}, s.compliance(s.clusters[1], s.clusters[2]))

			s.place(1, s.clusters[0], s.clusters[1])
			s.awaitCompliance("CC", s.clusters[0])
			s.awaitCompliance("NC", s.clusters[1])
			require.Equal(t, map[string]policies.ComplianceStatus{s.clusters[2]: "NN"}, s.compliance(s.clusters[2]))

			s.prepare()
			require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.NewsLimit, 20*time.Millisecond, "prepared anew, nothing is enforced")
			s.place(0, s.clusters[1])
			require.Empty(t, s.cleanUp())
			require.Empty(t, s.cleanUp(), "twice")
			require.Empty(t, s.made())
			require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.NewsLimit, 20*time.Millisecond)
		})
	}
}

func TestDeletedObjectsAreRecreatedForAddedClusters(t *testing.T) {
	for _, enforcement := range []ranv1.PolicyEnforcement{ranv1.EnforceCopy, ranv1.EnforceOverride} {
		t.Run(string(enforcement), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			s.place(0, s.clusters[0])
			s.awaitCompliance("CN", s.clusters[0])
			ref := s.rollout.Policies[0]
			names, err := policies.NamesFor(s.rollout.name(), ref, enforcement)
			require.NoError(t, err)
			var deleted []string
			for _, object := range enforcementObjects(s.rollout, ref, names) {
				require.NoError(t, s.hub.Client.Delete(t.Context(), object))
				deleted = append(deleted, activitykit.ObjectName(object))
			}
			others := policies.DesiredPlacement{Item: 0, Clusters: s.clusters[1:]}
			require.Equal(t, deleted, s.enforce(others).Recreated)
			s.awaitCompliance("CN", s.clusters[1:]...)
			require.Empty(t, s.enforce(others).Recreated)
		})
	}
}

func TestAChangedPolicyIsReportedAndItsCopyStaysTheSame(t *testing.T) {
	for _, enforcement := range []ranv1.PolicyEnforcement{ranv1.EnforceCopy, ranv1.EnforceOverride} {
		t.Run(string(enforcement), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.pin()
			kernel, network := s.rollout.Policies[0], s.rollout.Policies[1]
			place := func() (remediation.PlacementResult, error) {
				s.enforce() // so that they are placed anew
				var all []policies.DesiredPlacement
				for item := range s.rollout.Policies {
					all = append(all, policies.DesiredPlacement{Item: item, Clusters: s.clusters})
				}
				return s.activities.PlacePolicies(t.Context(), PlacePoliciesInput{Rollout: s.rollout, Desired: all})
			}
			requireFound := func(recreated []string, changed ...int) {
				t.Helper()
				found, err := place()
				require.NoError(t, err)
				require.Equal(t, recreated, found.Recreated)
				require.Equal(t, changed, found.Changed)
			}
			s.patch(network, `[{"op":"add","path":"/metadata/annotations","value":{"somebody":"was here"}}]`)
			requireFound(nil)

			s.patch(kernel, `[{"op":"add","path":"/spec/policy-templates/0/objectDefinition/spec/severity","value":"high"}]`)
			requireFound(nil, 0)

			names, err := policies.NamesFor(s.rollout.name(), kernel, enforcement)
			require.NoError(t, err)
			what := enforcementObjects(s.rollout, kernel, names)
			require.NoError(t, s.hub.Client.Delete(t.Context(), what[0]))
			requireFound([]string{activitykit.ObjectName(what[0])}, 0)
			if enforcement == ranv1.EnforceCopy {
				require.NoError(t, s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(what[1]), what[1]))
				require.NotContains(t, fmt.Sprint(what[1].Object["spec"]), "severity", "the copy stays what it was")
				require.NoError(t, s.hub.Client.Delete(t.Context(), what[1]))
				_, err = place()
				require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
				require.ErrorContains(t, err, "policy "+kernel.String()+" has been changed since the rollout began, and the copy of its former spec, "+s.rollout.Namespace+"/"+names.Copy+", has been deleted")
			}
			s.pin() // as another rollout does
			requireFound(nil)
			require.NoError(t, s.hub.Client.Delete(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": policies.Policies.GroupVersion().String(), "kind": policies.Policies.Kind,
				"metadata": map[string]any{"namespace": network.Namespace, "name": network.Name},
			}}))
			requireFound(nil, 1)
			s.create(informing(network, ""))
			changed, err := s.activities.ChangedPolicies(t.Context(), s.rollout)
			require.NoError(t, err)
			require.Equal(t, []int{1}, changed, "it was made anew")
			require.NotEmpty(t, s.made(), "it only looks")
			require.Equal(t, changed, s.cleanUp())
			require.Empty(t, s.made())
		})
	}
}

// A placement of a rollout that somebody edits or deletes is what the next placing makes it, and a placing that finds all as it should be writes nothing.
func TestPlacingPoliciesWritesOnlyTheDifference(t *testing.T) {
	for _, enforcement := range []ranv1.PolicyEnforcement{ranv1.EnforceCopy, ranv1.EnforceOverride} {
		t.Run(string(enforcement), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			placement := func(item int) *unstructured.Unstructured {
				object, err := s.rollout.placement(s.rollout.Policies[item], nil)
				require.NoError(t, err)
				require.NoError(t, s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
				return object
			}
			one := policies.DesiredPlacement{Item: 0, Clusters: s.clusters[:1], Held: s.clusters[1:2]}
			require.Equal(t, s.clusters[1:2], s.enforce(one).Waiting, "nothing begins on a held cluster")
			before := []string{generationOf(placement(0)), generationOf(placement(1))}
			s.enforce(one)
			require.Equal(t, before, []string{generationOf(placement(0)), generationOf(placement(1))})

			s.place(0, s.clusters[1])
			held := policies.DesiredPlacement{Item: 0, Held: s.clusters[:2]}
			require.Equal(t, s.clusters[:1], s.enforce(held).Waiting)
			require.Equal(t, s.clusters[1:2], policies.PlacedClusters(placement(0)), "what is on a held cluster stays")

			require.NoError(t, s.hub.Client.Delete(t.Context(), placement(0)))
			s.place(0, s.clusters[2])
			require.Equal(t, s.clusters[2:], policies.PlacedClusters(placement(0)))
			s.enforce()
			require.Empty(t, policies.PlacedClusters(placement(0)))
		})
	}
}

func generationOf(object client.Object) string { return policies.Pin(object) }

// The hub does not allow the placement of the first policy to be changed: clusters with the other policy do not wait for it.
func TestARefusedPlacementDoesNotStopOthers(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	s.prepare()
	refusing, err := client.New(refuseWrites(activitytest.Stack.Cluster(activitytest.HubName).Config, "kernel-placement"), client.Options{})
	require.NoError(t, err)
	hub := &kube.Cluster{Name: activitytest.HubName, Client: client.WithFieldOwner(refusing, "drydock")}
	desired := []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters[:2]}, {Item: 1, Clusters: s.clusters[2:]}}
	observed, err := observePlacements(t.Context(), hub, s.rollout)
	require.NoError(t, err)
	changes, _ := policies.Changes(desired, observed)
	var placed remediation.PlacementResult
	require.NoError(t, applyPlacements(t.Context(), &placed, hub, s.rollout, changes))
	require.Len(t, placed.Refused, 1)
	require.Equal(t, s.clusters[:2], placed.Refused[0].Clusters)
	require.Equal(t, remediation.ReasonNotPlaced, placed.Refused[0].Reason)
	require.Contains(t, placed.Refused[0].Message, "frozen")
	s.awaitCompliance("NC", s.clusters[2])
	require.Equal(t, map[string]policies.ComplianceStatus{s.clusters[0]: "NN", s.clusters[1]: "NN"}, s.compliance(s.clusters[:2]...))
}

// refuseWrites answers writes of objects whose name has that in it as an admission webhook does.
func refuseWrites(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusingWrites{next, name} })
	return config
}

type refusingWrites struct {
	http.RoundTripper
	name string
}

func (r refusingWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, r.name) {
		return r.RoundTripper.RoundTrip(request)
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"admission webhook denied the request: frozen"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}, nil
}

func TestPreparedPoliciesHaveSafeNamesAndSoaks(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	soaking := policies.Ref{Namespace: s.rollout.Namespace, Name: "soaking"}
	s.create(informing(soaking, `ran.openshift.io/soak-seconds: "60"`))
	s.rollout.Policies = []policies.Ref{s.rollout.Policies[0], soaking}
	prepared := s.prepare()
	require.Equal(t, []time.Duration{0, time.Minute}, []time.Duration{prepared[0].Soak, prepared[1].Soak})
	var names []string
	for _, object := range s.made() {
		names = append(names, object.GetName())
	}
	require.Len(t, names, 6)
	for _, one := range prepared {
		require.Contains(t, names, one.SafeNames["june-"+one.Name])
		require.Contains(t, names, one.SafeNames["june-"+one.Name+"-placement"])
	}
}

// Each has seven requests: on a hub that is far away, an attempt at one policy after the other would be over before they are, and begin again.
func TestPoliciesArePreparedAndCleanedUpInParallel(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	s.rollout.Policies = nil
	for i := range 30 {
		policy := policies.Ref{Namespace: s.rollout.Namespace, Name: fmt.Sprintf("policy-%d", i)}
		s.create(informing(policy, ""))
		s.rollout.Policies = append(s.rollout.Policies, policy)
	}
	attempt, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prepared, err := preparePolicies(attempt, sideBySide(t), s.rollout)
	require.NoError(t, err)
	for i, one := range prepared {
		require.Equal(t, s.rollout.Policies[i], one.Ref, "in the order of their turns")
	}
	_, err = cleanUpPolicies(attempt, sideBySide(t), s.rollout)
	require.NoError(t, err)
	require.Empty(t, s.made())
}

// sideBySide is the hub, which answers the first request about an object only when there is a second one.
func sideBySide(t *testing.T) *kube.Cluster {
	t.Helper()
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &pairing{RoundTripper: next, second: make(chan struct{})}
	})
	paired, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return &kube.Cluster{Name: activitytest.HubName, Client: client.WithFieldOwner(paired, "drydock")}
}

type pairing struct {
	http.RoundTripper
	begun  atomic.Int32
	second chan struct{}
}

func (p *pairing) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/namespaces/") {
		switch p.begun.Add(1) {
		case 1:
			select {
			case <-p.second:
			case <-request.Context().Done():
			}
		case 2:
			close(p.second)
		}
	}
	return p.RoundTripper.RoundTrip(request)
}

func TestPoliciesThatCannotBeEnforcedAreRefused(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	gone := s.rollout
	gone.Policies = []policies.Ref{{Namespace: s.rollout.Namespace, Name: "gone"}}
	_, err := s.activities.PreparePolicies(t.Context(), gone)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	require.ErrorContains(t, err, "policy "+s.rollout.Namespace+"/gone does not exist on the hub")

	s.prepare()
	ours := s.made()[0]
	theirs := ours.DeepCopy()
	theirs.SetAnnotations(map[string]string{kube.AnnotationOwner: "cgu/elsewhere/july/first-run"})
	// Not an update: the policy engine writes the status meanwhile.
	require.NoError(t, s.hub.Client.Patch(t.Context(), theirs, client.MergeFrom(&ours)))
	_, err = s.activities.PreparePolicies(t.Context(), s.rollout)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "exists and is not of this rollout (it belongs to cgu/elsewhere/july)")
	require.Empty(t, s.cleanUp())
	require.Len(t, s.made(), 1, "what belongs to another stays")
}

func TestAnotherRunAdoptsTheObjectsOfTheLastOne(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	s.prepare()
	s.place(0, s.clusters...)
	s.rollout.Owner = "cgu/" + s.rollout.Namespace + "/june/second-run"
	s.prepare()
	require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.NewsLimit, 20*time.Millisecond)
	require.Empty(t, s.cleanUp())
	require.Empty(t, s.made())
}

// await waits for news in the background.
func (s *policyScene) await(known ...policies.KnownCluster) <-chan []policies.ClusterCompliance {
	return s.awaitFor(300*time.Millisecond, known...)
}

func (s *policyScene) awaitFor(gather time.Duration, known ...policies.KnownCluster) <-chan []policies.ClusterCompliance {
	news := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := s.activities.AwaitCompliance(s.t.Context(), AwaitComplianceInput{Policies: s.rollout.Policies, Clusters: known, Gather: gather})
		assert.NoError(s.t, err)
		news <- found
	}()
	return news
}

func (s *policyScene) requireNews(news <-chan []policies.ClusterCompliance, want ...policies.ClusterCompliance) {
	s.t.Helper()
	select {
	case found := <-news:
		require.Equal(s.t, want, found)
	case <-time.After(time.Minute):
		require.Fail(s.t, "no news")
	}
}

func TestComplianceIsReportedInBulkWhenItChanges(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	one, two, three := s.clusters[0], s.clusters[1], s.clusters[2]
	s.requireNews(s.await(policies.KnownCluster{Cluster: one}, policies.KnownCluster{Cluster: two}),
		policies.ClusterCompliance{Cluster: one, Status: "NN"}, policies.ClusterCompliance{Cluster: two, Status: "NN"})

	news := s.await(policies.KnownCluster{Cluster: one, Status: "NN"}, policies.KnownCluster{Cluster: two, Status: "NN"}, policies.KnownCluster{Cluster: three, Status: "NN"})
	s.prepare()
	s.place(0, one, two)
	s.requireNews(news, policies.ClusterCompliance{Cluster: one, Status: "CN"}, policies.ClusterCompliance{Cluster: two, Status: "CN"})
}

func TestAShortRelapseIsReported(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, func(string, string) time.Duration { return 50 * time.Millisecond })
	s.prepare()
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	const beyondTheRelapse = 10 * time.Second
	news := s.awaitFor(beyondTheRelapse, policies.KnownCluster{Cluster: s.clusters[0], Status: "CN"}, policies.KnownCluster{Cluster: s.clusters[1], Status: "NN"})
	require.Never(t, func() bool { return len(news) > 0 }, 200*time.Millisecond, 20*time.Millisecond, "nothing has changed")
	require.NoError(t, s.propagator.Drift(t.Context(), s.clusters[0], s.rollout.Namespace, "kernel"))
	s.requireNews(news, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "CN", Relapsed: true})

	// Nor is it lost with a watch that ends before it would report it.
	reader, err := s.activities.reader(t.Context(), s.rollout.Policies)
	require.NoError(t, err)
	seen, looked, over := "", make(chan struct{}), make(chan struct{})
	judge := reader.Judge
	reader.Judge = func(replica *unstructured.Unstructured) policies.Compliance {
		compliance := judge(replica)
		if replica == nil || replica.GetNamespace() != s.clusters[0] || replica.GetName() != reader.Names[0] {
			return compliance
		}
		switch {
		case compliance == policies.Compliant && seen == "":
			seen = "C"
			close(looked)
		case compliance != policies.Compliant && seen == "C":
			seen = "CN"
		case compliance == policies.Compliant && seen == "CN":
			seen = "CNC"
			close(over)
		}
		return compliance
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	relapsed := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := reader.Await(watching, []policies.KnownCluster{{Cluster: s.clusters[0], Status: "CN"}, {Cluster: s.clusters[1], Status: "NN"}}, time.Hour)
		assert.NoError(t, err)
		relapsed <- found
	}()
	<-looked
	require.Eventually(t, func() bool { // one that is too short for two looks is not seen
		select {
		case <-over:
			return true
		default:
			assert.NoError(t, s.propagator.Drift(t.Context(), s.clusters[0], s.rollout.Namespace, "kernel"))
			return false
		}
	}, time.Minute, 300*time.Millisecond)
	stop()
	found := <-relapsed
	require.Len(t, found, 1)
	require.True(t, found[0].Relapsed)
}

func TestUnboundClustersAndDeletedPoliciesAreReported(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	news := s.await(policies.KnownCluster{Cluster: s.clusters[0], Status: "NN"}, policies.KnownCluster{Cluster: s.clusters[1], Status: "NN"})
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.SetNamespace(s.rollout.Namespace)
	policy.SetName("network")
	require.NoError(t, s.hub.Client.Delete(t.Context(), policy))
	s.requireNews(news, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "N-"}, policies.ClusterCompliance{Cluster: s.clusters[1], Status: "N-"})
	require.Equal(t, policies.ComplianceStatus("N-"), s.compliance(s.clusters[2])[s.clusters[2]])
}

// The hub has as many replicas as clusters times policies.
func TestCachedReplicasAreTrimmed(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	s.prepare()
	s.place(0, s.clusters...)
	s.awaitCompliance("CN", s.clusters...)
	hub, err := activitytest.Clusters.Hub(t.Context())
	require.NoError(t, err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(policies.Policies)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, hub.Cache.List(t.Context(), list, client.InNamespace(s.clusters[0])))
		assert.Len(c, list.Items, 2, "neither the policies themselves nor the replicas of copies")
	}, activitytest.NewsLimit, 20*time.Millisecond)
	for _, replica := range list.Items {
		require.NotContains(t, replica.Object, "spec")
		require.Empty(t, replica.GetLabels())
		require.True(t, slices.Contains([]string{s.rollout.Policies[0].Replica(), s.rollout.Policies[1].Replica()}, replica.GetName()))
	}
}

// countedWatches counts the watches of policies that are opened.
type countedWatches struct {
	next   http.RoundTripper
	opened *atomic.Int32
}

func (c countedWatches) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("watch") && strings.Contains(request.URL.Path, "/"+policies.Policies.Group+"/") {
		c.opened.Add(1)
	}
	return c.next.RoundTrip(request)
}

func TestWaitsForComplianceShareOneWatch(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	s.prepare()
	var opened atomic.Int32
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countedWatches{next, &opened} })
	counted := kube.New(kube.FromConfigs(config, nil), kube.Options{})
	t.Cleanup(counted.Close)
	var waits errgroup.Group
	for _, cluster := range s.clusters {
		for policy := range s.rollout.Policies {
			waits.Go(func() error {
				_, err := (&Activities{Clusters: counted}).AwaitCompliance(t.Context(), AwaitComplianceInput{
					Policies: s.rollout.Policies, Clusters: []policies.KnownCluster{{Cluster: cluster, Status: "NN", Policy: policy}},
				})
				return err
			})
		}
	}
	s.enforce(policies.DesiredPlacement{Item: 0, Clusters: s.clusters}, policies.DesiredPlacement{Item: 1, Clusters: s.clusters})
	require.NoError(t, waits.Wait())
	require.EqualValues(t, 1, opened.Load(), "however many wait")
}

func TestARolloutOfPoliciesIsPlannedFromThePoliciesOfTheHub(t *testing.T) {
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	cgu := activitytest.NodeRollout(s.clusters...)
	cgu.Namespace, cgu.Name = s.rollout.Namespace, "june"
	cgu.Spec.NodeMaintenance, cgu.Spec.ManagedPolicies = nil, []string{"kernel", "network"}
	var planned rollouts.Plan
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		planned, err = (&rollouts.Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), cgu)
		assert.NoError(c, err)
		assert.Len(c, planned.StartPolicyIndex, 3)
	}, activitytest.NewsLimit, 20*time.Millisecond)
	require.True(t, planned.Valid(), planned.Problems())
	require.Equal(t, map[string]string{"kernel": s.rollout.Namespace, "network": s.rollout.Namespace}, planned.PolicyNamespaces)

	cgu.Spec.PolicyEnforcement = ranv1.EnforceOverride
	planned, err := (&rollouts.Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), cgu)
	require.NoError(t, err)
	require.Contains(t, planned.Conditions[1].Message, "namespace "+s.rollout.Namespace+" needs ManagedClusterSetBinding global (spec.clusterSet: global)")
	s.bindAllClusters()
	planned, err = (&rollouts.Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), cgu)
	require.NoError(t, err)
	require.Equal(t, "Completed validation", planned.Conditions[1].Message)
}

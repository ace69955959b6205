package policies

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

func TestPoliciesAreEnforcedOnlyOnPlacedClusters(t *testing.T) {
	for _, enforcement := range []ranv1.EnforcementStatus{byOverride, byCopy, byCopyAndRule} {
		t.Run(string(enforcement.By)+" "+string(enforcement.Placements), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			for _, object := range s.created() {
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
			require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.EventTimeout, 20*time.Millisecond, "after another preparation nothing is enforced")
			s.place(0, s.clusters[1])
			require.Empty(t, s.cleanUp())
			require.Empty(t, s.cleanUp(), "twice")
			require.Empty(t, s.created())
			require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.EventTimeout, 20*time.Millisecond)
		})
	}
}

func TestDeletedObjectsAreRecreatedForAddedClusters(t *testing.T) {
	for _, enforcement := range []ranv1.EnforcementStatus{byOverride, byCopy, byCopyAndRule} {
		t.Run(string(enforcement.By)+" "+string(enforcement.Placements), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			s.place(0, s.clusters[0])
			s.awaitCompliance("CN", s.clusters[0])
			ref := s.rollout.Policies[0]
			names, err := policies.NamesFor(s.rollout.name(), ref, enforcement.By)
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
	for _, enforcement := range []ranv1.EnforcementStatus{byOverride, byCopy, byCopyAndRule} {
		t.Run(string(enforcement.By)+" "+string(enforcement.Placements), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.pin()
			kernel, network := s.rollout.Policies[0], s.rollout.Policies[1]
			place := func() (remediation.PlacementResult, error) {
				s.enforce() // so that they are placed again
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
			s.patch(network, `[{"op":"add","path":"/metadata/annotations","value":{"edited-by":"ann"}}]`)
			requireFound(nil)

			s.patch(kernel, `[{"op":"add","path":"/spec/policy-templates/0/objectDefinition/spec/severity","value":"high"}]`)
			requireFound(nil, 0)

			names, err := policies.NamesFor(s.rollout.name(), kernel, enforcement.By)
			require.NoError(t, err)
			what := enforcementObjects(s.rollout, kernel, names)
			require.NoError(t, s.hub.Client.Delete(t.Context(), what[0]))
			requireFound([]string{activitykit.ObjectName(what[0])}, 0)
			if enforcement.By == ranv1.EnforceCopy {
				require.NoError(t, s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(what[1]), what[1]))
				require.NotContains(t, fmt.Sprint(what[1].Object["spec"]), "severity", "the copy stays unchanged")
				require.NoError(t, s.hub.Client.Delete(t.Context(), what[1]))
				_, err = place()
				require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
				require.ErrorContains(t, err, "policy "+kernel.String()+" has been changed since the rollout began, and the copy of its former spec, "+s.rollout.Namespace+"/"+names.Copy+", has been deleted")
			}
			s.pin() // like another rollout
			requireFound(nil)
			require.NoError(t, s.hub.Client.Delete(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": policies.Policies.GroupVersion().String(), "kind": policies.Policies.Kind,
				"metadata": map[string]any{"namespace": network.Namespace, "name": network.Name},
			}}))
			requireFound(nil, 1)
			s.create(informing(network, ""))
			changed, err := s.activities.ChangedPolicies(t.Context(), s.rollout)
			require.NoError(t, err)
			require.Equal(t, []int{1}, changed, "the policy was recreated")
			require.NotEmpty(t, s.created(), "the check changes nothing")
			require.Equal(t, changed, s.cleanUp())
			require.Empty(t, s.created())
		})
	}
}

// A placement corrects an edited or deleted object, and writes nothing if all objects are correct.
func TestPlacingPoliciesWritesOnlyTheDifference(t *testing.T) {
	for _, enforcement := range []ranv1.EnforcementStatus{byOverride, byCopy, byCopyAndRule} {
		t.Run(string(enforcement.By)+" "+string(enforcement.Placements), func(t *testing.T) {
			s := newPolicyScene(t, enforcement, nil)
			s.prepare()
			placement := func(item int) *unstructured.Unstructured {
				object, err := s.rollout.placement(s.rollout.Policies[item], nil)
				require.NoError(t, err)
				require.NoError(t, s.hub.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
				return object
			}
			one := policies.DesiredPlacement{Item: 0, Clusters: s.clusters[:1], Held: s.clusters[1:2]}
			require.Equal(t, s.clusters[1:2], s.enforce(one).Waiting, "nothing starts on a held cluster")
			before := []string{generationOf(placement(0)), generationOf(placement(1))}
			s.enforce(one)
			require.Equal(t, before, []string{generationOf(placement(0)), generationOf(placement(1))})

			s.place(0, s.clusters[1])
			held := policies.DesiredPlacement{Item: 0, Held: s.clusters[:2]}
			require.Equal(t, s.clusters[:1], s.enforce(held).Waiting)
			require.Equal(t, s.clusters[1:2], policies.PlacedClusters(placement(0)), "a held cluster stays placed")

			require.NoError(t, s.hub.Client.Delete(t.Context(), placement(0)))
			s.place(0, s.clusters[2])
			require.Equal(t, s.clusters[2:], policies.PlacedClusters(placement(0)))
			s.enforce()
			require.Empty(t, policies.PlacedClusters(placement(0)))
		})
	}
}

func generationOf(object client.Object) string { return policies.Pin(object) }

// The hub refuses changes of the placement of the first policy. Clusters with the other policy are placed.
func TestARefusedPlacementDoesNotStopOthers(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	refusing, err := client.New(refuseWrites(activitytest.Stack.Cluster(activitytest.HubName).Config, "kernel-placement"), client.Options{})
	require.NoError(t, err)
	hub := &kube.Cluster{Name: activitytest.HubName, Client: client.WithFieldOwner(refusing, "drydock")}
	desired := []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters[:2]}, {Item: 1, Clusters: s.clusters[2:]}}
	observed, err := observePlacements(t.Context(), hub, s.rollout)
	require.NoError(t, err)
	changes, _ := policies.Changes(desired, observedBy(observed))
	var placed remediation.PlacementResult
	written, err := applyPlacements(t.Context(), &placed, hub, s.rollout, changes)
	require.NoError(t, err)
	require.Len(t, written, 1)
	require.Len(t, placed.Refused, 1)
	require.Equal(t, s.clusters[:2], placed.Refused[0].Clusters)
	require.Equal(t, remediation.ReasonNotPlaced, placed.Refused[0].Reason)
	require.Contains(t, placed.Refused[0].Message, "frozen")
	s.awaitCompliance("NC", s.clusters[2])
	require.Equal(t, map[string]policies.ComplianceStatus{s.clusters[0]: "NN", s.clusters[1]: "NN"}, s.compliance(s.clusters[:2]...))
}

// refuseWrites refuses writes of objects with that text in their names, like an admission webhook.
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
	s := newPolicyScene(t, byCopy, nil)
	soaking := policies.Ref{Namespace: s.rollout.Namespace, Name: "soaking"}
	s.create(informing(soaking, `ran.openshift.io/soak-seconds: "60"`))
	s.rollout.Policies = []policies.Ref{s.rollout.Policies[0], soaking}
	prepared := s.prepare()
	require.Equal(t, []time.Duration{0, time.Minute}, []time.Duration{prepared[0].Soak, prepared[1].Soak})
	var names []string
	for _, object := range s.created() {
		names = append(names, object.GetName())
	}
	require.Len(t, names, 6)
	for _, one := range prepared {
		require.Contains(t, names, one.SafeNames["june-"+one.Name])
		require.Contains(t, names, one.SafeNames["june-"+one.Name+"-placement"])
	}
}

// Each policy needs seven requests. On a slow hub, an attempt that prepares them one by one would time out.
func TestPoliciesArePreparedAndCleanedUpInParallel(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.rollout.Policies = nil
	for i := range 30 {
		policy := policies.Ref{Namespace: s.rollout.Namespace, Name: fmt.Sprintf("policy-%d", i)}
		s.create(informing(policy, ""))
		s.rollout.Policies = append(s.rollout.Policies, policy)
	}
	attempt, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prepared, err := preparePolicies(attempt, activitytest.HubThatPairsRequests(t, "/namespaces/"), s.rollout)
	require.NoError(t, err)
	for i, one := range prepared {
		require.Equal(t, s.rollout.Policies[i], one.Ref, "in the order of the rollout")
	}
	_, err = cleanUpPolicies(attempt, activitytest.HubThatPairsRequests(t, "/namespaces/"), s.rollout)
	require.NoError(t, err)
	require.Empty(t, s.created())
}

func TestPoliciesThatCannotBeEnforcedAreRefused(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	gone := s.rollout
	gone.Policies = []policies.Ref{{Namespace: s.rollout.Namespace, Name: "gone"}}
	_, err := s.activities.PreparePolicies(t.Context(), gone)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	require.ErrorContains(t, err, "policy "+s.rollout.Namespace+"/gone does not exist on the hub")

	s.prepare()
	ours := s.created()[0]
	theirs := ours.DeepCopy()
	theirs.SetAnnotations(map[string]string{kube.AnnotationOwner: "cgu/other/july/first-run"})
	// Use a patch: the policy engine writes the status concurrently.
	require.NoError(t, s.hub.Client.Patch(t.Context(), theirs, client.MergeFrom(&ours)))
	_, err = s.activities.PreparePolicies(t.Context(), s.rollout)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "exists and is not of this rollout (it belongs to cgu/other/july)")
	require.Empty(t, s.cleanUp())
	require.Len(t, s.created(), 1, "foreign objects stay")
}

func TestAnotherRunAdoptsTheObjectsOfTheLastOne(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	s.place(0, s.clusters...)
	s.rollout.Owner = "cgu/" + s.rollout.Namespace + "/june/second-run"
	s.prepare()
	require.Eventually(t, func() bool { return len(s.enforced()) == 0 }, activitytest.EventTimeout, 20*time.Millisecond)
	require.Empty(t, s.cleanUp())
	require.Empty(t, s.created())
}

func TestARolloutOfPoliciesIsPlannedFromThePoliciesOfTheHub(t *testing.T) {
	s := newPolicyScene(t, byCopyAndRule, nil)
	cgu := activitytest.NodeRollout(s.clusters...)
	cgu.Namespace, cgu.Name = s.rollout.Namespace, "june"
	cgu.Spec.NodeMaintenance, cgu.Spec.ManagedPolicies = nil, []string{"kernel", "network"}
	activities := &rollouts.Activities{Clusters: activitytest.Clusters}
	var planned rollouts.Plan
	plans := func(validated string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { // the ManagedClusters are read from the cache
			var err error
			planned, err = activities.PlanRollout(t.Context(), rollouts.PlanInput{Object: cgu})
			assert.NoError(c, err)
			assert.Len(c, planned.Conditions, 2)
			assert.Contains(c, planned.Conditions[len(planned.Conditions)-1].Message, validated)
		}, activitytest.EventTimeout, 20*time.Millisecond)
	}
	plans("create the ManagedClusterSetBindings there for the sets global")
	activitytest.BindAllClusters(t, s.rollout.Namespace)
	plans("Completed validation")
	require.Len(t, planned.StartPolicyIndex, 3)
	require.Equal(t, map[string]string{"kernel": s.rollout.Namespace, "network": s.rollout.Namespace}, planned.PolicyNamespaces)
	require.Equal(t, &byOverride, planned.PolicyEnforcement, "the hub serves overrides and Placements")
	require.Empty(t, planned.Spec.PolicyEnforcement, "the decision does not change the spec")

	activities.Defaults.PolicyEnforcement = ranv1.EnforceCopy
	plans("Completed validation")
	require.Equal(t, &byCopy, planned.PolicyEnforcement, "the workers prefer copies")
	cgu.Spec.PolicyEnforcement = ranv1.EnforceOverride
	plans("Completed validation")
	require.Equal(t, &byOverride, planned.PolicyEnforcement, "the spec decides")
}

func TestPreparedPoliciesNameTheSubscriptionsThatTheyRequire(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.patch(s.rollout.Policies[1], `[{"op":"replace","path":"/spec/policy-templates/0/objectDefinition/spec/object-templates","value":[{"complianceType":"musthave","objectDefinition":{
		"apiVersion":"operators.coreos.com/v1alpha1","kind":"Subscription","metadata":{"namespace":"ptp","name":"ptp"},"spec":{"channel":"stable","startingCSV":"ptp.v2","config":{}}}}]}]`)
	prepared := s.prepare()
	require.Empty(t, prepared[0].Subscriptions)
	require.Equal(t, []installplans.Requested{{Namespace: "ptp", Name: "ptp", Spec: map[string]string{"channel": "stable", "startingCSV": "ptp.v2"}}}, prepared[1].Subscriptions)
}

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// templatedScene is a scene whose first policy is in another namespace than the rollout, and reads ConfigMap sizes there.
func templatedScene(t *testing.T) (s *policyScene, sizes *corev1.ConfigMap) {
	t.Helper()
	s = newPolicyScene(t, byCopy, nil)
	base := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grant(t, base, "drydock-rollouts", "drydock-copied-configmaps")
	grant(t, s.rollout.Namespace, "drydock-copied-configmaps")
	for _, namespace := range []string{base, s.rollout.Namespace} {
		devstacktest.Granted(t, activitytest.Stack.Cluster(activitytest.HubName), devstacktest.ServiceAccount("drydock-hub"),
			authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "configmaps"})
	}
	activitytest.BindAllClusters(t, base)
	sizes = activitytest.Create(t, s.hub, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: base, Name: "sizes", Labels: map[string]string{"app": "gitops"}},
		Data:       map[string]string{"size": "small"}, BinaryData: map[string][]byte{"key": {1, 2}},
	})
	templated := policies.Ref{Namespace: base, Name: "templated"}
	s.create(fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: %s, name: templated}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: templated}
      spec: {object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: a-%s}, data: {size: '{{hub fromConfigMap "" "sizes" "size" hub}}'}}}]}`,
		base, base))
	s.bind(templated, s.clusters...)
	s.rollout.Policies[0] = templated
	s.awaitCompliance("NN", s.clusters...)
	return s, sizes
}

// prepared prepares the policies, and keeps what is known of them like a workflow.
func (s *policyScene) prepared() {
	s.t.Helper()
	s.rollout.Pins, s.rollout.Sources = nil, nil
	for _, one := range s.prepare() {
		s.rollout.Pins, s.rollout.Sources = append(s.rollout.Pins, one.Pin), append(s.rollout.Sources, one.Sources)
	}
}

// copies are the ConfigMaps of the rollout.
func (s *policyScene) copies() []corev1.ConfigMap {
	s.t.Helper()
	var list corev1.ConfigMapList
	require.NoError(s.t, s.hub.Client.List(s.t.Context(), &list, client.InNamespace(s.rollout.Namespace), client.MatchingLabels(policies.RolloutLabels(s.rollout.name()))))
	return list.Items
}

func TestTheConfigMapsThatHubTemplatesReadAreCopiedWithThePolicy(t *testing.T) {
	s, sizes := templatedScene(t)
	s.prepared()
	require.Equal(t, [][]string{{"sizes"}, nil}, s.rollout.Sources)
	copies := s.copies()
	require.Len(t, copies, 1)
	require.Equal(t, sizes.Data, copies[0].Data)
	require.Equal(t, sizes.BinaryData, copies[0].BinaryData)
	require.NotContains(t, copies[0].Labels, "app", "the labels of the source may belong to another program")
	require.Equal(t, s.rollout.Owner, kube.Owner(&copies[0]))
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	require.Empty(t, s.cleanUp())
	require.Empty(t, s.copies())
	require.Empty(t, s.created())
}

// The policy itself reads the new content, and clusters comply with that.
func TestACopyFollowsItsConfigMap(t *testing.T) {
	s, sizes := templatedScene(t)
	s.prepared()
	cluster := s.clusters[0]
	s.place(0, cluster)
	s.awaitCompliance("CN", cluster)
	s.propagator.Stop()
	s.restartPropagator(func(string, string) time.Duration { return -1 })

	sizes.Data["size"] = "large"
	require.NoError(t, s.hub.Client.Update(t.Context(), sizes))
	s.awaitCompliance("NN", cluster)
	known := policies.KnownCluster{Cluster: cluster, Status: "NN", Placed: true}
	displaced := func() {
		t.Helper()
		s.watch(known, Enforced{Rollout: s.rollout}, func(seen policies.ClusterCompliance) bool { return seen.Displaced })
	}
	displaced()
	again := policies.DesiredPlacement{Item: 0, Clusters: []string{cluster}, Displaced: true}
	require.Empty(t, s.enforce(again).Restored)
	require.Equal(t, "large", s.copies()[0].Data["size"])
	written := s.copies()[0].ResourceVersion
	s.enforce(again)
	require.Equal(t, written, s.copies()[0].ResourceVersion, "it is written once")

	for _, tampered := range []string{`{"data":{"size":"huge"}}`, `{"data":{"more":"keys"}}`, `{"binaryData":{"key":null}}`} {
		require.NoError(t, s.hub.Client.Patch(t.Context(), &s.copies()[0], client.RawPatch(types.MergePatchType, []byte(tampered))))
		displaced()
		s.enforce(again)
		require.Equal(t, sizes.Data, s.copies()[0].Data)
		require.Equal(t, sizes.BinaryData, s.copies()[0].BinaryData)
	}
	s.propagator.Stop()
	s.restartPropagator(nil)
	s.awaitCompliance("CN", cluster)

	require.NoError(t, s.hub.Client.Delete(t.Context(), &s.copies()[0]))
	displaced()
	s.enforce(again)
	require.Len(t, s.copies(), 1, "a deleted copy is created again")
	require.NoError(t, s.hub.Client.Delete(t.Context(), sizes))
	s.enforce(again)
	require.Len(t, s.copies(), 1, "the copy of a deleted ConfigMap stays")
}

func TestAConfigMapOfAnotherOwnerIsNotReplaced(t *testing.T) {
	s, sizes := templatedScene(t)
	name := policies.CopiedSource(s.rollout.name(), sizes.Namespace, sizes.Name)
	activitytest.Create(t, s.hub, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.rollout.Namespace, Name: name}, Data: map[string]string{"mine": "yes"}})
	_, err := s.activities.PreparePolicies(t.Context(), s.rollout)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ConfigMap "+s.rollout.Namespace+"/"+name+" exists and is not of this rollout")
	s.cleanUp()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		kept := &unstructured.Unstructured{}
		kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		assert.NoError(c, s.hub.Client.Get(t.Context(), client.ObjectKey{Namespace: s.rollout.Namespace, Name: name}, kept))
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

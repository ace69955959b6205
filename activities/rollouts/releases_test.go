package rollouts

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/updategraph"
)

// createReleasePolicy creates a policy for the spoke, which requests a version of the platform and operators.
func createReleasePolicy(t *testing.T, namespace string) {
	t.Helper()
	policy := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: %s, name: du}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: du}
      spec:
        object-templates:
        - complianceType: musthave
          objectDefinition:
            apiVersion: config.openshift.io/v1
            kind: ClusterVersion
            metadata: {name: version}
            spec: {upstream: 'https://updates.example.com/graph', channel: stable-4.18, desiredUpdate: {version: 4.18.3}}
        - complianceType: musthave
          objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: CatalogSource, metadata: {namespace: m, name: redhat}, spec: {image: 'redhat:4.18'}}
        - complianceType: musthave
          objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: p, name: ptp}, spec: {name: ptp-operator, channel: stable}}`, namespace), &policy.Object))
	activitytest.Create(t, activitytest.BareCluster(t), policy)
	status := fmt.Sprintf(`{"status":{"status":[{"clustername":%q,"clusternamespace":%[1]q,"compliant":"NonCompliant"}]}}`, activitytest.SpokeName)
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(status))))
}

// precachingRollout is a rollout of the policy that createReleasePolicy creates.
func precachingRollout(namespace string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "june"}, Spec: ranv1.ClusterGroupUpgradeSpec{
		Clusters: []string{activitytest.SpokeName}, ManagedPolicies: []string{"du"}, PreCaching: true, PreCachingConfigRef: &ranv1.ObjectRef{Name: "june"},
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)},
	}}
}

// Each object on the hub changes the plan of a rollout that waits, and wins over the one before.
func TestOverridesOfTheHubChangeThePrecachedContent(t *testing.T) {
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	activitytest.BindAllClusters(t, namespace)
	createReleasePolicy(t, namespace)
	a := &Activities{Clusters: activitytest.Clusters, Defaults: Defaults{PrecacheImage: "pull:1"}}
	in := PlanInput{Object: precachingRollout(namespace)}
	in.Object.Spec.PreCachingConfigRef = nil
	var planned Plan
	awaitPlan := func(content ranv1.PrecachingSpec) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			var err error
			planned, err = a.PlanRollout(t.Context(), in)
			assert.NoError(c, err)
			assert.Empty(c, planned.Problems())
			assert.Equal(c, &content, planned.Precaching)
		}, activitytest.EventTimeout, 20*time.Millisecond)
	}
	content := ranv1.PrecachingSpec{OperatorsIndexes: []string{"redhat:4.18"}, OperatorsPackagesAndChannels: []string{"ptp-operator:stable"}, SpaceRequired: "35"}
	awaitPlan(content)
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Channel: "stable-4.18", Version: "4.18.3"}
	require.Equal(t, &precache.LookedUp{Release: wanted}, planned.Release)
	in.Release = &precache.LookedUp{Release: wanted, Image: "release:4.18.3"}
	content.PlatformImage = "release:4.18.3"
	awaitPlan(content)
	require.Equal(t, "pull:1", planned.PreCacheImage)

	creates := func(object client.Object) {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			ended <- a.AwaitOtherPlan(t.Context(), AwaitOtherPlanInput{PlanInput: in, Digest: planned.Digest})
		}()
		activitytest.Create(t, activitytest.BareCluster(t), object)
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(activitytest.EventTimeout):
			require.Fail(t, "the change was not noticed")
		}
	}
	creates(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-group-upgrade-overrides"},
		Data:       map[string]string{"operators.packagesAndChannels": "sriov: stable\nptp-operator: stable\n", "precache.spaceRequired": "40 GiB"},
	})
	content.OperatorsPackagesAndChannels, content.SpaceRequired = []string{"sriov:stable", "ptp-operator:stable"}, "40"
	awaitPlan(content)

	in.Object.Spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "june"}
	waiting, err := a.PlanRollout(t.Context(), in)
	require.NoError(t, err)
	require.False(t, waiting.Valid())
	planned = waiting
	creates(&ranv1.PreCachingConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "june"}, Spec: ranv1.PreCachingConfigSpec{
		SpaceRequired: "45 GiB", Overrides: ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1"},
	}})
	content.PlatformImage, content.SpaceRequired = "mine:1", "45"
	awaitPlan(content)
	require.Nil(t, planned.Release)
	require.Equal(t, "ConfigMap "+namespace+"/cluster-group-upgrade-overrides", planned.PrecachingSources[precache.OperatorsPackagesAndChannels])
}

func TestTheImageOfTheJobMustBeAllowedWhereverItIsSet(t *testing.T) {
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	activitytest.BindAllClusters(t, namespace)
	createReleasePolicy(t, namespace)
	in := PlanInput{Object: precachingRollout(namespace)}
	in.Object.Spec.PreCachingConfigRef = nil
	requireProblem := func(want string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			planned, err := (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), in)
			assert.NoError(c, err)
			if assert.Len(c, planned.Problems(), 1) {
				assert.Contains(c, planned.Problems()[0], want)
			}
		}, activitytest.EventTimeout, 20*time.Millisecond)
	}
	requireProblem("no image for the Jobs that pull: start the workers with --precache-image, or set spec.overrides.preCacheImage of a PreCachingConfig")
	activitytest.Create(t, activitytest.BareCluster(t), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-group-upgrade-overrides"}, Data: map[string]string{"precache.image": "evil.example.com/pull:1"},
	})
	requireProblem("ConfigMap " + namespace + "/cluster-group-upgrade-overrides: data[precache.image]: Forbidden: image evil.example.com/pull:1")
}

func TestAReleaseIsLookedUpUntilTheResultIsAnother(t *testing.T) {
	var graph atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := graph.Load(); text != nil {
			_, _ = w.Write([]byte(*text))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	finder, err := updategraph.New([]string{"127.0.0.1:*"}, "")
	require.NoError(t, err)
	a := &Activities{Releases: finder}
	address := server.URL + "/graph?channel=stable-4.18"
	unknown := precache.LookedUp{Release: precache.Release{Upstream: server.URL + "/graph", Channel: "stable-4.18", Version: "4.18.3"}}

	down, err := a.LookUpRelease(t.Context(), unknown)
	require.NoError(t, err)
	require.Equal(t, "error response from update graph url "+address+": 503", down.Problem)
	_, err = a.LookUpRelease(t.Context(), down)
	require.Equal(t, temporal.ErrReleaseUnknown, temporal.ErrorType(err))
	require.False(t, temporal.Final(err), "Temporal retries it")

	graph.Store(new(`{"nodes":[{"version":"4.18.2","payload":"release:2"}]}`))
	older, err := a.LookUpRelease(t.Context(), down)
	require.NoError(t, err)
	require.Equal(t, "unable to find version 4.18.3 on update graph on url "+address, older.Problem)

	graph.Store(new(`{"nodes":[{"version":"4.18.3","payload":"release:3"}]}`))
	found, err := a.LookUpRelease(t.Context(), older)
	require.NoError(t, err)
	require.Equal(t, precache.LookedUp{Release: unknown.Release, Image: "release:3"}, found)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.LookUpRelease(ctx, unknown)
	require.ErrorIs(t, err, context.Canceled, "a worker that stops has learnt nothing")
}

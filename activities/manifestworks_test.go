package activities

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// workScene is a rollout of two templates, of which the second expects a value, over two clusters. The test plays the agents of the clusters.
type workScene struct {
	t          *testing.T
	hub        *kube.Cluster
	activities *ManifestWorks
	rollout    WorkRollout
	clusters   []string
	pins       []string
}

func newWorkScene(t *testing.T) *workScene {
	t.Helper()
	namespace := devstacktest.Namespace(t, stack.Cluster(hubName))
	s := &workScene{
		t: t, hub: bareCluster(t), activities: &ManifestWorks{Clusters: clusters},
		rollout:  WorkRollout{Namespace: namespace, Name: "june", Owner: "cgu/" + namespace + "/june/first-run", Templates: []string{"os", "firmware"}},
		clusters: []string{devstacktest.Namespace(t, stack.Cluster(hubName)), devstacktest.Namespace(t, stack.Cluster(hubName))},
	}
	for template, expected := range map[string]string{"os": "", "firmware": `[{"manifestIndex":0,"name":"done","value":"True"}]`} {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {namespace: %s, name: %s, annotations: {openshift-cluster-group-upgrades/expectedValues: %q}}
spec:
  placementRefs: []
  manifestWorkTemplate: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: %s}}]}}`,
			namespace, template, expected, template), &object.Object))
		require.NoError(t, s.hub.Client.Create(t.Context(), object))
	}
	s.prepare()
	return s
}

func (s *workScene) prepare() {
	s.t.Helper()
	prepared, err := s.activities.PrepareManifestWorks(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	s.pins = nil
	for _, one := range prepared {
		s.pins = append(s.pins, one.Pin)
	}
}

func (s *workScene) place(template int, added, removed []string) ([]string, error) {
	return s.activities.PlaceManifestWorks(s.t.Context(), PlaceWorksInput{Rollout: s.rollout, Works: []PlacedWorks{{Template: template, Pin: s.pins[template], Added: added, Removed: removed}}})
}

// say plays the agent of a cluster.
func (s *workScene) say(cluster, template, status string) {
	s.t.Helper()
	work := &unstructured.Unstructured{}
	work.SetGroupVersionKind(manifestworks.Works)
	work.SetNamespace(cluster)
	work.SetName(manifestworks.WorkName(s.rollout.name(), template))
	patch, err := yaml.YAMLToJSON([]byte("status: " + status))
	require.NoError(s.t, err)
	require.NoError(s.t, s.hub.Client.Status().Patch(s.t.Context(), work, client.RawPatch(types.MergePatchType, patch)))
}

func (s *workScene) standing(cluster string) policies.Standing {
	s.t.Helper()
	read, err := s.activities.ReadManifestWorks(s.t.Context(), ReadWorksInput{Rollout: s.rollout, Clusters: []string{cluster}})
	require.NoError(s.t, err)
	return read[0].Standing
}

const done = `{conditions: [{type: Applied, status: "True"}, {type: Available, status: "True"}]}`

func TestWorksAreBroughtToTheClustersWhoseTurnItIsAndTheirEndIsSeen(t *testing.T) {
	s := newWorkScene(t)
	one, two := s.clusters[0], s.clusters[1]
	news := make(chan []policies.ClusterStanding, 1)
	go func() {
		found, err := s.activities.AwaitManifestWorks(t.Context(), AwaitWorksInput{
			Rollout: s.rollout, Clusters: []policies.KnownCluster{{Cluster: one, Standing: "PU"}, {Cluster: two, Standing: "UU"}}, Gather: 20 * time.Millisecond,
		})
		assert.NoError(t, err)
		news <- found
	}()
	gone, err := s.place(0, []string{one, "nowhere"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"nowhere"}, gone, "a cluster without a namespace on the hub")
	require.Equal(t, policies.Standing("PU"), s.standing(one))
	require.Equal(t, policies.Standing("UU"), s.standing(two))
	s.say(one, "os", done)
	require.Eventually(t, func() bool { return s.standing(one) == "CU" }, 5*time.Second, 20*time.Millisecond)

	_, err = s.place(1, []string{one}, nil)
	require.NoError(t, err)
	_, err = s.place(0, nil, []string{one})
	require.NoError(t, err)
	require.Equal(t, policies.Standing("UP"), s.standing(one))
	s.say(one, "firmware", done)
	require.Equal(t, policies.Standing("UN"), s.standing(one), "the expected value is not fed back")
	s.say(one, "firmware", `{conditions: [{type: Applied, status: "True"}, {type: Available, status: "True"}], resourceStatus: {manifests: [{resourceMeta: {ordinal: 0},
  conditions: [{type: Applied, status: "True"}, {type: Available, status: "True"}, {type: StatusFeedbackSynced, status: "True"}],
  statusFeedback: {values: [{name: done, fieldValue: {type: String, string: "True"}}]}}]}}`)
	require.Equal(t, policies.Standing("UC"), s.standing(one))
	select {
	case found := <-news:
		require.NotEmpty(t, found)
		require.Equal(t, one, found[0].Cluster)
	case <-time.After(10 * time.Second):
		require.Fail(t, "no news")
	}

	require.NoError(t, s.activities.WithdrawManifestWorks(t.Context(), s.rollout))
	require.NoError(t, s.activities.WithdrawManifestWorks(t.Context(), s.rollout), "twice")
	require.Equal(t, policies.Standing("UU"), s.standing(one))
}

func TestWhatAnEarlierRunHasBroughtSaysNothingUntilThisOneHasBroughtIt(t *testing.T) {
	s := newWorkScene(t)
	_, err := s.place(0, s.clusters[:1], nil)
	require.NoError(t, err)
	s.say(s.clusters[0], "os", done)
	s.rollout.Owner = "cgu/" + s.rollout.Namespace + "/june/second-run"
	require.Equal(t, policies.Standing("UU"), s.standing(s.clusters[0]))
	require.NoError(t, s.activities.WithdrawManifestWorks(t.Context(), s.rollout))
	_, err = s.place(0, s.clusters[:1], nil)
	require.NoError(t, err)
	require.Equal(t, policies.Standing("CU"), s.standing(s.clusters[0]), "the same, brought again, is there already")
}

func TestATemplateThatChangesOrGoesDuringARolloutIsBroughtToNoOtherCluster(t *testing.T) {
	s := newWorkScene(t)
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(manifestworks.Templates)
	key := client.ObjectKey{Namespace: s.rollout.Namespace, Name: "os"}
	require.NoError(t, s.hub.Client.Get(t.Context(), key, template))
	require.NoError(t, unstructured.SetNestedSlice(template.Object, []any{}, "spec", "manifestWorkTemplate", "workload", "manifests"))
	require.NoError(t, s.hub.Client.Update(t.Context(), template))
	_, err := s.place(0, s.clusters, nil)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "has been changed since the rollout began")

	require.NoError(t, s.hub.Client.Delete(context.Background(), template))
	_, err = s.place(0, s.clusters, nil)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	_, err = s.activities.PrepareManifestWorks(t.Context(), s.rollout)
	require.ErrorContains(t, err, "manifest work template "+s.rollout.Namespace+"/os is not on the hub any more")
}

package manifestworks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// workScene is a rollout of two templates to two clusters. The second template expects a value. The test acts as the agents of the clusters.
type workScene struct {
	t          *testing.T
	hub        *kube.Cluster
	activities *Activities
	rollout    Rollout
	clusters   []string
}

func newWorkScene(t *testing.T) *workScene {
	t.Helper()
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	s := &workScene{
		t: t, hub: activitytest.BareCluster(t), activities: &Activities{Clusters: activitytest.Clusters},
		rollout:  Rollout{Namespace: namespace, Name: "june", Owner: "cgu/" + namespace + "/june/first-run", Templates: []string{"os", "firmware"}},
		clusters: []string{devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))},
	}
	for template, expected := range map[string]string{"os": "", "firmware": `[{"manifestIndex":0,"name":"done","value":"True"}]`} {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {namespace: %s, name: %s, annotations: {openshift-cluster-group-upgrades/expectedValues: %q}}
spec:
  placementRefs: [{name: none}]
  manifestWorkTemplate: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: %s}}]}}`,
			namespace, template, expected, template), &object.Object))
		require.NoError(t, s.hub.Client.Create(t.Context(), object))
	}
	for _, cluster := range s.clusters {
		s.register(cluster)
	}
	s.prepare()
	return s
}

// register creates a ManagedCluster for the test.
func (s *workScene) register(name string) {
	s.t.Helper()
	cluster := &unstructured.Unstructured{Object: map[string]any{}}
	cluster.SetGroupVersionKind(activitykit.ManagedClusterKind)
	cluster.SetName(name)
	require.NoError(s.t, s.hub.Client.Create(s.t.Context(), cluster))
	s.t.Cleanup(func() {
		require.NoError(s.t, client.IgnoreNotFound(s.hub.Client.Delete(context.Background(), cluster)))
	})
}

func (s *workScene) prepare() {
	s.t.Helper()
	prepared, err := s.activities.PrepareManifestWorks(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	s.rollout.Pins = nil
	for _, one := range prepared {
		s.rollout.Pins = append(s.rollout.Pins, one.Pin)
	}
}

// place gives clusters the work of a template, and no other; policies.Nowhere: no work.
func (s *workScene) place(template int, clusters ...string) ([]remediation.RefusedPlacement, error) {
	placed, err := s.activities.PlaceManifestWorks(s.t.Context(), PlaceWorksInput{
		Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: template, Clusters: slices.Sorted(slices.Values(clusters))}},
	})
	return placed.Refused, err
}

func (s *workScene) cleanUp(keep ...string) error {
	return s.activities.CleanUpManifestWorks(s.t.Context(), CleanUpWorksInput{Rollout: s.rollout, Keep: keep})
}

// reportStatus writes the status of a work, like the agent of a cluster.
func (s *workScene) reportStatus(cluster, template, status string) {
	s.t.Helper()
	work := &unstructured.Unstructured{}
	work.SetGroupVersionKind(manifestworks.Works)
	work.SetNamespace(cluster)
	work.SetName(manifestworks.WorkName(s.rollout.name(), template))
	patch, err := yaml.YAMLToJSON([]byte("status: " + status))
	require.NoError(s.t, err)
	require.NoError(s.t, s.hub.Client.Status().Patch(s.t.Context(), work, client.RawPatch(types.MergePatchType, patch)))
}

func (s *workScene) compliance(cluster string) policies.ComplianceStatus {
	s.t.Helper()
	read, err := s.activities.ReadManifestWorks(s.t.Context(), ReadWorksInput{Rollout: s.rollout, Clusters: []string{cluster}})
	require.NoError(s.t, err)
	return read[0].Status
}

const done = `{conditions: [{type: Applied, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}, {type: Available, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}]}`

func TestAnUnfinishedWorkLeavesItsStatus(t *testing.T) {
	s := newWorkScene(t)
	_, err := s.place(0, s.clusters...)
	require.NoError(t, err)
	const refused = `{resourceStatus: {manifests: [{resourceMeta: {ordinal: 0, kind: ConfigMap, name: os},
		conditions: [{type: Applied, status: "False", reason: Failed, message: Failed to apply, lastTransitionTime: "2026-11-27T06:00:00Z"}]}]}}`
	for _, cluster := range s.clusters {
		s.reportStatus(cluster, "os", refused)
	}
	take := func(limit int, clusters ...string) map[string]*ranv1.ManifestResourceStatus {
		in := PlaceWorksInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: policies.NoItem, Clusters: clusters}}, LeftLimit: limit}
		for _, cluster := range clusters {
			in.Unfinished = append(in.Unfinished, UnfinishedWork{Cluster: cluster})
		}
		placed, err := s.activities.PlaceManifestWorks(t.Context(), in)
		require.NoError(t, err)
		return placed.Left
	}
	clusters := slices.Sorted(slices.Values(s.clusters))
	left := take(300, clusters...)
	require.Len(t, left, 1, "the limit is for all of them")
	manifest := left[clusters[0]].Manifests[0]
	require.Equal(t, ranv1.ManifestResourceMeta{Kind: "ConfigMap", Name: "os"}, manifest.ResourceMeta)
	require.Equal(t, "Failed to apply", manifest.Conditions[0].Message)
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(clusters[0]), "the work is deleted")
	require.Empty(t, take(300, clusters...), "the works are gone")

	_, err = s.place(0, clusters[0])
	require.NoError(t, err)
	s.reportStatus(clusters[0], "os", refused)
	s.rollout.Owner = "cgu/" + s.rollout.Namespace + "/june/another-run"
	require.Empty(t, take(300, clusters[0]), "the work belongs to another rollout")
}

func TestWorksArePlacedAndTheirComplianceIsReported(t *testing.T) {
	s := newWorkScene(t)
	one, two := s.clusters[0], s.clusters[1]
	news := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := s.activities.AwaitManifestWorks(t.Context(), AwaitWorksInput{
			Rollout: s.rollout, Clusters: []policies.KnownCluster{{Cluster: one, Status: "PU"}, {Cluster: two, Status: "UU"}}, Gather: 20 * time.Millisecond,
		})
		assert.NoError(t, err)
		news <- found
	}()
	_, err := s.place(0, one)
	require.NoError(t, err)
	require.Equal(t, policies.ComplianceStatus("PU"), s.compliance(one))
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(two))
	s.reportStatus(one, "os", done)
	require.Eventually(t, func() bool { return s.compliance(one) == "CU" }, activitytest.EventTimeout, 20*time.Millisecond)

	_, err = s.place(1, one)
	require.NoError(t, err)
	require.Equal(t, policies.ComplianceStatus("UP"), s.compliance(one))
	s.reportStatus(one, "firmware", done)
	require.Equal(t, policies.ComplianceStatus("UN"), s.compliance(one), "the expected value is not fed back")
	s.reportStatus(one, "firmware", `{conditions: [{type: Applied, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}, {type: Available, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}], resourceStatus: {manifests: [{resourceMeta: {ordinal: 0},
  conditions: [{type: Applied, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}, {type: Available, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}, {type: StatusFeedbackSynced, status: "True", reason: Test, message: "", lastTransitionTime: "2026-01-10T12:00:00Z"}],
  statusFeedback: {values: [{name: done, fieldValue: {type: String, string: "True"}}]}}]}}`)
	require.Equal(t, policies.ComplianceStatus("UC"), s.compliance(one))
	select {
	case found := <-news:
		require.NotEmpty(t, found)
		require.Equal(t, one, found[0].Cluster)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(t, "no report")
	}

	_, err = s.place(0, two)
	require.NoError(t, err)
	require.NoError(t, s.cleanUp(one))
	require.Equal(t, policies.ComplianceStatus("UC"), s.compliance(one), "the last work stays")
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(two))
	require.NoError(t, s.cleanUp())
	require.NoError(t, s.cleanUp(), "twice")
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(one))
}

func TestWorksOfAnEarlierRunDoNotCount(t *testing.T) {
	s := newWorkScene(t)
	_, err := s.place(0, s.clusters[0])
	require.NoError(t, err)
	s.reportStatus(s.clusters[0], "os", done)
	s.rollout.Owner = "cgu/" + s.rollout.Namespace + "/june/second-run"
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(s.clusters[0]))
	require.NoError(t, s.cleanUp())
	_, err = s.place(0, s.clusters[0])
	require.NoError(t, err)
	require.Equal(t, policies.ComplianceStatus("CU"), s.compliance(s.clusters[0]), "the work exists already")
}

// A held cluster keeps its work and gets no other. After a lost reply, the next attempt finds the created work.
func TestAHeldClusterKeepsItsWork(t *testing.T) {
	s := newWorkScene(t)
	one, two := s.clusters[0], s.clusters[1]
	held := func(item int, clusters ...string) remediation.PlacementResult {
		t.Helper()
		placed, err := s.activities.PlaceManifestWorks(t.Context(), PlaceWorksInput{
			Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: item, Held: slices.Sorted(slices.Values(clusters))}},
		})
		require.NoError(t, err)
		return placed
	}
	_, err := s.place(0, one)
	require.NoError(t, err)
	require.Equal(t, []string{two}, held(0, one, two).Waiting)
	require.Equal(t, policies.ComplianceStatus("PU"), s.compliance(one))
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(two))
	require.Equal(t, []string{one}, held(1, one).Waiting)
	require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(one), "the first work is deleted")
	_, err = s.place(policies.NoItem, one, two)
	require.NoError(t, err)
}

// A cluster whose work cannot be written blocks neither the others nor the end of the rollout.
func TestRefusedWorksDoNotStopOthers(t *testing.T) {
	s := newWorkScene(t)
	hub := activitytest.Stack.Cluster(activitytest.HubName)
	leaving, theirs, offline := devstacktest.Namespace(t, hub), devstacktest.Namespace(t, hub), devstacktest.Namespace(t, hub)
	require.NoError(t, hub.Client.CoreV1().Namespaces().Delete(t.Context(), leaving, metav1.DeleteOptions{}))
	key := func(cluster string) client.ObjectKey {
		return client.ObjectKey{Namespace: cluster, Name: manifestworks.WorkName(s.rollout.name(), "os")}
	}
	work := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	work.SetGroupVersionKind(manifestworks.Works)
	work.SetNamespace(theirs)
	work.SetName(key(theirs).Name)
	work.SetAnnotations(map[string]string{kube.AnnotationOwner: "cgu/other/july/first-run"})
	require.NoError(t, s.hub.Client.Create(t.Context(), work))
	// The agent of an offline cluster keeps the finalizer of a work of an earlier run.
	_, err := s.place(0, offline)
	require.NoError(t, err)
	require.NoError(t, s.hub.Client.Get(t.Context(), key(offline), work))
	work.SetFinalizers([]string{"test.drydock.dev/agent"})
	require.NoError(t, s.hub.Client.Update(t.Context(), work))
	require.NoError(t, s.cleanUp())
	require.NoError(t, s.cleanUp(), "a work that is being deleted does not block the cleanup")

	refused, err := s.place(0, s.clusters[0], "nowhere", leaving, theirs, offline, s.clusters[1])
	require.NoError(t, err)
	found := map[string]remediation.RefusedPlacement{}
	for _, r := range refused {
		found[r.Clusters[0]] = r
	}
	require.Len(t, found, 4)
	require.Equal(t, remediation.RefusedPlacement{Clusters: []string{"nowhere"}, Reason: "ClusterDeleted", Message: "the hub has no namespace for the cluster", Final: true}, found["nowhere"])
	require.Equal(t, remediation.RefusedPlacement{Clusters: []string{leaving}, Reason: "NotPlaced", Message: "namespace " + leaving + " of the hub is being deleted"}, found[leaving])
	require.Equal(t, temporal.ErrInvalidSpec, found[theirs].Reason)
	require.True(t, found[theirs].Final)
	require.Contains(t, found[theirs].Message, "it belongs to cgu/other/july")
	require.Equal(t, remediation.RefusedPlacement{
		Clusters: []string{offline}, Reason: "NotPlaced",
		Message: "ManifestWork " + key(offline).String() + " is still being deleted: one of its finalizers [test.drydock.dev/agent] holds it",
	}, found[offline])
	for _, cluster := range s.clusters {
		require.Equal(t, policies.ComplianceStatus("PU"), s.compliance(cluster))
	}

	require.NoError(t, s.hub.Client.Get(t.Context(), key(offline), work))
	work.SetFinalizers(nil)
	require.NoError(t, s.hub.Client.Update(t.Context(), work))
	refused, err = s.place(0, offline)
	require.NoError(t, err)
	require.Empty(t, refused)
}

// The agent of the cluster removes the manifests of a deleted work before it lets the work go.
func TestTheNextWorkFollowsWhenThePreviousOneIsGone(t *testing.T) {
	s := newWorkScene(t)
	cluster := s.clusters[0]
	_, err := s.place(0, cluster)
	require.NoError(t, err)
	work := &unstructured.Unstructured{}
	work.SetGroupVersionKind(manifestworks.Works)
	hold := func(finalizers ...string) {
		t.Helper()
		require.NoError(t, s.hub.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: manifestworks.WorkName(s.rollout.name(), "os")}, work))
		work.SetFinalizers(finalizers)
		require.NoError(t, s.hub.Client.Update(t.Context(), work))
	}
	hold("test.drydock.dev/agent")
	next := PlaceWorksInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 1, Clusters: []string{cluster}}}}
	for range 2 {
		placed, err := s.activities.PlaceManifestWorks(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, remediation.PlacementResult{Removing: []string{cluster}}, placed)
		require.Equal(t, policies.ComplianceStatus("UU"), s.compliance(cluster))
	}
	gone := make(chan error, 1)
	go func() {
		gone <- s.activities.AwaitRemoved(t.Context(), AwaitRemovedInput{Rollout: s.rollout, Clusters: []UnfinishedWork{{Cluster: cluster, Item: 1}}})
	}()
	require.Never(t, func() bool { return len(gone) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	hold()
	select {
	case err := <-gone:
		require.NoError(t, err)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(t, "the removal was not noticed")
	}
	placed, err := s.activities.PlaceManifestWorks(t.Context(), next)
	require.NoError(t, err)
	require.Empty(t, placed.Removing)
	require.Equal(t, policies.ComplianceStatus("UP"), s.compliance(cluster))
}

// The webhook of the hub answers 400 if a work is too large, or names a forbidden executor.
func TestAWorkRefusedByAWebhookDoesNotStopOthers(t *testing.T) {
	for _, answer := range []error{
		apierrors.NewBadRequest("the size of manifests is 614400 bytes which exceeds the 512000 limit"),
		apierrors.NewForbidden(schema.GroupResource{Resource: "manifestworks"}, "os", errors.New("frozen")),
	} {
		refusal := make(chan struct{})
		var p placementAttempt
		err := p.writeAll(t.Context(), []string{"c1", "c2"}, func(ctx context.Context, cluster string) error {
			if cluster == "c1" {
				defer close(refusal)
				return activitykit.Explain(&kube.Cluster{Name: activitytest.HubName}, "apply ManifestWork c1/os", answer)
			}
			<-refusal
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Len(t, p.placed.Refused, 1)
		require.Contains(t, p.placed.Refused[0].Message, answer.Error())
		p.placed.Refused[0].Message = ""
		require.Equal(t, remediation.RefusedPlacement{Clusters: []string{"c1"}, Reason: "NotPlaced"}, p.placed.Refused[0])
	}
}

func TestADeletedManagedClusterIsReported(t *testing.T) {
	s := newWorkScene(t)
	_, err := s.place(0, s.clusters[0])
	require.NoError(t, err)
	news := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := s.activities.AwaitManifestWorks(t.Context(), AwaitWorksInput{
			Rollout: s.rollout, Clusters: []policies.KnownCluster{{Cluster: s.clusters[0], Status: "PU"}, {Cluster: s.clusters[1], Status: "UU"}},
		})
		assert.NoError(t, err)
		news <- found
	}()
	require.Never(t, func() bool { return len(news) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	require.NoError(t, s.hub.Client.Delete(t.Context(), activitykit.ManagedCluster(s.clusters[0])))
	select {
	case found := <-news:
		require.Equal(t, []policies.ClusterCompliance{{Cluster: s.clusters[0], Status: "PU", ClusterDeleted: true}}, found)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(t, "no report")
	}
	for event := range readsOf(t, manifestworks.WorkName(s.rollout.name(), "firmware")) {
		require.Fail(t, "a missing work was read again", "%v", event)
	}
}

// readsOf returns the reads of objects with that name, in any namespace of the hub.
func readsOf(t *testing.T, name string) map[string]int {
	t.Helper()
	reads := map[string]int{}
	for _, event := range devstacktest.AuditEvents(t, activitytest.Stack.Cluster(activitytest.HubName)) {
		if event.Verb == "get" && event.ObjectRef != nil && event.ObjectRef.Name == name {
			reads[event.RequestURI]++
		}
	}
	return reads
}

func TestAChangedOrDeletedTemplateIsNotPlaced(t *testing.T) {
	s := newWorkScene(t)
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(manifestworks.Templates)
	key := client.ObjectKey{Namespace: s.rollout.Namespace, Name: "os"}
	require.NoError(t, s.hub.Client.Get(t.Context(), key, template))
	require.NoError(t, unstructured.SetNestedSlice(template.Object, []any{}, "spec", "manifestWorkTemplate", "workload", "manifests"))
	require.NoError(t, s.hub.Client.Update(t.Context(), template))
	_, err := s.place(0, s.clusters...)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "has been changed since the rollout began")

	require.NoError(t, s.hub.Client.Delete(context.Background(), template))
	_, err = s.place(0, s.clusters...)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	_, err = s.activities.PrepareManifestWorks(t.Context(), s.rollout)
	require.ErrorContains(t, err, "manifest work template "+s.rollout.Namespace+"/os does not exist on the hub")
}

package harbor

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

func harborWithoutRights(t *testing.T, _ *operators.Operators) {
	t.Parallel()
	namespace, granted := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grantHarbor(t, activitytest.BareCluster(t), granted)
	object := harborCluster(t, namespace)
	_, err := (&Activities{Clusters: activitytest.Clusters}).ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *object})
	requireMissingRights := func(err error) {
		t.Helper()
		require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err))
		require.ErrorContains(t, err, "bind ClusterRole drydock-harbor-namespace in namespace "+namespace)
	}
	requireMissingRights(err)
	activitytest.Create(t, activitytest.BareCluster(t), object)
	ref := Ref{Cluster: activitytest.HubName, Namespace: namespace, Name: object.Name, UID: object.UID}
	_, err = (&Activities{Clusters: activitytest.Clusters}).AwaitHarborDue(t.Context(), AwaitDueInput{Ref: ref})
	requireMissingRights(err)
	requireMissingRights((&Activities{Clusters: activitytest.Clusters}).AddHarborFinalizer(t.Context(), ref))
	requireMissingRights((&Activities{Clusters: activitytest.Clusters}).WriteHarborStatus(t.Context(), WriteStatusInput{Ref: ref, Status: goharborv1.HarborClusterStatus{Status: goharborv1.StatusHealthy}}))

	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	for resource, group := range map[string]string{
		"harborclusters": harbor.Harbor.Group, "harbors": harbor.Harbor.Group, "postgresqls": harbor.Postgresql.Group, "redisfailovers": harbor.RedisFailover.Group,
		"tenants": harbor.Tenant.Group, "secrets": "", "jobs": harbor.Job.Group, "ingresses": harbor.Ingress.Group,
	} {
		for _, verb := range []string{"create", "delete"} {
			may := func(namespace string) bool {
				review, err := cluster.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Group: group, Resource: resource, Verb: verb,
					}},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				return review.Status.Allowed
			}
			require.True(t, may(granted), "%s %s", verb, resource)
			if resource != "jobs" { // the tests' Jobs may run anywhere
				require.False(t, may(namespace), "%s %s", verb, resource)
			}
		}
	}
}

func harborRefused(t *testing.T, _ *operators.Operators) {
	t.Parallel()
	object := harborCluster(t, "nowhere")
	_, err := (&Activities{Clusters: activitytest.Admin}).ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *object})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster hub has no namespace nowhere: create it")
	_, err = (&Activities{Clusters: activitytest.Clusters}).ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *object})
	require.ErrorContains(t, err, "bind ClusterRole drydock-harbor-namespace in namespace nowhere, which must exist")

	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grantHarbor(t, activitytest.BareCluster(t), namespace)
	object.Namespace, object.Spec.Version = namespace, "new"
	_, err = (&Activities{Clusters: activitytest.Clusters}).ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *object})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "spec.version")

	err = (&Activities{Clusters: activitytest.Clusters}).DeleteHarborCluster(t.Context(), Ref{Cluster: activitytest.HubName, Namespace: namespace, Name: "none"})
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
}

func harborFinalizerChangesNothing(t *testing.T, _ *operators.Operators) {
	t.Parallel()
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grantHarbor(t, activitytest.BareCluster(t), namespace)
	text, err := os.ReadFile("../../internal/harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, &object.Object))
	object.SetNamespace(namespace)
	object.SetFinalizers([]string{"example.org/theirs"})
	cluster := activitytest.BareCluster(t)
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	ref := Ref{Cluster: activitytest.HubName, Namespace: namespace, Name: object.GetName(), UID: object.GetUID()}
	requireSame := func(finalizers ...string) {
		found := object.DeepCopy()
		require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), found))
		require.Equal(t, finalizers, found.GetFinalizers())
		require.Equal(t, object.Object["spec"], found.Object["spec"])
		require.Equal(t, object.GetGeneration(), found.GetGeneration())
	}
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).AddHarborFinalizer(t.Context(), ref))
	requireSame("example.org/theirs", Finalizer)
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).RemoveHarborFinalizer(t.Context(), RemoveFinalizerInput{Ref: ref}))
	requireSame("example.org/theirs")
	unmanaged := func() string {
		hc, err := readHarborCluster(t.Context(), cluster.Client, ref)
		require.NoError(t, err)
		return hc.Annotations[harbor.AnnotationUnmanaged]
	}
	require.Equal(t, strconv.FormatInt(object.GetGeneration(), 10), unmanaged())
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).AddHarborFinalizer(t.Context(), ref))
	require.Empty(t, unmanaged(), "it is managed again")
	require.NoError(t, cluster.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

func harborStatusConflicts(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	status := r.untilIs(goharborv1.StatusHealthy)
	require.NoError(t, r.cluster.Client.Status().Patch(t.Context(), r.harborCluster(), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"status":"creating","conditions":[{"type":"Scanned","status":"True"}]}}`))))
	written := *r.known.StatusWritten
	due := r.await()
	require.True(t, due.Outdated, "another client has written it")
	require.GreaterOrEqual(t, time.Since(written), 2*time.Second, "frequent foreign writes are answered with a pause")
	require.Equal(t, goharborv1.StatusHealthy, due.Status.Status, "the recorded status is used")

	var writing sync.WaitGroup
	wrong := status.DeepCopy()
	wrong.Status = goharborv1.StatusUnhealthy
	for i := range 6 {
		said := []*goharborv1.HarborClusterStatus{&status, wrong}[i%2]
		writing.Go(func() {
			if err := r.harbor().WriteHarborStatus(t.Context(), WriteStatusInput{Ref: r.ref, Status: *said}); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	require.NoError(t, r.harbor().WriteHarborStatus(t.Context(), WriteStatusInput{Ref: r.ref, Status: status}))
	hc, err := readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.Equal(t, goharborv1.StatusHealthy, hc.Status.Status)
	require.Len(t, hc.Status.Conditions, 6, "the foreign condition stays")
	require.Equal(t, goharborv1.OperatorStatus{ControllerName: "drydock", ControllerVersion: "v1.2.3", ControllerGitCommit: "0123456789abcdef"}, hc.Status.Operator)
	revision := hc.Status.Revision
	require.NoError(t, r.harbor().WriteHarborStatus(t.Context(), WriteStatusInput{Ref: r.ref, Status: status}))
	hc, err = readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.Equal(t, revision, hc.Status.Revision, "an unchanged status is not written")
	require.NoError(t, r.harbor().WriteHarborStatus(t.Context(), WriteStatusInput{Ref: r.ref, Status: *wrong}))
	hc, err = readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.Greater(t, hc.Status.Revision, revision)
}

package harbor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/version"
)

// registry is a HarborCluster in its own namespace, with the state of its workflow.
type registry struct {
	t         *testing.T
	cluster   *kube.Cluster
	clusters  *kube.Clusters
	operators *operators.Operators
	ref       Ref
	known     harbor.Known
	// order has the parts in the order in which they were applied.
	order []harbor.Part
	// written is the last written status. announced counts the conditions that the writes made True or False, by the reason of their Event.
	written   goharborv1.HarborClusterStatus
	announced map[string]int
}

// newRegistry applies the HarborCluster of a file, after changes to its text, to the bare cluster with simulated operators.
func newRegistry(t *testing.T, simulated *operators.Operators, file string, oldnew ...string) *registry {
	t.Helper()
	t.Parallel()
	r := &registry{t: t, cluster: activitytest.BareCluster(t), clusters: activitytest.Clusters, operators: simulated, known: harbor.Known{Applied: map[harbor.Part]harbor.Applied{}}}
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grantHarbor(t, r.cluster, namespace)
	text, err := os.ReadFile("../../internal/harbor/testdata/" + file)
	require.NoError(t, err)
	oldnew = append([]string{"namespace: registry", "namespace: " + namespace}, oldnew...)
	objects, err := manifest.Decode(file, []byte(strings.NewReplacer(oldnew...).Replace(string(text))))
	require.NoError(t, err)
	result, err := r.harbor().ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *objects[0].(*goharborv1.HarborCluster)})
	require.NoError(t, err)
	r.ref = result.Ref
	return r
}

// grantHarbor binds the role that deploy/rbac/harbor.yaml requires in a namespace.
func grantHarbor(t *testing.T, cluster *kube.Cluster, namespace string) {
	t.Helper()
	_, err := cluster.Clientset.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-harbor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-harbor-namespace"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "drydock-system", Name: "drydock-initiator"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	devstacktest.Granted(t, activitytest.Stack.Cluster(cluster.Name), devstacktest.ServiceAccount("drydock-initiator"),
		authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: harbor.Harbor.Group, Resource: "harborclusters"})
}

func (r *registry) harbor() *Activities {
	return &Activities{Clusters: r.clusters, Build: version.Build{Version: "v1.2.3", Commit: "0123456789abcdef"}}
}

// await waits for due work, and executes it as the workflow does.
func (r *registry) await() harbor.Plan {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), activitytest.EventTimeout)
	defer cancel()
	due, err := r.harbor().AwaitHarborDue(ctx, AwaitDueInput{Ref: r.ref, Known: r.known})
	require.NoError(r.t, err)
	r.known.Status = due.Status
	if due.Deferred {
		r.known.StatusWritten = nil
	}
	for _, part := range due.Parts {
		r.order = append(r.order, part.Part)
		applied, err := r.harbor().ApplyHarborPart(ctx, ApplyPartInput{Ref: r.ref, Due: part, Generation: due.Generation})
		if err != nil {
			failures := r.known.Applied[part.Part].Failures
			applied = harbor.Applied{Wanted: part.Wanted, At: time.Now(), Failures: failures + 1, Failure: &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: err.Error()}}
		}
		r.known.Applied[part.Part] = applied
	}
	if due.Outdated {
		for range 2 { // a repeated write changes nothing, and records no other Events
			require.NoError(r.t, r.harbor().WriteHarborStatus(ctx, WriteStatusInput{Ref: r.ref, Status: due.Status}))
		}
		r.count(due.Status)
		now := time.Now()
		r.known.StatusWritten = &now
	}
	if due.NoFinalizer {
		require.NoError(r.t, r.harbor().AddHarborFinalizer(ctx, r.ref))
		now := time.Now()
		r.known.FinalizerWritten = &now
	}
	return due
}

// count counts the transitions of a written status.
func (r *registry) count(status goharborv1.HarborClusterStatus) {
	if r.announced == nil {
		r.announced = map[string]int{}
	}
	for _, now := range status.Conditions {
		reason := map[metav1.ConditionStatus]string{metav1.ConditionTrue: string(now.Type), metav1.ConditionFalse: strings.TrimSuffix(string(now.Type), "Ready") + "NotReady"}[now.Status]
		if reason != "" && now.Status != harbor.ConditionOf(r.written, now.Type).Status {
			r.announced[reason]++
		}
	}
	r.written = status
}

// requireEvents compares the Events of the HarborCluster with the transitions of its status.
func (r *registry) requireEvents() {
	r.t.Helper()
	events, err := r.cluster.Clientset.CoreV1().Events(r.ref.Namespace).List(r.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(r.ref.UID)})
	require.NoError(r.t, err)
	recorded := map[string]int{}
	for _, event := range events.Items {
		recorded[event.Reason] += int(event.Count)
	}
	require.Equal(r.t, r.announced, recorded)
}

// until executes due work until the status satisfies the condition.
func (r *registry) until(condition func(goharborv1.HarborClusterStatus) bool) goharborv1.HarborClusterStatus {
	r.t.Helper()
	for range 100 {
		if condition(r.known.Status) {
			return r.known.Status
		}
		r.await()
	}
	require.Fail(r.t, "the condition was never met", "%+v", r.known.Status)
	return r.known.Status
}

// untilApplied executes due work until the part is applied.
func (r *registry) untilApplied(part harbor.Part) {
	r.t.Helper()
	for range 100 {
		if slices.ContainsFunc(r.await().Parts, func(due harbor.Due) bool { return due.Part == part }) {
			return
		}
	}
	require.Fail(r.t, "not applied", part)
}

func (r *registry) untilIs(status goharborv1.ClusterStatus) goharborv1.HarborClusterStatus {
	r.t.Helper()
	return r.until(func(s goharborv1.HarborClusterStatus) bool { return s.Status == status })
}

// untilReason executes due work until a condition has that reason.
func (r *registry) untilReason(kind goharborv1.ConditionType, reason string) goharborv1.HarborClusterCondition {
	r.t.Helper()
	return harbor.ConditionOf(r.until(func(s goharborv1.HarborClusterStatus) bool { return harbor.ConditionOf(s, kind).Reason == reason }), kind)
}

// object reads an object of the registry's namespace; nil: there is none.
func (r *registry) object(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	r.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := r.cluster.Client.Get(r.t.Context(), client.ObjectKey{Namespace: r.ref.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(r.t, err)
	return object
}

// harborCluster names the object of the registry.
func (r *registry) harborCluster() *goharborv1.HarborCluster {
	return &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: r.ref.Name}}
}

func (r *registry) postgres() string { return "postgresql-" + r.ref.Namespace + "-main" }

// credentials returns the name of the Secret that the operator of the database creates.
func (r *registry) credentials() string {
	return "harbor." + r.postgres() + ".credentials.postgresql.acid.zalan.do"
}

func (r *registry) patch(object client.Object, patch string) {
	r.t.Helper()
	require.NoError(r.t, r.cluster.Client.Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

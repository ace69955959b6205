package harbor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/health"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

// registry is a HarborCluster of a test, in a namespace of its own, and what its workflow would remember of it.
type registry struct {
	t         *testing.T
	cluster   *kube.Cluster
	clusters  *kube.Clusters
	operators *operators.Operators
	ref       Ref
	known     harbor.Known
	// order is in which the parts were applied.
	order []harbor.Part
}

// newRegistry applies the HarborCluster of a file, after changes to its text, to the bare cluster, where the operators are played.
func newRegistry(t *testing.T, played *operators.Operators, file string, oldnew ...string) *registry {
	t.Helper()
	t.Parallel()
	r := &registry{t: t, cluster: activitytest.BareCluster(t), clusters: activitytest.Clusters, operators: played, known: harbor.Known{Applied: map[harbor.Part]harbor.Applied{}}}
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

// grantHarbor binds what deploy/rbac/harbor.yaml says has to be bound in a namespace.
func grantHarbor(t *testing.T, cluster *kube.Cluster, namespace string) {
	t.Helper()
	_, err := cluster.Clientset.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-harbor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-harbor-namespace"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "drydock-system", Name: "drydock-initiator"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (r *registry) harbor() *Activities { return &Activities{Clusters: r.clusters} }

// await waits for what is due, and does what the workflow would.
func (r *registry) await() harbor.Look {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), activitytest.NewsLimit)
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
		require.NoError(r.t, r.harbor().WriteHarborStatus(ctx, WriteStatusInput{Ref: r.ref, Status: due.Status}))
		now := time.Now()
		r.known.StatusWritten = &now
	}
	if due.Unheld {
		require.NoError(r.t, r.harbor().HoldHarborCluster(ctx, r.ref))
		now := time.Now()
		r.known.FinalizerWritten = &now
	}
	return due
}

// until goes on until the status satisfies the condition.
func (r *registry) until(condition func(goharborv1.HarborClusterStatus) bool) goharborv1.HarborClusterStatus {
	r.t.Helper()
	for range 100 {
		if condition(r.known.Status) {
			return r.known.Status
		}
		r.await()
	}
	require.Fail(r.t, "it never came to that", "%+v", r.known.Status)
	return r.known.Status
}

func (r *registry) untilIs(status goharborv1.ClusterStatus) goharborv1.HarborClusterStatus {
	r.t.Helper()
	return r.until(func(s goharborv1.HarborClusterStatus) bool { return s.Status == status })
}

// untilReason goes on until a condition has that reason.
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

// credentials names the Secret that the operator of the database makes.
func (r *registry) credentials() string {
	return "harbor." + r.postgres() + ".credentials.postgresql.acid.zalan.do"
}

func (r *registry) patch(object client.Object, patch string) {
	r.t.Helper()
	require.NoError(r.t, r.cluster.Client.Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func TestHarborClusters(t *testing.T) {
	played, err := operators.Start(t.Context(), activitytest.Stack.Cluster(activitytest.HubName).Config, operators.Options{})
	require.NoError(t, err)
	t.Cleanup(played.Stop)
	t.Run("together", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *operators.Operators){
			"come up, Harbor last, and nothing is written twice":               harborComesUp,
			"are gates that no stale status opens":                             harborIsGate,
			"are put right when somebody changes or deletes what they have":    harborDrifts,
			"make their bucket as the spec says now, in the Tenant of now":     harborMakesItsBucketAnew,
			"send nobody to MinIO itself once they are not to":                 harborIsExposedNoMore,
			"say it when a service falls over, and when it is back":            harborFallsOver,
			"say what their operators say, and when it takes too long":         harborSaysWhy,
			"on services that run elsewhere wait for their secrets":            harborElsewhere,
			"do not take over what is somebody else's":                         harborOfOthers,
			"lose Harbor but no data when they are deleted":                    harborRetains,
			"lose everything when that is what deletion means":                 harborDeletes,
			"lose nothing that is somebody else's":                             harborDeletesNoneOfOthers,
			"are what each row of the table says":                              harborRows,
			"say it of each service that takes too long":                       harborIsLate,
			"say which operator is missing, until it is there":                 harborWithoutOperators,
			"say which rights are missing":                                     harborWithoutRights,
			"that cannot be are refused":                                       harborRefused,
			"are held and let go, and not changed by that":                     harborHeldAsItIs,
			"have a status that others may write at the same time, and change": harborStatusConflicts,
			"say it when an API server does not answer for one of them":        harborHangs,
			"are looked at although a watch has missed a change":               harborResync,
			"are neither applied nor removed while their cluster is held":      harborHeld,
			"are not well by what a watch shows of before they were applied":   harborOutrunsWatch,
		} {
			t.Run(name, func(t *testing.T) { run(t, played) })
		}
	})
	require.NoError(t, played.Err())
}

func harborComesUp(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	played.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{After: 300 * time.Millisecond})
	first := r.await()
	require.Equal(t, goharborv1.StatusCreating, first.Status.Status)
	require.Len(t, first.Parts, 3, "the services depend on nothing")
	status := r.untilIs(goharborv1.StatusHealthy)
	require.Equal(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage, harbor.PartBucket, harbor.PartHarbor}, r.order)
	for _, condition := range status.Conditions {
		require.NotNil(t, condition.FirstReadyTime, condition.Type)
	}
	hc, err := readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.True(t, harbor.SameStatus(hc.Status, status), "the object says the same")
	secret := r.object(harbor.Secret, "main-database-password")
	require.Equal(t, "bWFkZS1ieS10aGUtb3BlcmF0b3I=", secret.Object["data"].(map[string]any)["postgresql-password"])

	require.Equal(t, []string{
		"get " + r.credentials(), "get main-database-password", "get minio-main", "get minio-main-creds", "patch main-database-password", "patch minio-main",
	}, r.askedForSecrets(), "whose they are is asked before they are written, and each once")

	before := r.versions()
	for part, applied := range r.known.Applied {
		_, err := r.harbor().ApplyHarborPart(t.Context(), ApplyPartInput{Ref: r.ref, Due: harbor.Due{Part: part, Wanted: applied.Wanted}})
		require.NoError(t, err)
	}
	require.Equal(t, before, r.versions(), "applied once more, nothing is written")

	// Another password, and Harbor has it.
	r.patch(r.object(harbor.Secret, r.credentials()), `{"stringData":{"password":"new"}}`)
	require.Equal(t, harbor.PartHarbor, r.await().Parts[0].Part)
	require.Equal(t, "bmV3", r.object(harbor.Secret, "main-database-password").Object["data"].(map[string]any)["postgresql-password"])
}

// askedForSecrets is what Drydock has asked for of single Secrets until Harbor was applied.
func (r *registry) askedForSecrets() []string {
	r.t.Helper()
	var asked []string
	require.Eventually(r.t, func() bool {
		events, err := activitytest.Stack.Cluster(activitytest.HubName).AuditEvents()
		require.NoError(r.t, err)
		asked = nil
		applied := false
		for _, event := range events {
			if event.ObjectRef == nil || event.ObjectRef.Namespace != r.ref.Namespace || !strings.HasSuffix(event.User.Username, ":drydock-initiator") {
				continue
			}
			applied = applied || event.ObjectRef.Resource == "harbors" && event.Verb == "patch"
			if event.ObjectRef.Resource == "secrets" && (event.Verb == "get" || event.Verb == "patch") {
				asked = append(asked, event.Verb+" "+event.ObjectRef.Name)
			}
		}
		return applied
	}, activitytest.NewsLimit, 50*time.Millisecond, "the audit log does not say that Harbor was applied")
	slices.Sort(asked)
	return asked
}

// versions are those of all that was applied.
func (r *registry) versions() map[string]string {
	versions := map[string]string{}
	for _, found := range []*unstructured.Unstructured{
		r.object(harbor.Postgresql, r.postgres()), r.object(harbor.RedisFailover, "main-redis"), r.object(harbor.Tenant, "minio-main"), r.object(harbor.Harbor, "main-harbor"),
		r.object(harbor.Job, "minio-main"), r.object(harbor.Ingress, "minio-main"), r.object(harbor.Secret, "main-redis"), r.object(harbor.Secret, "minio-main-creds"),
		r.object(harbor.Secret, "main-database-password"), r.object(harbor.Secret, "minio-main"),
	} {
		require.NotNil(r.t, found)
		versions[found.GetKind()+"/"+found.GetName()] = string(found.GetUID()) + " " + found.GetResourceVersion()
	}
	return versions
}

func harborDrifts(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	r.patch(r.object(harbor.Postgresql, r.postgres()), `{"spec":{"numberOfInstances":7,"clone":{"cluster":"theirs"}}}`)
	require.Equal(t, harbor.PartDatabase, r.await().Parts[0].Part)
	spec := r.object(harbor.Postgresql, r.postgres()).Object["spec"].(map[string]any)
	require.EqualValues(t, 2, spec["numberOfInstances"])
	require.NotNil(t, spec["clone"], "what is not ours stays")

	const size = "nginx.ingress.kubernetes.io/proxy-body-size"
	r.patch(r.object(harbor.Ingress, "minio-main"), `{"metadata":{"annotations":{"`+size+`":"1m","theirs":"stays"}}}`)
	for due := r.await(); !slices.ContainsFunc(due.Parts, func(d harbor.Due) bool { return d.Part == harbor.PartStorage }); due = r.await() {
		continue // what else has changed
	}
	annotations := r.object(harbor.Ingress, "minio-main").GetAnnotations()
	require.Equal(t, []string{"0", "stays"}, []string{annotations[size], annotations["theirs"]}, "no image would pass")

	for object, part := range map[*unstructured.Unstructured]harbor.Part{
		r.object(harbor.RedisFailover, "main-redis"): harbor.PartCache, r.object(harbor.Ingress, "minio-main"): harbor.PartStorage,
		r.object(harbor.Secret, "main-database-password"): harbor.PartHarbor,
	} {
		require.NoError(t, r.cluster.Client.Delete(t.Context(), object))
		repaired := 0
		for before := len(r.order); repaired == 0; before = len(r.order) {
			r.await()
			for _, applied := range r.order[before:] {
				if applied == part {
					repaired++
				}
			}
		}
		require.NotNil(t, r.object(object.GroupVersionKind(), object.GetName()))
	}
	r.untilIs(goharborv1.StatusHealthy)
}

func harborIsExposedNoMore(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	require.NotNil(t, r.object(harbor.Ingress, "minio-main"))
	redirects := func(enable bool) {
		hc := r.harborCluster()
		r.patch(hc, fmt.Sprintf(`{"spec":{"storage":{"spec":{"redirect":{"enable":%t}}}}}`, enable))
		r.until(func(s goharborv1.HarborClusterStatus) bool {
			return s.Status == goharborv1.StatusHealthy && s.ObservedGeneration == hc.Generation
		})
	}
	redirects(false)
	require.Nil(t, r.object(harbor.Ingress, "minio-main"))
	redirects(true)
	require.NotNil(t, r.object(harbor.Ingress, "minio-main"))

	r.patch(r.object(harbor.Ingress, "minio-main"), `{"metadata":{"labels":{"goharbor.io/harbor-cluster":"another"}}}`)
	redirects(false)
	require.NotNil(t, r.object(harbor.Ingress, "minio-main"), "it is somebody else's")
}

func harborFallsOver(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	healthy := r.untilIs(goharborv1.StatusHealthy)
	for kind, name := range map[operators.Kind]string{
		operators.Postgresql: r.postgres(), operators.RedisFailover: "main-redis", operators.Tenant: "minio-main", operators.Harbor: "main-harbor",
	} {
		played.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{Down: true})
		r.untilIs(goharborv1.StatusUnhealthy)
		played.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{})
		back := r.untilIs(goharborv1.StatusHealthy)
		require.Equal(t, harbor.ConditionOf(healthy, goharborv1.StorageReady).FirstReadyTime.Unix(), harbor.ConditionOf(back, goharborv1.StorageReady).FirstReadyTime.Unix())
	}
	played.Simulate(operators.Postgresql, r.ref.Namespace, r.postgres(), operators.Behaviour{Flaps: 200 * time.Millisecond})
	for range 2 {
		r.untilIs(goharborv1.StatusUnhealthy)
		r.untilIs(goharborv1.StatusHealthy)
	}
}

func harborIsGate(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	check := func(timeout int32) health.AwaitClusterHealthyInput {
		return health.AwaitClusterHealthyInput{Cluster: activitytest.HubName, Since: time.Now(), Checks: []drydockv1.HealthCheck{{
			Name: "registry", TimeoutSeconds: &timeout, HarborCluster: &drydockv1.HarborClusterCheck{Namespace: r.ref.Namespace, Name: "main"},
		}}}
	}
	require.NoError(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(20)))

	played.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{Down: true})
	require.Eventually(t, func() bool {
		available, _, _ := unstructured.NestedInt64(r.object(harbor.Tenant, "minio-main").Object, "status", "availableReplicas")
		return available == 1
	}, activitytest.NewsLimit, 20*time.Millisecond)
	hc, err := readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.Equal(t, goharborv1.StatusHealthy, hc.Status.Status, "nobody keeps it, so that its status is of before")
	err = (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1))
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
	require.Regexp(t, `health gate of cluster hub failed: registry: HarborCluster \S+/main: condition StorageReady is False: ReplicasNotReady: was ready, and is not now: 1 of 2 replicas of `+
		`Tenant minio-main are available; seen so since \d\d:\d\d:\d\dZ, for \ds`, temporal.ErrorMessage(err))

	opened := make(chan error, 1)
	go func() {
		opened <- (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(30))
	}()
	played.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{})
	require.NoError(t, <-opened)

	r.patch(hc, `{"spec":{"version":"2.6.0"}}`)
	require.Contains(t, temporal.ErrorMessage((&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1))), "generation 2: not observed yet", "its operators speak of the first")
	r.until(func(s goharborv1.HarborClusterStatus) bool { return s.ObservedGeneration == 2 })
	require.NotEqual(t, goharborv1.StatusHealthy, r.known.Status.Status, "Harbor was not applied when it was looked at")
	require.ErrorContains(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1)), "generation 2: not applied yet: harbor", "it is up as it was before")
	r.untilIs(goharborv1.StatusHealthy)
	require.NoError(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(20)))
}

func harborSaysWhy(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml", "expose:\n    core:", "progressDeadlineSeconds: 2\n  expose:\n    core:")
	played.Simulate(operators.Postgresql, r.ref.Namespace, r.postgres(), operators.Behaviour{Fails: true})
	played.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{After: -1})
	require.Contains(t, r.untilReason(goharborv1.DatabaseReady, "CreateFailed").Message, "is CreateFailed: see its events")
	late := r.untilReason(goharborv1.StorageReady, harbor.ReasonProgressDeadlineExceeded)
	require.Equal(t, "not ready after 2s: Tenant minio-main: Provisioning initial users", late.Message)
	require.Equal(t, metav1.ConditionTrue, harbor.ConditionOf(r.known.Status, goharborv1.CacheReady).Status, "others are not held up")
	require.Nil(t, r.object(harbor.Harbor, "main-harbor"))

	played.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{Fails: true})
	played.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{})
	r.untilReason(goharborv1.StorageReady, harbor.ReasonBucketJobFailed)
	played.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{})
	require.NoError(t, r.cluster.Client.Delete(t.Context(), r.object(harbor.Job, "minio-main"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	r.untilReason(goharborv1.StorageReady, harbor.ReasonReady)
}

func harborElsewhere(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "external.yaml")
	r.untilReason(goharborv1.DatabaseReady, harbor.ReasonSecretMissing)
	require.Equal(t, goharborv1.StatusCreating, r.known.Status.Status)
	for _, name := range []string{"db", "redis", "s3"} {
		require.Nil(t, r.object(harbor.Harbor, "main-harbor"))
		activitytest.Create(t, r.cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: name}})
	}
	r.untilIs(goharborv1.StatusHealthy)
	require.Equal(t, []harbor.Part{harbor.PartHarbor}, r.order)
	for _, kind := range []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady} {
		r.becomes(kind, yes, harbor.ReasonExternal)
	}

	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"s3":{"bucket":null}}}}}`)
	r.becomes(goharborv1.StorageReady, no, harbor.ReasonSettingsMissing)
	require.Equal(t, "must be set: spec.storage.spec.s3.bucket", harbor.ConditionOf(r.known.Status, goharborv1.StorageReady).Message)
	require.Equal(t, goharborv1.StatusUnhealthy, r.known.Status.Status)
	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"s3":{"bucket":"images"}}}}}`)
	r.untilIs(goharborv1.StatusHealthy)
}

func harborOfOthers(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	theirs := func(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(r.ref.Namespace)
		object.SetName(name)
		return activitytest.Create(t, r.cluster, object)
	}
	three := map[string]any{"replicas": int64(3)}
	others := map[goharborv1.ConditionType]*unstructured.Unstructured{
		goharborv1.CacheReady:   theirs(harbor.RedisFailover, "main-redis", map[string]any{"redis": three, "sentinel": three}),
		goharborv1.StorageReady: theirs(harbor.Tenant, "minio-main", map[string]any{"pools": []any{}}),
	}
	for kind, object := range others {
		failed := r.untilReason(kind, harbor.ReasonApplyFailed)
		require.Equal(t, metav1.ConditionFalse, failed.Status)
		require.Contains(t, failed.Message, object.GetKind()+" "+r.ref.Namespace+"/"+object.GetName()+
			" exists and is not of this HarborCluster: delete it, or set its label goharbor.io/harbor-cluster=main")
	}
	r.untilReason(goharborv1.DatabaseReady, harbor.ReasonReady)

	for _, object := range others {
		r.patch(object, `{"metadata":{"labels":{"goharbor.io/harbor-cluster":"main"}}}`)
	}
	r.untilIs(goharborv1.StatusHealthy)
}

// end deletes the HarborCluster, and does what the workflow does then. Foreign are the objects that are not removed, by part.
func (r *registry) end(foreign map[harbor.Part]string) {
	r.t.Helper()
	require.NoError(r.t, r.harbor().DeleteHarborCluster(r.t.Context(), r.ref))
	deleting := false
	for range 100 { // what else has changed may be seen before
		if deleting = r.await().Deleting; deleting {
			break
		}
	}
	require.True(r.t, deleting)
	for _, part := range []harbor.Part{harbor.PartHarbor, harbor.PartDatabase, harbor.PartCache, harbor.PartStorage} {
		for range 2 { // done once more, it changes nothing
			result, err := r.harbor().RemoveHarborPart(r.t.Context(), RemovePartInput{Ref: r.ref, Part: part})
			require.NoError(r.t, err)
			require.Equal(r.t, foreign[part], result.Foreign)
		}
	}
	hc, err := readHarborCluster(r.t.Context(), r.cluster.Client, r.ref)
	require.NoError(r.t, err)
	require.Equal(r.t, goharborv1.StatusUnhealthy, hc.Status.Status)
	require.Equal(r.t, harbor.ReasonRemoving, harbor.ConditionOf(hc.Status, goharborv1.ServiceReady).Reason, "nobody looks any more, and Harbor is gone")
	require.NoError(r.t, r.harbor().ReleaseHarborCluster(r.t.Context(), ReleaseInput{Ref: r.ref}))
	require.True(r.t, r.await().Deleting, "who only leaves it does not let it go")
	require.NoError(r.t, r.harbor().ReleaseHarborCluster(r.t.Context(), ReleaseInput{Ref: r.ref, Removed: true}))
	require.True(r.t, r.await().Gone)
	require.Nil(r.t, r.object(harbor.Harbor, "main-harbor"))
	require.Nil(r.t, r.object(harbor.Secret, "main-database-password"))
	require.Nil(r.t, r.object(harbor.Job, "minio-main"))
	require.Nil(r.t, r.object(harbor.Ingress, "minio-main"))
}

// claims returns how many claims there are that are not being deleted.
func (r *registry) claims() int {
	r.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	require.NoError(r.t, r.cluster.Client.List(r.t.Context(), &claims, client.InNamespace(r.ref.Namespace)))
	left := 0
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp == nil {
			left++
		}
	}
	return left
}

// own makes the HarborCluster the controller of an object, as the Harbor operator does.
func (r *registry) own(kind schema.GroupVersionKind, name string) {
	r.t.Helper()
	r.patch(r.object(kind, name), fmt.Sprintf(`{"metadata":{"labels":{"goharbor.io/harbor-cluster":null},"ownerReferences":[`+
		`{"apiVersion":"goharbor.io/v1beta1","kind":"HarborCluster","name":"main","uid":%q,"controller":true,"blockOwnerDeletion":true},`+
		`{"apiVersion":"v1","kind":"ConfigMap","name":"theirs","uid":"1"}]}}`, r.ref.UID))
}

func harborRetains(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	data := map[schema.GroupVersionKind]string{harbor.Postgresql: r.postgres(), harbor.RedisFailover: "main-redis", harbor.Tenant: "minio-main"}
	requireDisowned := func(kind schema.GroupVersionKind, name string) {
		object := r.object(kind, name)
		require.Equal(t, "main", object.GetLabels()[harbor.LabelCluster], "%s is ours still", kind)
		require.Len(t, object.GetOwnerReferences(), 1, "%s would go with the HarborCluster", kind)
		require.Equal(t, "ConfigMap", object.GetOwnerReferences()[0].Kind, "the owners of others stay")
	}
	for kind, name := range data {
		r.own(kind, name)
	}
	r.own(harbor.Secret, "minio-main-creds")
	for applied := map[harbor.Part]bool{}; !applied[harbor.PartDatabase] || !applied[harbor.PartCache] || !applied[harbor.PartStorage]; {
		for _, due := range r.await().Parts {
			applied[due.Part] = true
		}
	}
	for kind, name := range data {
		requireDisowned(kind, name)
		r.own(kind, name)
	}
	requireDisowned(harbor.Secret, "minio-main-creds")
	r.own(harbor.Secret, "minio-main-creds")

	// Nobody keeps it any more, so that nothing holds it: what it owns would go with it.
	require.NoError(t, r.harbor().ReleaseHarborCluster(t.Context(), ReleaseInput{Ref: r.ref}))
	r.end(nil)
	for kind, name := range data {
		requireDisowned(kind, name)
	}
	requireDisowned(harbor.Secret, "minio-main-creds")
	require.NotNil(t, r.object(harbor.Postgresql, r.postgres()))
	require.NotNil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.NotNil(t, r.object(harbor.Tenant, "minio-main"))
	require.NotNil(t, r.object(harbor.Secret, "minio-main-creds"))
	require.Equal(t, 3, r.claims())
}

func harborDeletes(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	r.untilIs(goharborv1.StatusHealthy)
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: "theirs"}}
	foreign.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	foreign.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	require.NoError(t, r.cluster.Client.Create(t.Context(), foreign))
	r.end(nil)
	require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	require.Nil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.Nil(t, r.object(harbor.Tenant, "minio-main"))
	require.Nil(t, r.object(harbor.Secret, "minio-main-creds"))
	require.Nil(t, r.object(harbor.Secret, "main-redis"))
	require.Equal(t, 1, r.claims(), "that of somebody else")
}

func harborDeletesNoneOfOthers(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	r.untilIs(goharborv1.StatusHealthy)
	for _, theirs := range []*unstructured.Unstructured{r.object(harbor.RedisFailover, "main-redis"), r.object(harbor.Tenant, "minio-main")} {
		r.patch(theirs, `{"metadata":{"labels":{"goharbor.io/harbor-cluster":"another"}}}`)
	}
	require.NoError(t, r.cluster.Client.Delete(t.Context(), r.object(harbor.Postgresql, r.postgres())))
	r.end(map[harbor.Part]string{
		harbor.PartCache: "RedisFailover " + r.ref.Namespace + "/main-redis", harbor.PartStorage: "Tenant " + r.ref.Namespace + "/minio-main",
	})
	require.NotNil(t, r.object(harbor.RedisFailover, "main-redis"))
	require.NotNil(t, r.object(harbor.Tenant, "minio-main"))
	require.NotNil(t, r.object(harbor.Secret, "minio-main-creds"), "it may be in use")
	require.Equal(t, 2, r.claims(), "those of the database are gone, though the database was gone before")
}

// harborCluster is a HarborCluster with all its services in the cluster.
func harborCluster(t *testing.T, namespace string) *goharborv1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile("../../internal/harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Decode("incluster.yaml", []byte(strings.Replace(string(text), "namespace: registry", "namespace: "+namespace, 1)))
	require.NoError(t, err)
	return objects[0].(*goharborv1.HarborCluster)
}

func harborWithoutRights(t *testing.T, _ *operators.Operators) {
	t.Parallel()
	namespace, granted := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	grantHarbor(t, activitytest.BareCluster(t), granted)
	object := harborCluster(t, namespace)
	_, err := (&Activities{Clusters: activitytest.Clusters}).ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.HubName, Object: *object})
	requireMissingRights := func(err error) {
		t.Helper()
		require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
		require.ErrorContains(t, err, "bind ClusterRole drydock-harbor-namespace in namespace "+namespace)
	}
	requireMissingRights(err)
	activitytest.Create(t, activitytest.BareCluster(t), object)
	ref := Ref{Cluster: activitytest.HubName, Namespace: namespace, Name: object.Name, UID: object.UID}
	_, err = (&Activities{Clusters: activitytest.Clusters}).AwaitHarborDue(t.Context(), AwaitDueInput{Ref: ref})
	requireMissingRights(err)
	requireMissingRights((&Activities{Clusters: activitytest.Clusters}).HoldHarborCluster(t.Context(), ref))
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

func harborHeldAsItIs(t *testing.T, _ *operators.Operators) {
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
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).HoldHarborCluster(t.Context(), ref))
	requireSame("example.org/theirs", Finalizer)
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).ReleaseHarborCluster(t.Context(), ReleaseInput{Ref: ref}))
	requireSame("example.org/theirs")
	require.NoError(t, cluster.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

func harborStatusConflicts(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml")
	status := r.untilIs(goharborv1.StatusHealthy)
	require.NoError(t, r.cluster.Client.Status().Patch(t.Context(), r.harborCluster(), client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"status":"creating","conditions":[{"type":"Scanned","status":"True"}]}}`))))
	written := *r.known.StatusWritten
	due := r.await()
	require.True(t, due.Outdated, "somebody else has written it")
	require.GreaterOrEqual(t, time.Since(written), 2*time.Second, "who writes it all the time is not answered each time at once")
	require.Equal(t, goharborv1.StatusHealthy, due.Status.Status, "what is remembered counts")

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
	require.Len(t, hc.Status.Conditions, 6, "the condition of somebody else stays")
}

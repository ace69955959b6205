package harbor

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/health"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

func TestHarborClusters(t *testing.T) {
	simulated, err := operators.Start(t.Context(), activitytest.Stack.Cluster(activitytest.HubName).Config, operators.Options{})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	t.Run("together", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *operators.Operators){
			"Harbor is applied last, and nothing is written twice":  harborIsApplied,
			"a health gate ignores a stale status":                  harborIsGate,
			"changed and deleted objects are corrected":             harborDrifts,
			"the bucket is created for the current spec and Tenant": harborRecreatesItsBucket,
			"the Ingress of MinIO is removed without redirects":     harborRemovesIngress,
			"the status shows a failed and a recovered service":     harborServiceFails,
			"the status shows the operators' messages and timeouts": harborShowsReasons,
			"external services need their Secrets":                  harborExternalServices,
			"foreign objects are not adopted":                       harborForeignObjects,
			"deletionPolicy Retain keeps the data":                  harborRetains,
			"deletionPolicy Delete removes everything":              harborDeletes,
			"a deletion keeps foreign objects":                      harborKeepsForeignObjects,
			"each documented condition is reported":                 harborConditions,
			"each slow service is reported":                         harborIsLate,
			"missing operators are reported":                        harborWithoutOperators,
			"missing permissions are reported":                      harborWithoutRights,
			"invalid objects are refused":                           harborRefused,
			"all fields are in the published APIs":                  harborSetsPublishedFields,
			"an unknown field is named":                             harborShowsUnknownFields,
			"changed keys of MinIO reach its operator":              harborChangesItsKeys,
			"the finalizer changes nothing else":                    harborFinalizerChangesNothing,
			"concurrent writes of the status are merged":            harborStatusConflicts,
			"a resync finds missed changes":                         harborResync,
			"a held cluster is not changed":                         harborHeld,
			"health from before a change does not count":            harborIgnoresOldHealth,
		} {
			t.Run(name, func(t *testing.T) { run(t, simulated) })
		}
	})
	t.Run("alone", func(t *testing.T) {
		t.Run("a hanging webhook is reported", func(t *testing.T) { harborHangs(t, simulated) })
	})
	require.NoError(t, simulated.Err())
}

func harborIsApplied(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	simulated.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{After: 300 * time.Millisecond})
	first := r.await()
	require.Equal(t, goharborv1.StatusCreating, first.Status.Status)
	require.Len(t, first.Parts, 3, "the services have no dependencies")
	status := r.untilIs(goharborv1.StatusHealthy)
	require.Equal(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage, harbor.PartBucket, harbor.PartHarbor}, r.order)
	for _, condition := range status.Conditions {
		require.NotNil(t, condition.FirstReadyTime, condition.Type)
	}
	hc, err := readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.True(t, harbor.SameStatus(hc.Status, status), "the object has the same status")
	secret := r.object(harbor.Secret, "main-database-password")
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("from-the-operator")), secret.Object["data"].(map[string]any)["postgresql-password"])

	require.Equal(t, []string{
		"get " + r.credentials(), "get main-database-password", "get minio-main", "get minio-main-configuration", "get minio-main-creds", "get minio-main-creds",
		"patch main-database-password", "patch minio-main", "patch minio-main-configuration",
	}, r.secretRequests(), "each is read once for its owner before it is written, and the keys of MinIO for the Tenant and for Harbor")

	before := r.versions()
	for part, applied := range r.known.Applied {
		_, err := r.harbor().ApplyHarborPart(t.Context(), ApplyPartInput{Ref: r.ref, Due: harbor.Due{Part: part, Wanted: applied.Wanted}})
		require.NoError(t, err)
	}
	require.Equal(t, before, r.versions(), "a repeated apply writes nothing")

	// Harbor gets a changed password.
	r.patch(r.object(harbor.Secret, r.credentials()), `{"stringData":{"password":"new"}}`)
	r.untilApplied(harbor.PartHarbor)
	require.Equal(t, "bmV3", r.object(harbor.Secret, "main-database-password").Object["data"].(map[string]any)["postgresql-password"])
}

// secretRequests returns the requests of Drydock for single Secrets before Harbor was applied.
func (r *registry) secretRequests() []string {
	r.t.Helper()
	var asked []string
	require.Eventually(r.t, func() bool {
		events, err := activitytest.Stack.Cluster(activitytest.HubName).AuditEvents()
		if err != nil {
			return false
		}
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
	}, activitytest.EventTimeout, 50*time.Millisecond, "the audit log lacks the apply of Harbor")
	slices.Sort(asked)
	return asked
}

// versions returns the resource versions of the applied objects.
func (r *registry) versions() map[string]string {
	versions := map[string]string{}
	for _, found := range []*unstructured.Unstructured{
		r.object(harbor.Postgresql, r.postgres()), r.object(harbor.RedisFailover, "main-redis"), r.object(harbor.Tenant, "minio-main"), r.object(harbor.Harbor, "main-harbor"),
		r.object(harbor.Job, "minio-main"), r.object(harbor.Ingress, "minio-main"), r.object(harbor.Secret, "main-redis"), r.object(harbor.Secret, "minio-main-creds"),
		r.object(harbor.Secret, "main-database-password"), r.object(harbor.Secret, "minio-main"), r.object(harbor.Secret, "minio-main-configuration"),
	} {
		require.NotNil(r.t, found)
		versions[found.GetKind()+"/"+found.GetName()] = string(found.GetUID()) + " " + found.GetResourceVersion()
	}
	return versions
}

func harborDrifts(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	r.patch(r.object(harbor.Postgresql, r.postgres()), `{"spec":{"numberOfInstances":7,"clone":{"cluster":"theirs"}}}`)
	r.untilApplied(harbor.PartDatabase)
	spec := r.object(harbor.Postgresql, r.postgres()).Object["spec"].(map[string]any)
	require.EqualValues(t, 2, spec["numberOfInstances"])
	require.NotNil(t, spec["clone"], "foreign fields stay")

	const size = "nginx.ingress.kubernetes.io/proxy-body-size"
	r.patch(r.object(harbor.Ingress, "minio-main"), `{"metadata":{"annotations":{"`+size+`":"1m","theirs":"stays"}}}`)
	r.untilApplied(harbor.PartStorage)
	annotations := r.object(harbor.Ingress, "minio-main").GetAnnotations()
	require.Equal(t, []string{"0", "stays"}, []string{annotations[size], annotations["theirs"]}, "otherwise uploads fail")

	for object, part := range map[*unstructured.Unstructured]harbor.Part{
		r.object(harbor.RedisFailover, "main-redis"): harbor.PartCache, r.object(harbor.Ingress, "minio-main"): harbor.PartStorage,
		r.object(harbor.Secret, "main-database-password"): harbor.PartHarbor,
	} {
		require.NoError(t, r.cluster.Client.Delete(t.Context(), object))
		r.untilApplied(part)
		require.NotNil(t, r.object(object.GroupVersionKind(), object.GetName()))
	}
	r.untilIs(goharborv1.StatusHealthy)
}

func harborRemovesIngress(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
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
	require.NotNil(t, r.object(harbor.Ingress, "minio-main"), "it is a foreign object")
}

func harborServiceFails(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	healthy := r.untilIs(goharborv1.StatusHealthy)
	for kind, name := range map[operators.Kind]string{
		operators.Postgresql: r.postgres(), operators.RedisFailover: "main-redis", operators.Tenant: "minio-main", operators.Harbor: "main-harbor",
	} {
		simulated.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{Down: true})
		r.untilIs(goharborv1.StatusUnhealthy)
		simulated.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{})
		back := r.untilIs(goharborv1.StatusHealthy)
		require.Equal(t, harbor.ConditionOf(healthy, goharborv1.StorageReady).FirstReadyTime.Unix(), harbor.ConditionOf(back, goharborv1.StorageReady).FirstReadyTime.Unix())
	}
	simulated.Simulate(operators.Postgresql, r.ref.Namespace, r.postgres(), operators.Behaviour{Flaps: 200 * time.Millisecond})
	counts := r.eventCounts()
	for counts["Warning DatabaseNotReady"] < 3 {
		r.await()
		counts = r.eventCounts()
	}
	for _, service := range []string{"Cache", "Storage", "Service"} {
		require.GreaterOrEqual(t, counts["Normal "+service+"Ready"], 2, "%s: at first, and after it failed: %v", service, counts)
		require.GreaterOrEqual(t, counts["Warning "+service+"NotReady"], 1, "%s: %v", service, counts)
	}
}

// eventCounts returns how many Events of each type and reason the HarborCluster has.
func (r *registry) eventCounts() map[string]int {
	r.t.Helper()
	var recorded corev1.EventList
	require.NoError(r.t, r.cluster.Client.List(r.t.Context(), &recorded, client.InNamespace(r.ref.Namespace)))
	counts := map[string]int{}
	for _, event := range recorded.Items {
		if event.InvolvedObject.UID == r.ref.UID {
			counts[event.Type+" "+event.Reason]++
			require.NotEmpty(r.t, event.Message, event.Reason)
		}
	}
	return counts
}

func harborIsGate(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	r.untilIs(goharborv1.StatusHealthy)
	check := func(timeout int32) health.AwaitClusterHealthyInput {
		return health.AwaitClusterHealthyInput{Cluster: activitytest.HubName, Since: time.Now(), Checks: []drydockv1.HealthCheck{{
			Name: "registry", TimeoutSeconds: &timeout, HarborCluster: &drydockv1.HarborClusterCheck{Namespace: r.ref.Namespace, Name: "main"},
		}}}
	}
	require.NoError(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(120)))

	simulated.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{Down: true})
	require.Eventually(t, func() bool {
		available, _, _ := unstructured.NestedInt64(r.object(harbor.Tenant, "minio-main").Object, "status", "availableReplicas")
		return available == 1
	}, activitytest.EventTimeout, 20*time.Millisecond)
	hc, err := readHarborCluster(t.Context(), r.cluster.Client, r.ref)
	require.NoError(t, err)
	require.Equal(t, goharborv1.StatusHealthy, hc.Status.Status, "it is not managed, so its status is outdated")
	err = (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1))
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
	require.Regexp(t, `health gate of cluster hub failed: registry: HarborCluster \S+/main: condition StorageReady is False: ReplicasNotReady: was ready, and is not now: 1 of 2 replicas of `+
		`Tenant minio-main are available; seen so since \d\d:\d\d:\d\dZ, for \d+s`, temporal.ErrorMessage(err))

	opened := make(chan error, 1)
	go func() {
		opened <- (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(120))
	}()
	simulated.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{})
	require.NoError(t, <-opened)

	r.patch(hc, `{"spec":{"version":"2.6.0"}}`)
	require.Contains(t, temporal.ErrorMessage((&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1))), "generation 2: not observed yet", "its operators have observed generation 1")
	r.until(func(s goharborv1.HarborClusterStatus) bool { return s.ObservedGeneration == 2 })
	require.NotEqual(t, goharborv1.StatusHealthy, r.known.Status.Status, "Harbor was not applied when it was observed")
	require.ErrorContains(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(1)), "generation 2: not applied yet: harbor", "Harbor runs with its former spec")
	r.untilIs(goharborv1.StatusHealthy)
	require.NoError(t, (&health.Activities{Clusters: activitytest.Clusters}).AwaitClusterHealthy(t.Context(), check(120)))
}

func harborShowsReasons(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "expose:\n    core:", "progressDeadlineSeconds: 2\n  expose:\n    core:")
	simulated.Simulate(operators.Postgresql, r.ref.Namespace, r.postgres(), operators.Behaviour{Fails: true})
	simulated.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{After: -1})
	require.Contains(t, r.untilReason(goharborv1.DatabaseReady, "CreateFailed").Message, "is CreateFailed: see its events")
	// On a slow machine, the deadline passes before the operators have written any status.
	r.until(func(s goharborv1.HarborClusterStatus) bool {
		late := harbor.ConditionOf(s, goharborv1.StorageReady)
		return late.Reason == harbor.ReasonProgressDeadlineExceeded && late.Message == "not ready after 2s: Tenant minio-main: Provisioning initial users"
	})
	r.awaitCondition(goharborv1.CacheReady, yes, harbor.ReasonReady) // other services continue
	require.Nil(t, r.object(harbor.Harbor, "main-harbor"))

	simulated.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{Fails: true})
	simulated.Simulate(operators.Tenant, r.ref.Namespace, "minio-main", operators.Behaviour{})
	r.untilReason(goharborv1.StorageReady, harbor.ReasonBucketJobFailed)
	simulated.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{})
	require.NoError(t, r.cluster.Client.Delete(t.Context(), r.object(harbor.Job, "minio-main"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	r.untilReason(goharborv1.StorageReady, harbor.ReasonReady)
}

func harborExternalServices(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "external.yaml")
	r.untilReason(goharborv1.DatabaseReady, harbor.ReasonSecretMissing)
	require.Equal(t, goharborv1.StatusCreating, r.known.Status.Status)
	for _, name := range []string{"db", "redis", "s3"} {
		require.Nil(t, r.object(harbor.Harbor, "main-harbor"))
		activitytest.Create(t, r.cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: name}})
	}
	r.untilIs(goharborv1.StatusHealthy)
	require.Equal(t, []harbor.Part{harbor.PartHarbor}, r.order)
	for _, kind := range []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady} {
		r.awaitCondition(kind, yes, harbor.ReasonExternal)
	}

	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"s3":{"bucket":null}}}}}`)
	r.awaitCondition(goharborv1.StorageReady, no, harbor.ReasonSettingsMissing)
	require.Equal(t, "must be set: spec.storage.spec.s3.bucket", harbor.ConditionOf(r.known.Status, goharborv1.StorageReady).Message)
	require.Equal(t, goharborv1.StatusUnhealthy, r.known.Status.Status)
	r.patch(r.harborCluster(), `{"spec":{"storage":{"spec":{"s3":{"bucket":"images"}}}}}`)
	r.untilIs(goharborv1.StatusHealthy)
}

func harborForeignObjects(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
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

// harborCluster returns a HarborCluster with all its services in the cluster.
func harborCluster(t *testing.T, namespace string) *goharborv1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile("../../internal/harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Decode("incluster.yaml", []byte(strings.Replace(string(text), "namespace: registry", "namespace: "+namespace, 1)))
	require.NoError(t, err)
	return objects[0].(*goharborv1.HarborCluster)
}

package harbor

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// awaitCondition executes due work until a condition has that status and reason.
func (r *registry) awaitCondition(kind goharborv1.ConditionType, status metav1.ConditionStatus, reason string) {
	r.t.Helper()
	r.until(func(s goharborv1.HarborClusterStatus) bool {
		condition := harbor.ConditionOf(s, kind)
		return condition.Status == status && condition.Reason == reason
	})
}

// reports writes the status of an object, as its operator does.
func (r *registry) reports(kind schema.GroupVersionKind, name, status string) {
	r.t.Helper()
	object := r.object(kind, name)
	require.NotNil(r.t, object, "%s %s", kind.Kind, name)
	require.NoError(r.t, r.cluster.Client.Status().Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":%s}`, status))))
}

// harborConditions goes through the conditions of a HarborCluster. The test acts as all operators.
func harborConditions(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	for kind, name := range map[operators.Kind]string{
		operators.Postgresql: r.postgres(), operators.RedisFailover: "main-redis", operators.Tenant: "minio-main", operators.Harbor: "main-harbor",
	} {
		simulated.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{Absent: true})
	}
	simulated.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{After: -1})
	databaseRows(r)
	cacheRows(r)
	storageRows(r)
	serviceRows(r)
	configurationRows(r)
	require.Greater(t, r.announced["DatabaseNotReady"], 3, "the transitions are repeated")
	r.requireEvents()
}

func databaseRows(r *registry) {
	report := func(status string) {
		r.reports(harbor.Postgresql, r.postgres(), fmt.Sprintf(`{"PostgresClusterStatus":%q}`, status))
	}
	r.awaitCondition(goharborv1.DatabaseReady, unknown, harbor.ReasonNotFound)
	r.awaitCondition(goharborv1.DatabaseReady, unknown, harbor.ReasonNotReported)
	for _, status := range []string{"Creating", "Updating"} {
		report(status)
		r.awaitCondition(goharborv1.DatabaseReady, unknown, status)
	}
	for _, status := range []string{"CreateFailed", "UpdateFailed", "SyncFailed", "Invalid"} {
		report(status)
		r.awaitCondition(goharborv1.DatabaseReady, no, status)
	}
	report("Running")
	r.awaitCondition(goharborv1.DatabaseReady, unknown, harbor.ReasonSecretMissing)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: r.credentials()}}
	secret.StringData = map[string]string{"password": "made"}
	activitytest.Create(r.t, r.cluster, secret.DeepCopy())
	r.awaitCondition(goharborv1.DatabaseReady, yes, harbor.ReasonReady)
	report("Updating")
	r.awaitCondition(goharborv1.DatabaseReady, no, "Updating")
	report("Running")
	r.awaitCondition(goharborv1.DatabaseReady, yes, harbor.ReasonReady)
	require.NoError(r.t, r.cluster.Client.Delete(r.t.Context(), secret.DeepCopy()))
	r.awaitCondition(goharborv1.DatabaseReady, no, harbor.ReasonSecretMissing)
	activitytest.Create(r.t, r.cluster, secret)
	r.awaitCondition(goharborv1.DatabaseReady, yes, harbor.ReasonReady)
}

func cacheRows(r *registry) {
	r.awaitCondition(goharborv1.CacheReady, unknown, harbor.ReasonNotFound)
	labels := map[string]string{"app": "redis"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}}}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: name} }
	three := new(int32(3))
	activitytest.Create(r.t, r.cluster, &appsv1.StatefulSet{ObjectMeta: meta("rfr-main-redis"), Spec: appsv1.StatefulSetSpec{Replicas: three, Selector: selector, Template: template}})
	servers := func(ready int) {
		r.reports(harbor.StatefulSet, "rfr-main-redis", fmt.Sprintf(`{"observedGeneration":1,"replicas":3,"readyReplicas":%d}`, ready))
	}
	sentinels := func(ready int) {
		r.reports(harbor.Deployment, "rfs-main-redis", fmt.Sprintf(`{"observedGeneration":1,"replicas":3,"readyReplicas":%d}`, ready))
	}
	servers(3)
	r.until(func(s goharborv1.HarborClusterStatus) bool {
		return harbor.ConditionOf(s, goharborv1.CacheReady).Message == "there is no Deployment rfs-main-redis of RedisFailover main-redis"
	})
	activitytest.Create(r.t, r.cluster, &appsv1.Deployment{ObjectMeta: meta("rfs-main-redis"), Spec: appsv1.DeploymentSpec{Replicas: three, Selector: selector, Template: template}})
	r.awaitCondition(goharborv1.CacheReady, unknown, harbor.ReasonGenerationNotObserved)
	sentinels(2)
	r.awaitCondition(goharborv1.CacheReady, unknown, harbor.ReasonReplicasNotReady)
	sentinels(3)
	r.awaitCondition(goharborv1.CacheReady, yes, harbor.ReasonReady)
	servers(2)
	r.awaitCondition(goharborv1.CacheReady, no, harbor.ReasonReplicasNotReady)
	servers(3)
	r.awaitCondition(goharborv1.CacheReady, yes, harbor.ReasonReady)
}

func storageRows(r *registry) {
	report := func(state string, available int, pool string) {
		r.reports(harbor.Tenant, "minio-main", fmt.Sprintf(`{"currentState":%q,"availableReplicas":%d,"pools":[{"ssName":"minio-main-zone-harbor","state":%q}],"certificates":{},"revision":0,"syncVersion":"v6.0.0"}`, state, available, pool))
	}
	r.awaitCondition(goharborv1.StorageReady, unknown, harbor.ReasonNotReported)
	report("Waiting for MinIO", 2, "PoolInitialized")
	r.awaitCondition(goharborv1.StorageReady, unknown, harbor.ReasonPoolNotInitialized)
	report("Initialized", 1, "PoolInitialized")
	r.awaitCondition(goharborv1.StorageReady, unknown, harbor.ReasonReplicasNotReady)
	report("Initialized", 2, "PoolCreated")
	r.awaitCondition(goharborv1.StorageReady, unknown, harbor.ReasonPoolNotInitialized)
	report("Initialized", 2, "PoolInitialized")
	r.awaitCondition(goharborv1.StorageReady, unknown, harbor.ReasonBucketJobNotComplete)
	r.operators.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{Fails: true})
	r.awaitCondition(goharborv1.StorageReady, no, harbor.ReasonBucketJobFailed)
	r.operators.Simulate(operators.BucketJob, r.ref.Namespace, "minio-main", operators.Behaviour{})
	require.NoError(r.t, r.cluster.Client.Delete(r.t.Context(), r.object(harbor.Job, "minio-main"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	r.awaitCondition(goharborv1.StorageReady, yes, harbor.ReasonReady)
	report("Initialized", 1, "PoolInitialized")
	r.awaitCondition(goharborv1.StorageReady, no, harbor.ReasonReplicasNotReady)
	require.Equal(r.t, goharborv1.StatusUnhealthy, r.known.Status.Status)
	report("Initialized", 2, "PoolInitialized")
	r.awaitCondition(goharborv1.StorageReady, yes, harbor.ReasonReady)
}

func serviceRows(r *registry) {
	report := func(failed, progress metav1.ConditionStatus, generation int64) {
		r.reports(harbor.Harbor, "main-harbor", fmt.Sprintf(
			`{"observedGeneration":%d,"conditions":[{"type":"Failed","status":%q,"reason":"Broken"},{"type":"InProgress","status":%q,"reason":"Busy"}]}`, generation, failed, progress))
	}
	r.awaitCondition(goharborv1.ServiceReady, unknown, harbor.ReasonNotReported)
	report(no, yes, 1)
	r.awaitCondition(goharborv1.ServiceReady, unknown, "Busy")
	report(yes, yes, 1)
	r.awaitCondition(goharborv1.ServiceReady, no, "Broken")
	report(no, unknown, 1)
	r.awaitCondition(goharborv1.ServiceReady, unknown, harbor.ReasonNotReported)
	report(no, no, 0)
	r.awaitCondition(goharborv1.ServiceReady, unknown, harbor.ReasonGenerationNotObserved)
	report(no, no, 1)
	r.awaitCondition(goharborv1.ServiceReady, yes, harbor.ReasonReady)
	require.Equal(r.t, goharborv1.StatusHealthy, r.known.Status.Status)
	report(no, yes, 1)
	r.awaitCondition(goharborv1.ServiceReady, no, "Busy")
	report(no, no, 1)
	r.untilIs(goharborv1.StatusHealthy)

	r.patch(r.object(harbor.Secret, r.credentials()), `{"data":{"password":null}}`)
	r.awaitCondition(goharborv1.ServiceReady, no, harbor.ReasonApplyFailed)
	require.Contains(r.t, harbor.ConditionOf(r.known.Status, goharborv1.ServiceReady).Message, r.credentials()+" has no password")
	require.Equal(r.t, harbor.ReasonApplyFailed, harbor.ConditionOf(r.known.Status, goharborv1.ConfigurationReady).Reason)
	r.patch(r.object(harbor.Secret, r.credentials()), `{"stringData":{"password":"made"}}`)
	r.untilIs(goharborv1.StatusHealthy)
}

// configurationRows: ConfigurationReady shows for each generation whether it is applied, independent of the state of the services.
func configurationRows(r *registry) {
	r.awaitCondition(goharborv1.ConfigurationReady, yes, harbor.ReasonApplied)
	r.reports(harbor.Postgresql, r.postgres(), `{"PostgresClusterStatus":"Updating"}`)
	r.awaitCondition(goharborv1.DatabaseReady, no, "Updating")
	r.patch(r.harborCluster(), `{"spec":{"version":"2.6.0"}}`)
	r.awaitCondition(goharborv1.ConfigurationReady, unknown, harbor.ReasonNotApplied)
	r.reports(harbor.Postgresql, r.postgres(), `{"PostgresClusterStatus":"Running"}`)
	r.awaitCondition(goharborv1.ConfigurationReady, yes, harbor.ReasonApplied)
	r.awaitCondition(goharborv1.ServiceReady, unknown, harbor.ReasonGenerationNotObserved)
	require.Equal(r.t, goharborv1.StatusCreating, r.known.Status.Status, "the condition does not affect the status")
	require.Equal(r.t, int64(2), harbor.ConditionOf(r.known.Status, goharborv1.ConfigurationReady).ObservedGeneration)
}

func harborIsLate(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "expose:\n    core:", "progressDeadlineSeconds: 2\n  expose:\n    core:")
	for kind, name := range map[operators.Kind]string{operators.Postgresql: r.postgres(), operators.RedisFailover: "main-redis", operators.Tenant: "minio-main"} {
		simulated.Simulate(kind, r.ref.Namespace, name, operators.Behaviour{After: -1})
	}
	for _, kind := range []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady} {
		r.awaitCondition(kind, no, harbor.ReasonProgressDeadlineExceeded)
	}
	require.Equal(t, goharborv1.StatusUnhealthy, r.known.Status.Status)
	simulated.Simulate(operators.RedisFailover, r.ref.Namespace, "main-redis", operators.Behaviour{})
	r.awaitCondition(goharborv1.CacheReady, yes, harbor.ReasonReady)
}

func harborWithoutOperators(t *testing.T, simulated *operators.Operators) {
	t.Parallel()
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.SpokeName))
	grantHarbor(t, activitytest.TestCluster(t), namespace)
	source, err := kube.FromClustersFile(filepath.Join(activitytest.Stack.Dir, "clusters.yaml"))
	require.NoError(t, err)
	r := &registry{t: t, cluster: activitytest.TestCluster(t), clusters: kube.New(source, kube.Options{SafetyInterval: 500 * time.Millisecond}), operators: simulated}
	t.Cleanup(r.clusters.Close)
	r.known.Applied = map[harbor.Part]harbor.Applied{}
	object := harborCluster(t, namespace)
	result, err := r.harbor().ApplyHarborCluster(t.Context(), ApplyClusterInput{Cluster: activitytest.SpokeName, Object: *object})
	require.NoError(t, err)
	r.ref = result.Ref
	for _, kind := range []goharborv1.ConditionType{goharborv1.CacheReady, goharborv1.StorageReady, goharborv1.ServiceReady, goharborv1.ConfigurationReady} {
		r.awaitCondition(kind, no, harbor.ReasonCRDMissing)
	}
	missing := r.untilReason(goharborv1.DatabaseReady, harbor.ReasonCRDMissing)
	require.Equal(t, "the cluster does not serve postgresql of acid.zalan.do/v1: install its operator", missing.Message)
	require.Equal(t, goharborv1.StatusUnhealthy, r.known.Status.Status)
	require.Empty(t, r.order, "there is no object to apply to")

	require.NoError(t, activitytest.Stack.Cluster(activitytest.SpokeName).InstallCRDs("deploy/crds/testing/databases.spotahome.com_redisfailovers.yaml"))
	r.awaitCondition(goharborv1.CacheReady, unknown, harbor.ReasonNotFound) // the simulated operator does nothing
	require.Equal(t, []harbor.Part{harbor.PartCache}, slices.Compact(r.order), "other missing operators do not block it; a new kind may be refused at first")
	require.NoError(t, r.harbor().RemoveHarborFinalizer(t.Context(), RemoveFinalizerInput{Ref: r.ref}))
}

package harbor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

var (
	created = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	now     = created.Add(time.Minute)
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func reporting(kind, name string, status map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "status": status}}
	object.SetName(name)
	object.SetGeneration(2)
	object.SetCreationTimestamp(metav1.NewTime(created))
	return object
}

func harborWith(conditions ...map[string]any) *unstructured.Unstructured {
	list := []any{}
	for _, condition := range conditions {
		list = append(list, condition)
	}
	return reporting("Harbor", "main-harbor", map[string]any{"conditions": list})
}

func said(kind string, status metav1.ConditionStatus) map[string]any {
	return map[string]any{"type": kind, "status": string(status), "reason": kind + "Because", "message": "so"}
}

func saidBefore(kind string, status metav1.ConditionStatus) map[string]any {
	condition := said(kind, status)
	condition["observedGeneration"] = int64(1)
	return condition
}

func finished(kind batchv1.JobConditionType) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "minio-main"},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "no"}}},
	}
}

func tenant(state string, available int64, pool string) *unstructured.Unstructured {
	return reporting("Tenant", "minio-main", map[string]any{
		"currentState": state, "availableReplicas": available, "pools": []any{map[string]any{"ssName": "minio-main-zone-harbor", "state": pool}},
	})
}

// up are the objects of a HarborCluster that is well.
func up() harbor.Observed {
	three := new(int32(3))
	return harbor.Observed{
		Postgresql:    reporting("postgresql", "postgresql-registry-main", map[string]any{"PostgresClusterStatus": "Running"}),
		RedisFailover: reporting("RedisFailover", "main-redis", nil),
		RedisServers:  &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "rfr-main-redis"}, Spec: appsv1.StatefulSetSpec{Replicas: three}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 3}},
		Sentinels:     &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "rfs-main-redis"}, Spec: appsv1.DeploymentSpec{Replicas: three}, Status: appsv1.DeploymentStatus{ReadyReplicas: 3}},
		Tenant:        tenant("Initialized", 2, "PoolInitialized"),
		BucketJob:     finished(batchv1.JobComplete),
		Harbor:        harborWith(said("Failed", no), said("InProgress", no)),
		Secrets:       map[string]bool{"harbor.postgresql-registry-main.credentials": true},
	}
}

// remembers lets the status of a HarborCluster say that a service is, or was, ready.
func remembers(hc *goharborv1.HarborCluster, kind goharborv1.ConditionType, status metav1.ConditionStatus, since time.Time, wasReady bool) {
	at := metav1.NewTime(since)
	condition := goharborv1.HarborClusterCondition{Type: kind, Status: status, LastTransitionTime: &at}
	if wasReady {
		condition.FirstReadyTime = &at
	}
	hc.Status.Conditions = append(hc.Status.Conditions, condition)
}

func conditionOf(t *testing.T, evaluation harbor.Evaluation, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	t.Helper()
	for _, condition := range evaluation.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	require.Fail(t, "no condition "+string(kind))
	return goharborv1.HarborClusterCondition{}
}

func TestAReadyHarborClusterIsHealthy(t *testing.T) {
	hc := read(t, "incluster.yaml")
	got := harbor.Evaluate(hc, up(), now)
	require.Equal(t, goharborv1.StatusHealthy, got.Status)
	require.True(t, got.ApplyHarbor)
	require.Len(t, got.Conditions, 4)
	for _, condition := range got.Conditions {
		require.Equal(t, int64(3), condition.ObservedGeneration)
		require.Equal(t, now, condition.FirstReadyTime.Time)
	}
	hc.Status.Conditions = got.Conditions
	require.Equal(t, got, harbor.Evaluate(hc, up(), now.Add(time.Hour)), "nothing changes by looking again")
}

// TestTheConditionsOfEachService takes one thing away from what is up, and says what becomes of its service: new, too late, and after it was ready.
func TestTheConditionsOfEachService(t *testing.T) {
	postgres := func(status string) func(*harbor.Observed) {
		return func(o *harbor.Observed) {
			o.Postgresql = reporting("postgresql", "postgresql-registry-main", map[string]any{"PostgresClusterStatus": status})
		}
	}
	const db, cache, storage = goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady
	for _, test := range []struct {
		name, reason string
		kind         goharborv1.ConditionType
		// failed: it will not become ready by itself.
		failed bool
		change func(*harbor.Observed)
	}{
		{name: "no postgresql", kind: db, reason: "NotFound", change: func(o *harbor.Observed) { o.Postgresql = nil }},
		{name: "a postgresql without a status", kind: db, reason: "NotReported", change: postgres("")},
		{name: "a postgresql that is created", kind: db, reason: "Creating", change: postgres("Creating")},
		{name: "a postgresql that is updated", kind: db, reason: "Updating", change: postgres("Updating")},
		{name: "a postgresql that could not be created", kind: db, reason: "CreateFailed", failed: true, change: postgres("CreateFailed")},
		{name: "a postgresql that could not be updated", kind: db, reason: "UpdateFailed", failed: true, change: postgres("UpdateFailed")},
		{name: "a postgresql that could not be synced", kind: db, reason: "SyncFailed", failed: true, change: postgres("SyncFailed")},
		{name: "a postgresql whose spec is wrong", kind: db, reason: "Invalid", failed: true, change: postgres("Invalid")},
		{name: "a postgresql without its Secret", kind: db, reason: "SecretMissing", change: func(o *harbor.Observed) { o.Secrets = nil }},
		{name: "a postgresql whose change is not seen", kind: db, reason: "GenerationNotObserved", change: func(o *harbor.Observed) {
			o.Postgresql.Object["status"].(map[string]any)["observedGeneration"] = int64(1)
		}},
		{name: "no RedisFailover", kind: cache, reason: "NotFound", change: func(o *harbor.Observed) { o.RedisFailover = nil }},
		{name: "no servers", kind: cache, reason: "NotFound", change: func(o *harbor.Observed) { o.RedisServers = nil }},
		{name: "no sentinels", kind: cache, reason: "NotFound", change: func(o *harbor.Observed) { o.Sentinels = nil }},
		{name: "a server is not ready", kind: cache, reason: "ReplicasNotReady", change: func(o *harbor.Observed) { o.RedisServers.Status.ReadyReplicas = 2 }},
		{name: "a sentinel is not ready", kind: cache, reason: "ReplicasNotReady", change: func(o *harbor.Observed) { o.Sentinels.Status.ReadyReplicas = 2 }},
		{name: "servers whose change is not seen", kind: cache, reason: "GenerationNotObserved", change: func(o *harbor.Observed) { o.RedisServers.Generation = 1 }},
		{name: "servers that are not scaled yet", kind: cache, reason: "ReplicasNotReady", change: func(o *harbor.Observed) {
			o.RedisFailover.Object["spec"] = map[string]any{"redis": map[string]any{"replicas": int64(5)}}
		}},
		{name: "no Tenant", kind: storage, reason: "NotFound", change: func(o *harbor.Observed) { o.Tenant = nil }},
		{name: "a Tenant without a status", kind: storage, reason: "NotReported", change: func(o *harbor.Observed) { o.Tenant.Object["status"] = nil }},
		{name: "a Tenant that is provisioned", kind: storage, reason: "PoolNotInitialized", change: func(o *harbor.Observed) { o.Tenant = tenant("Provisioning", 2, "PoolInitialized") }},
		{name: "a Tenant with a replica missing", kind: storage, reason: "ReplicasNotReady", change: func(o *harbor.Observed) { o.Tenant = tenant("Initialized", 1, "PoolInitialized") }},
		{name: "a Tenant whose pool is new", kind: storage, reason: "PoolNotInitialized", change: func(o *harbor.Observed) { o.Tenant = tenant("Initialized", 2, "PoolCreated") }},
		{name: "no Job", kind: storage, reason: "BucketJobNotComplete", change: func(o *harbor.Observed) { o.BucketJob = nil }},
		{name: "a Job at work", kind: storage, reason: "BucketJobNotComplete", change: func(o *harbor.Observed) { o.BucketJob.Status = batchv1.JobStatus{} }},
		{name: "a Job that failed", kind: storage, reason: "BucketJobFailed", failed: true, change: func(o *harbor.Observed) { o.BucketJob = finished(batchv1.JobFailed) }},
		{name: "an apply that failed", kind: storage, reason: "ApplyFailed", failed: true, change: func(o *harbor.Observed) {
			o.Failures = map[goharborv1.ConditionType]harbor.Failure{storage: {Reason: harbor.ReasonApplyFailed, Message: "denied"}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			observed := up()
			test.change(&observed)
			hc := read(t, "incluster.yaml")
			hc.CreationTimestamp = metav1.NewTime(created)

			fresh := harbor.Evaluate(hc, observed, now)
			condition := conditionOf(t, fresh, test.kind)
			want := map[bool]metav1.ConditionStatus{false: unknown, true: no}[test.failed]
			require.Equal(t, want, condition.Status)
			require.Equal(t, test.reason, condition.Reason)
			require.False(t, fresh.ApplyHarbor)
			require.Nil(t, condition.FirstReadyTime)

			late := conditionOf(t, harbor.Evaluate(hc, observed, created.Add(15*time.Minute)), test.kind)
			require.Equal(t, no, late.Status)
			if !test.failed {
				require.Equal(t, harbor.ReasonProgressDeadlineExceeded, late.Reason)
				require.Equal(t, unknown, conditionOf(t, harbor.Evaluate(hc, observed, created.Add(15*time.Minute-1)), test.kind).Status)
			}

			remembers(hc, test.kind, yes, created, false)
			fallen := harbor.Evaluate(hc, observed, now)
			require.Equal(t, no, conditionOf(t, fallen, test.kind).Status)
			require.Equal(t, goharborv1.StatusUnhealthy, fallen.Status)
			hc.Status.Conditions = fallen.Conditions
			require.Equal(t, no, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(time.Minute)), test.kind).Status, "that it was ready is remembered")
			require.Equal(t, yes, conditionOf(t, harbor.Evaluate(hc, up(), now.Add(time.Hour)), test.kind).Status, "and it may come back")
		})
	}
}

func TestHarborIsEvaluatedByItsConditions(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		harbor       *unstructured.Unstructured
		first, later metav1.ConditionStatus
	}{
		{"it is up", "Ready", harborWith(said("Failed", no), said("InProgress", no)), yes, yes},
		{"one condition is enough", "Ready", harborWith(said("Failed", no)), yes, yes},
		{"it says nothing", "NotReported", harborWith(said("Applied", yes)), unknown, unknown},
		{"it failed", "FailedBecause", harborWith(said("Failed", yes), said("InProgress", no)), no, no},
		{"that it failed comes first", "FailedBecause", harborWith(said("InProgress", yes), said("Failed", yes)), no, no},
		{"it is in progress", "InProgressBecause", harborWith(said("Failed", no), said("InProgress", yes)), unknown, no},
		{"it was well before the last change", "GenerationNotObserved", harborWith(saidBefore("Failed", no), saidBefore("InProgress", no)), unknown, unknown},
		{"it had failed before the last change", "GenerationNotObserved", harborWith(saidBefore("Failed", yes), said("InProgress", no)), unknown, unknown},
		{"it does not know", "NotReported", harborWith(said("Failed", unknown), said("InProgress", no)), unknown, unknown},
		{"it is not there", "NotFound", nil, unknown, no},
	} {
		t.Run(test.name, func(t *testing.T) {
			hc, observed := read(t, "incluster.yaml"), up()
			observed.Harbor = test.harbor
			condition := conditionOf(t, harbor.Evaluate(hc, observed, now), goharborv1.ServiceReady)
			require.Equal(t, test.first, condition.Status)
			require.Equal(t, test.reason, condition.Reason)
			remembers(hc, goharborv1.ServiceReady, yes, created, true)
			require.Equal(t, test.later, conditionOf(t, harbor.Evaluate(hc, observed, now), goharborv1.ServiceReady).Status)
		})
	}
}

func TestHarborIsEvaluatedEvenIfItMayNotBeApplied(t *testing.T) {
	observed := up()
	observed.Postgresql = nil
	got := harbor.Evaluate(read(t, "incluster.yaml"), observed, now)
	require.False(t, got.ApplyHarbor)
	require.Equal(t, yes, conditionOf(t, got, goharborv1.ServiceReady).Status)
	require.Equal(t, goharborv1.StatusCreating, got.Status)
}

func TestTheDeadlineCountsFromTheStartOfTheService(t *testing.T) {
	observed := up()
	observed.RedisServers = nil
	hc := read(t, "incluster.yaml", "version: 2.5.0", "version: 2.5.0\n  progressDeadlineSeconds: 60")
	require.Equal(t, no, conditionOf(t, harbor.Evaluate(hc, observed, now), goharborv1.CacheReady).Status, "a minute after the object was created")
	remembers(hc, goharborv1.CacheReady, unknown, now, false)
	require.Equal(t, unknown, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(59*time.Second)), goharborv1.CacheReady).Status)
	require.Equal(t, no, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(time.Minute)), goharborv1.CacheReady).Status)
}

func TestATimedOutServiceStaysSoUntilItStartsAgain(t *testing.T) {
	observed := up()
	observed.RedisServers = nil
	observed.RedisFailover.SetCreationTimestamp(metav1.NewTime(created.Add(5 * time.Second))) // it was looked for before
	hc := read(t, "incluster.yaml")
	remembers(hc, goharborv1.CacheReady, unknown, created, false)
	ranOut := created.Add(15 * time.Minute)
	late := harbor.Evaluate(hc, observed, ranOut)
	require.Equal(t, harbor.ReasonProgressDeadlineExceeded, conditionOf(t, late, goharborv1.CacheReady).Reason)
	hc.Status.Conditions = late.Conditions
	look := func(after time.Duration) goharborv1.HarborClusterCondition {
		return conditionOf(t, harbor.Evaluate(hc, observed, ranOut.Add(after)), goharborv1.CacheReady)
	}
	require.Equal(t, conditionOf(t, late, goharborv1.CacheReady), look(100*time.Millisecond), "looking again takes nothing back")
	require.Equal(t, goharborv1.StatusUnhealthy, harbor.Evaluate(hc, observed, ranOut.Add(time.Hour)).Status)

	redis := observed.RedisFailover
	observed.RedisFailover = nil
	require.Equal(t, no, look(time.Minute).Status, "nor does it help that it is gone")
	observed.RedisFailover = redis.DeepCopy()
	observed.RedisFailover.SetCreationTimestamp(metav1.NewTime(ranOut.Add(time.Minute)))
	require.Equal(t, unknown, look(time.Minute).Status, "made anew, it may take as long again")
	require.Equal(t, no, look(16*time.Minute).Status)

	observed.RedisFailover = redis
	hc.Spec.ProgressDeadlineSeconds = new(int32(3600))
	hc.Generation++
	require.Equal(t, unknown, look(time.Minute).Status, "it is given more time")
	require.Equal(t, no, look(time.Hour).Status)
}

func TestTheBucketIsCreatedOnceMinIOIsReady(t *testing.T) {
	hc, observed := read(t, "incluster.yaml"), up()
	require.False(t, harbor.Evaluate(hc, observed, now).MakeBucket, "it is made")
	observed.BucketJob = nil
	require.True(t, harbor.Evaluate(hc, observed, now).MakeBucket)
	observed.Tenant = tenant("Provisioning", 0, "PoolCreated")
	require.False(t, harbor.Evaluate(hc, observed, now).MakeBucket)
}

func TestAnExternalServiceNeedsItsSettingsAndSecrets(t *testing.T) {
	all := map[string]bool{"db": true, "redis": true, "s3": true}
	got := harbor.Evaluate(read(t, "external.yaml"), harbor.Observed{Secrets: all}, now)
	require.True(t, got.ApplyHarbor)
	for _, condition := range got.Conditions[:3] {
		require.Equal(t, yes, condition.Status)
		require.Equal(t, harbor.ReasonExternal, condition.Reason)
	}
	got = harbor.Evaluate(read(t, "external.yaml"), harbor.Observed{}, now)
	for i, message := range []string{
		"there is no Secret db, which spec.database.spec.postgresql names", "there is no Secret redis, which spec.cache.spec.redis names",
		"there is no Secret s3, which spec.storage.spec.s3 names",
	} {
		require.Equal(t, unknown, got.Conditions[i].Status)
		require.Equal(t, message, got.Conditions[i].Message)
	}
	require.Equal(t, goharborv1.StatusCreating, got.Status)

	hc := read(t, "external.yaml", "hosts: [{host: db.example, port: 5432}], ", "", "host: redis.example, ", "", "region: eu-1, bucket: images, ", "")
	got = harbor.Evaluate(hc, harbor.Observed{Secrets: all}, now)
	require.Equal(t, "must be set: spec.database.spec.postgresql.hosts", got.Conditions[0].Message)
	require.Equal(t, "must be set: spec.cache.spec.redis.host", got.Conditions[1].Message)
	require.Equal(t, "must be set: spec.storage.spec.s3.region, spec.storage.spec.s3.bucket", got.Conditions[2].Message)
	require.Equal(t, goharborv1.StatusUnhealthy, got.Status)
}

func TestAServiceOfUnknownKindIsReported(t *testing.T) {
	hc := read(t, "external.yaml")
	hc.Spec.Database.Kind, hc.Spec.Cache.Kind, hc.Spec.Storage.Kind = "MySQL", "Valkey", "Ceph"
	got := harbor.Evaluate(hc, harbor.Observed{Secrets: map[string]bool{"db": true, "redis": true, "s3": true}}, now)
	for i, message := range []string{
		`spec.database.kind: "MySQL" is not a known kind of database`, `spec.cache.kind: "Valkey" is not a known kind of cache`,
		`spec.storage.kind: "Ceph" is not a known kind of storage`,
	} {
		require.Equal(t, no, got.Conditions[i].Status)
		require.Equal(t, message, got.Conditions[i].Message)
	}
	require.Equal(t, goharborv1.StatusUnhealthy, got.Status)
}

func TestEachKindOfExternalStorageHasItsOwnSettings(t *testing.T) {
	for kind, test := range map[string]struct{ settings, driver, secret string }{
		"Swift":      {"swift: {authurl: 'https://auth', username: u, passwordRef: pw, container: c}", "swift", "pw"},
		"FileSystem": {"fileSystem: {registryPersistentVolume: {claimName: images}}", "filesystem", ""},
		"Azure":      {"azure: {accountname: a, accountkeyRef: pw, container: c}", "azure", "pw"},
		"Gcs":        {"gcs: {bucket: b, keyDataRef: pw}", "gcs", "pw"},
		"Oss":        {"oss: {region: oss-1, bucket: b, accessKeyID: k, accessSecretRef: pw}", "oss", "pw"},
	} {
		t.Run(kind, func(t *testing.T) {
			hc := read(t, "external.yaml", "kind: S3", "kind: "+kind, "s3: {region: eu-1, bucket: images, accesskey: key, secretkeyRef: s3}", test.settings)
			got := harbor.Evaluate(hc, harbor.Observed{Secrets: map[string]bool{test.secret: true}}, now)
			require.Equal(t, yes, conditionOf(t, got, goharborv1.StorageReady).Status)
			if test.secret != "" {
				require.Equal(t, unknown, conditionOf(t, harbor.Evaluate(hc, harbor.Observed{}, now), goharborv1.StorageReady).Status)
			}
			objects, err := harbor.Service(hc, harbor.Values{})
			require.NoError(t, err)
			settings, found, _ := unstructured.NestedMap(objects[0].Object, "spec", "imageChartStorage", test.driver)
			require.True(t, found)
			require.NotEmpty(t, settings)
		})
	}
}

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

func reported(kind string, status metav1.ConditionStatus) map[string]any {
	return map[string]any{"type": kind, "status": string(status), "reason": kind + "Because", "message": "so"}
}

func reportedEarlier(kind string, status metav1.ConditionStatus) map[string]any {
	condition := reported(kind, status)
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

// up returns the objects of a healthy HarborCluster.
func up() harbor.Observed {
	three := new(int32(3))
	return harbor.Observed{
		Postgresql:    reporting("postgresql", "postgresql-registry-main", map[string]any{"PostgresClusterStatus": "Running"}),
		RedisFailover: reporting("RedisFailover", "main-redis", nil),
		RedisServers:  &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "rfr-main-redis"}, Spec: appsv1.StatefulSetSpec{Replicas: three}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 3}},
		Sentinels:     &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "rfs-main-redis"}, Spec: appsv1.DeploymentSpec{Replicas: three}, Status: appsv1.DeploymentStatus{ReadyReplicas: 3}},
		Tenant:        tenant("Initialized", 2, "PoolInitialized"),
		BucketJob:     finished(batchv1.JobComplete),
		Harbor:        harborWith(reported("Failed", no), reported("InProgress", no)),
		Secrets:       map[string]bool{"harbor.postgresql-registry-main.credentials": true},
	}
}

// setCondition adds a condition of a service to the status of a HarborCluster.
func setCondition(hc *goharborv1.HarborCluster, kind goharborv1.ConditionType, status metav1.ConditionStatus, since time.Time, wasReady bool) {
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
	require.Equal(t, got, harbor.Evaluate(hc, up(), now.Add(time.Hour)), "evaluating again changes nothing")
}

// Each case breaks one object, and checks the condition of its service: before the deadline, after it, and after the service was ready.
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
		// failed: the service will not become ready by itself.
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
		{name: "a running Job", kind: storage, reason: "BucketJobNotComplete", change: func(o *harbor.Observed) { o.BucketJob.Status = batchv1.JobStatus{} }},
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

			setCondition(hc, test.kind, yes, created, false)
			fallen := harbor.Evaluate(hc, observed, now)
			require.Equal(t, no, conditionOf(t, fallen, test.kind).Status)
			require.Equal(t, goharborv1.StatusUnhealthy, fallen.Status)
			hc.Status.Conditions = fallen.Conditions
			require.Equal(t, no, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(time.Minute)), test.kind).Status, "the status remembers that the service was ready")
			require.Equal(t, yes, conditionOf(t, harbor.Evaluate(hc, up(), now.Add(time.Hour)), test.kind).Status, "the service may recover")
		})
	}
}

func TestHarborIsEvaluatedByItsConditions(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		harbor       *unstructured.Unstructured
		first, later metav1.ConditionStatus
	}{
		{"no failure and no progress", "Ready", harborWith(reported("Failed", no), reported("InProgress", no)), yes, yes},
		{"only Failed is reported", "Ready", harborWith(reported("Failed", no)), yes, yes},
		{"neither condition is reported", "NotReported", harborWith(reported("Applied", yes)), unknown, unknown},
		{"a failure", "FailedBecause", harborWith(reported("Failed", yes), reported("InProgress", no)), no, no},
		{"a failure overrides progress", "FailedBecause", harborWith(reported("InProgress", yes), reported("Failed", yes)), no, no},
		{"progress", "InProgressBecause", harborWith(reported("Failed", no), reported("InProgress", yes)), unknown, no},
		{"ready before the last change", "GenerationNotObserved", harborWith(reportedEarlier("Failed", no), reportedEarlier("InProgress", no)), unknown, unknown},
		{"failed before the last change", "GenerationNotObserved", harborWith(reportedEarlier("Failed", yes), reported("InProgress", no)), unknown, unknown},
		{"Failed is Unknown", "NotReported", harborWith(reported("Failed", unknown), reported("InProgress", no)), unknown, unknown},
		{"no Harbor", "NotFound", nil, unknown, no},
	} {
		t.Run(test.name, func(t *testing.T) {
			hc, observed := read(t, "incluster.yaml"), up()
			observed.Harbor = test.harbor
			condition := conditionOf(t, harbor.Evaluate(hc, observed, now), goharborv1.ServiceReady)
			require.Equal(t, test.first, condition.Status)
			require.Equal(t, test.reason, condition.Reason)
			setCondition(hc, goharborv1.ServiceReady, yes, created, true)
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
	setCondition(hc, goharborv1.CacheReady, unknown, now, false)
	require.Equal(t, unknown, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(59*time.Second)), goharborv1.CacheReady).Status)
	require.Equal(t, no, conditionOf(t, harbor.Evaluate(hc, observed, now.Add(time.Minute)), goharborv1.CacheReady).Status)
}

func TestATimedOutServiceStaysUnhealthyUntilItStartsAgain(t *testing.T) {
	observed := up()
	observed.RedisServers = nil
	observed.RedisFailover.SetCreationTimestamp(metav1.NewTime(created.Add(5 * time.Second))) // the service started earlier
	hc := read(t, "incluster.yaml")
	setCondition(hc, goharborv1.CacheReady, unknown, created, false)
	deadline := created.Add(15 * time.Minute)
	late := harbor.Evaluate(hc, observed, deadline)
	require.Equal(t, harbor.ReasonProgressDeadlineExceeded, conditionOf(t, late, goharborv1.CacheReady).Reason)
	hc.Status.Conditions = late.Conditions
	cacheAfter := func(after time.Duration) goharborv1.HarborClusterCondition {
		return conditionOf(t, harbor.Evaluate(hc, observed, deadline.Add(after)), goharborv1.CacheReady)
	}
	require.Equal(t, conditionOf(t, late, goharborv1.CacheReady), cacheAfter(100*time.Millisecond), "a later evaluation keeps the condition")
	require.Equal(t, goharborv1.StatusUnhealthy, harbor.Evaluate(hc, observed, deadline.Add(time.Hour)).Status)

	redis := observed.RedisFailover
	observed.RedisFailover = nil
	require.Equal(t, no, cacheAfter(time.Minute).Status, "a deleted object does not reset it")
	observed.RedisFailover = redis.DeepCopy()
	observed.RedisFailover.SetCreationTimestamp(metav1.NewTime(deadline.Add(time.Minute)))
	require.Equal(t, unknown, cacheAfter(time.Minute).Status, "a new object restarts the deadline")
	require.Equal(t, no, cacheAfter(16*time.Minute).Status)

	observed.RedisFailover = redis
	hc.Spec.ProgressDeadlineSeconds = new(int32(3600))
	hc.Generation++
	require.Equal(t, unknown, cacheAfter(time.Minute).Status, "a longer deadline counts")
	require.Equal(t, no, cacheAfter(time.Hour).Status)
}

func TestTheBucketIsCreatedOnceMinIOIsReady(t *testing.T) {
	hc, observed := read(t, "incluster.yaml"), up()
	require.False(t, harbor.Evaluate(hc, observed, now).MakeBucket, "the Job exists")
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

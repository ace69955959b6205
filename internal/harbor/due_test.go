package harbor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

// managed is a HarborCluster in memory, whose due parts a test applies.
type managed struct {
	t       *testing.T
	hc      *goharborv1.HarborCluster
	seen    harbor.Seen
	applied map[harbor.Part]harbor.Applied
	now     time.Time
}

func newManaged(t *testing.T, observed harbor.Observed) *managed {
	if observed.Failures == nil {
		observed.Failures = map[goharborv1.ConditionType]harbor.Failure{}
	}
	return &managed{t: t, hc: read(t, "incluster.yaml"), seen: harbor.Seen{Observed: observed, Versions: map[string]string{}}, applied: map[harbor.Part]harbor.Applied{}, now: now}
}

// due returns the due parts, each with its reason, and the time until more are due; 0: never.
func (k *managed) due() (due map[harbor.Part]string, after time.Duration) {
	judged := harbor.Judge(k.hc, k.seen, k.applied, k.now)
	due = map[harbor.Part]string{}
	for _, d := range judged.Due {
		due[d.Part] = d.Why
	}
	if judged.Again != nil {
		after = judged.Again.Sub(k.now)
	}
	return due, after
}

// apply applies the due parts until none is due, each part as one object of its name.
func (k *managed) apply() {
	for {
		due := harbor.Judge(k.hc, k.seen, k.applied, k.now).Due
		if len(due) == 0 {
			return
		}
		for _, d := range due {
			k.seen.Versions[string(d.Part)] = "1"
			k.applied[d.Part] = harbor.Applied{Wanted: d.Wanted, Versions: map[string]string{string(d.Part): "1"}, At: k.now}
		}
	}
}

func TestTheServicesAreAppliedImmediatelyAndHarborWhenAllAreReady(t *testing.T) {
	k := newManaged(t, harbor.Observed{})
	due, after := k.due()
	require.Equal(t, map[harbor.Part]string{"database": "never applied", "cache": "never applied", "storage": "never applied"}, due)
	require.Zero(t, after)
	k.apply()
	due, _ = k.due()
	require.Empty(t, due)

	k.seen.Observed = up()
	k.seen.BucketJob = nil
	due, _ = k.due()
	require.Equal(t, map[harbor.Part]string{"bucket": "never applied"}, due)
	k.apply()
	k.seen.Observed = up()
	due, _ = k.due()
	require.Equal(t, map[harbor.Part]string{"harbor": "never applied"}, due)
	k.apply()
	due, after = k.due()
	require.Empty(t, due)
	require.Zero(t, after)
}

func TestAManualChangeIsRevertedAfterAPause(t *testing.T) {
	k := newManaged(t, up())
	k.apply()
	k.seen.Versions["cache"] = "2"
	due, after := k.due()
	require.Empty(t, due, "repeated changes are reverted only after a pause")
	require.Equal(t, 2*time.Second, after)
	k.now = k.now.Add(time.Minute)
	due, _ = k.due()
	require.Equal(t, map[harbor.Part]string{"cache": "cache was changed"}, due)
	delete(k.seen.Versions, "cache")
	due, _ = k.due()
	require.Equal(t, map[harbor.Part]string{"cache": "cache was changed"}, due)
}

func TestAChangedSpecIsAppliedImmediatelyAndOnlyWhereItMatters(t *testing.T) {
	k := newManaged(t, up())
	k.apply()
	*k.hc.Spec.Cache.Spec.RedisFailover.Server.Replicas = 2
	due, _ := k.due()
	require.Equal(t, map[harbor.Part]string{"cache": "the spec has changed"}, due)
	k.apply()
	k.hc.Spec.Version = "2.6.0"
	due, _ = k.due()
	require.Equal(t, map[harbor.Part]string{"harbor": "the spec has changed"}, due)

	k.seen.Harbor, k.seen.Tenant = nil, nil
	due, _ = k.due()
	require.Empty(t, due, "Harbor waits until its services are ready again")
}

func TestNoServiceIsReadyBeforeItsCurrentSpecIsApplied(t *testing.T) {
	k := newManaged(t, up())
	k.apply()
	require.Equal(t, goharborv1.StatusHealthy, harbor.Judge(k.hc, k.seen, k.applied, k.now).Status)
	*k.hc.Spec.Cache.Spec.RedisFailover.Server.Replicas = 2
	k.hc.Spec.Version = "2.6.0"
	changed := harbor.Judge(k.hc, k.seen, k.applied, k.now)
	require.Equal(t, goharborv1.StatusCreating, changed.Status)
	require.False(t, changed.ApplyHarbor, "Harbor is not applied together with its cache")
	for _, kind := range []goharborv1.ConditionType{goharborv1.CacheReady, goharborv1.ServiceReady} {
		condition := conditionOf(t, changed.Evaluation, kind)
		require.Equal(t, harbor.ReasonNotApplied, condition.Reason)
		require.Equal(t, "not applied yet: the spec has changed", condition.Message)
	}
	require.Equal(t, yes, conditionOf(t, changed.Evaluation, goharborv1.DatabaseReady).Status)
	k.apply()
	require.Equal(t, goharborv1.StatusHealthy, harbor.Judge(k.hc, k.seen, k.applied, k.now).Status)
}

func TestAFailureCountsUntilTheSpecChanges(t *testing.T) {
	k := newManaged(t, up())
	k.apply()
	for _, part := range []harbor.Part{harbor.PartCache, harbor.PartStorage, harbor.PartBucket} {
		failed := k.applied[part]
		failed.Failure = &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: "no " + string(part)}
		k.applied[part] = failed
	}
	judged := harbor.Judge(k.hc, k.seen, k.applied, k.now)
	require.Equal(t, "no cache", conditionOf(t, judged.Evaluation, goharborv1.CacheReady).Message)
	require.Equal(t, "no storage", conditionOf(t, judged.Evaluation, goharborv1.StorageReady).Message)
	require.Equal(t, []harbor.Part{harbor.PartBucket}, judged.Obsolete, "the Job is there")

	k.hc.Spec.Cache = read(t, "external.yaml").Spec.Cache
	k.seen.Secrets["redis"] = true
	judged = harbor.Judge(k.hc, k.seen, k.applied, k.now)
	require.Equal(t, yes, conditionOf(t, judged.Evaluation, goharborv1.CacheReady).Status)
	require.Equal(t, []harbor.Part{harbor.PartCache, harbor.PartBucket}, judged.Obsolete)
}

func TestConfigurationIsReadyWhenTheWholeSpecIsApplied(t *testing.T) {
	k := newManaged(t, harbor.Observed{})
	configurationReady := func() (metav1.ConditionStatus, string, string) {
		condition := conditionOf(t, harbor.Judge(k.hc, k.seen, k.applied, k.now).Evaluation, goharborv1.ConfigurationReady)
		require.Equal(t, k.hc.Generation, condition.ObservedGeneration)
		return condition.Status, condition.Reason, condition.Message
	}
	requireConfiguration := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		gotStatus, gotReason, gotMessage := configurationReady()
		require.Equal(t, []string{string(status), reason, message}, []string{string(gotStatus), gotReason, gotMessage})
	}
	requireConfiguration(unknown, harbor.ReasonNotApplied, "not applied yet: database, cache, storage, bucket, harbor")
	k.apply()
	requireConfiguration(unknown, harbor.ReasonNotApplied, "not applied yet: bucket, harbor")
	k.seen.Observed = up()
	k.apply()
	requireConfiguration(yes, harbor.ReasonApplied, "the whole spec is applied")
	k.seen.Tenant = tenant("Initialized", 1, "PoolInitialized")
	requireConfiguration(yes, harbor.ReasonApplied, "the whole spec is applied") // a service that is not ready does not matter
	k.hc.Spec.Version = "2.6.0"
	requireConfiguration(unknown, harbor.ReasonNotApplied, "not applied yet: harbor")

	failed := k.applied[harbor.PartCache]
	failed.Failure = &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: "another client owns it"}
	k.applied[harbor.PartCache] = failed
	requireConfiguration(no, harbor.ReasonApplyFailed, "cache: another client owns it")
	k.hc.Spec.Cache = read(t, "external.yaml").Spec.Cache
	requireConfiguration(unknown, harbor.ReasonNotApplied, "not applied yet: harbor") // an external cache is not applied

	k.seen.BucketJob = nil
	k.seen.Failures = map[goharborv1.ConditionType]harbor.Failure{goharborv1.StorageReady: {Reason: harbor.ReasonCRDMissing, Message: "no Tenants"}}
	requireConfiguration(no, harbor.ReasonCRDMissing, "storage: no Tenants")
}

func TestAHarborClusterIsPendingUntilItsChangeIsApplied(t *testing.T) {
	k := newManaged(t, harbor.Observed{})
	k.hc.Finalizers = []string{harbor.Finalizer}
	require.Equal(t, "generation 3: not observed yet; see `drydock harbor status main -n registry`", harbor.Pending(k.hc))
	pending := func() string {
		judged := harbor.Judge(k.hc, k.seen, k.applied, k.now)
		k.hc.Status = goharborv1.HarborClusterStatus{Status: judged.Status, ObservedGeneration: k.hc.Generation, Conditions: judged.Conditions}
		return harbor.Pending(k.hc)
	}
	require.Empty(t, pending(), "the first installation is in progress")
	k.apply()
	k.seen.Observed = up()
	k.apply()
	require.Empty(t, pending())
	k.hc.Spec.Version = "2.6.0"
	require.Contains(t, pending(), "generation 3: not applied yet: harbor; see")
	k.apply()
	require.Empty(t, pending())
	failed := k.applied[harbor.PartCache]
	failed.Failure = &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: "refused"}
	k.applied[harbor.PartCache] = failed
	require.Contains(t, pending(), "generation 3: cache: refused; see")
	k.hc.Finalizers = nil
	require.Empty(t, harbor.Pending(k.hc), "Drydock does not manage it, so its status may be old")
}

func TestAChangedPasswordAppliesHarborAgain(t *testing.T) {
	k := newManaged(t, up())
	k.seen.Versions["Secret/minio-main-creds"] = "1"
	k.apply()
	k.seen.Versions["Secret/minio-main-creds"] = "2"
	due, _ := k.due()
	require.Equal(t, map[harbor.Part]string{"harbor": "the spec has changed"}, due)
}

func TestAFailedPartIsRetriedWithBackoff(t *testing.T) {
	k := newManaged(t, up())
	k.apply()
	failed := k.applied[harbor.PartStorage]
	failed.Failure = &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: "no"}
	for failures, pause := range []time.Duration{2 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		failed.Failures = failures
		k.applied[harbor.PartStorage] = failed
		due, after := k.due()
		require.Empty(t, due)
		require.Equal(t, pause, after)
	}
	k.hc.Spec.Storage.Spec.MinIO.VolumesPerServer = 8
	due, _ := k.due()
	require.Equal(t, "the spec has changed", due[harbor.PartStorage], "a new spec is applied immediately")

	k.seen.Failures = map[goharborv1.ConditionType]harbor.Failure{goharborv1.StorageReady: {Reason: harbor.ReasonCRDMissing}}
	due, after := k.due()
	require.Empty(t, due, "its CRD is missing")
	require.Zero(t, after)
}

// jobOf is the incomplete Job that creates the bucket of a HarborCluster.
func jobOf(hc *goharborv1.HarborCluster) *batchv1.Job {
	made := harbor.BucketJob(hc)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: made.GetName(), UID: "old", Annotations: made.GetAnnotations()}}
	job.CreationTimestamp = metav1.NewTime(created.Add(time.Second))
	return job
}

func TestAnOutdatedBucketJobIsReplaced(t *testing.T) {
	k := newManaged(t, up())
	k.seen.BucketJob = jobOf(k.hc)
	k.apply()
	requireDue := func(why, message string) {
		t.Helper()
		judged := harbor.Judge(k.hc, k.seen, k.applied, k.now)
		require.Len(t, judged.Due, 1)
		require.Equal(t, harbor.Due{Part: harbor.PartBucket, Wanted: judged.Due[0].Wanted, Why: why, Replaces: "old"}, judged.Due[0])
		storage := conditionOf(t, judged.Evaluation, goharborv1.StorageReady)
		require.Equal(t, []string{string(unknown), harbor.ReasonBucketJobNotComplete, message}, []string{string(storage.Status), storage.Reason, storage.Message})
	}
	due, _ := k.due()
	require.Empty(t, due, "the Job matches the spec")
	k.hc.Spec.Storage.Spec.MinIO.Client = &goharborv1.Image{Image: "mirror.example/mc:1"}
	for _, end := range []batchv1.JobConditionType{"", batchv1.JobFailed} {
		k.seen.BucketJob.Status = finished(end).Status
		requireDue("never applied", "Job minio-main, which makes the bucket, does not match the current spec")
	}
	k.seen.BucketJob.Status = finished(batchv1.JobComplete).Status
	due, _ = k.due()
	require.NotContains(t, due, harbor.PartBucket, "a complete Job has created the bucket")

	k.seen.BucketJob = jobOf(k.hc)
	k.hc.Spec.Storage.Spec.MinIO.Client = nil
	k.seen.BucketJob.Annotations = nil
	due, _ = k.due()
	require.Empty(t, due, "the desired state of another client's Job is unknown")
}

func TestARecreatedTenantGetsANewBucket(t *testing.T) {
	k := newManaged(t, up())
	k.seen.BucketJob = jobOf(k.hc)
	k.seen.BucketJob.Status = finished(batchv1.JobComplete).Status
	k.apply()
	require.Equal(t, goharborv1.StatusHealthy, harbor.Judge(k.hc, k.seen, k.applied, k.now).Status)
	k.seen.Tenant.SetCreationTimestamp(metav1.NewTime(created.Add(2 * time.Second)))
	judged := harbor.Judge(k.hc, k.seen, k.applied, k.now)
	require.False(t, judged.ApplyHarbor)
	require.Equal(t, "Job minio-main, which makes the bucket, is older than Tenant minio-main", conditionOf(t, judged.Evaluation, goharborv1.StorageReady).Message)
	require.Equal(t, []harbor.Due{{Part: harbor.PartBucket, Wanted: judged.Due[0].Wanted, Why: "never applied", Replaces: "old"}}, judged.Due)

	// The watch shows the new Job late; meanwhile it is not applied again.
	k.applied[harbor.PartBucket] = harbor.Applied{Wanted: judged.Due[0].Wanted, At: k.now}
	judged = harbor.Judge(k.hc, k.seen, k.applied, k.now)
	require.Empty(t, judged.Due)
	require.True(t, judged.Drifted, "the API server must confirm the drift")
	k.seen.BucketJob.CreationTimestamp = metav1.NewTime(created.Add(2 * time.Second))
	require.Equal(t, goharborv1.StatusHealthy, harbor.Judge(k.hc, k.seen, k.applied, k.now).Status)
}

func TestAStartingServiceTimesOut(t *testing.T) {
	hc := read(t, "incluster.yaml")
	observed := up()
	observed.Tenant = tenant("Provisioning", 0, "PoolCreated")
	next := harbor.RecheckAt(hc, observed, harbor.Evaluate(hc, observed, now), now)
	require.NotNil(t, next)
	require.Equal(t, created.Add(15*time.Minute), next.UTC())
	late := harbor.Evaluate(hc, observed, *next)
	require.Equal(t, harbor.ReasonProgressDeadlineExceeded, conditionOf(t, late, goharborv1.StorageReady).Reason)
	require.Nil(t, harbor.RecheckAt(hc, observed, late, *next))
	require.Nil(t, harbor.RecheckAt(hc, up(), harbor.Evaluate(hc, up(), now), now))
}

func TestKeepingDataRemovesOnlyStatelessParts(t *testing.T) {
	hc := read(t, "incluster.yaml")
	parts := []harbor.Part{harbor.PartHarbor, harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}
	removed := func() (kinds, secrets []string, claims []map[string]string) {
		for _, part := range parts {
			removal := harbor.RemovalOf(hc, part)
			for _, object := range removal.Objects {
				kinds = append(kinds, object.Kind.Kind)
			}
			secrets = append(secrets, removal.Secrets...)
			if removal.Claims != nil {
				claims = append(claims, removal.Claims)
			}
		}
		return kinds, secrets, claims
	}
	kinds, secrets, claims := removed()
	require.Equal(t, []string{"Harbor", "Job", "Ingress"}, kinds)
	require.Equal(t, []string{"main-database-password", "minio-main"}, secrets)
	require.Empty(t, claims)

	hc.Spec.DeletionPolicy = goharborv1.DeleteData
	kinds, secrets, claims = removed()
	require.Equal(t, []string{"Harbor", "postgresql", "RedisFailover", "Job", "Ingress", "Tenant"}, kinds)
	require.Equal(t, []string{"main-database-password", "minio-main", "main-redis", "minio-main-creds", "minio-main-configuration"}, secrets)
	require.Equal(t, []map[string]string{
		{"cluster-name": "postgresql-registry-main"},
		{"app.kubernetes.io/name": "main-redis", "app.kubernetes.io/component": "redis", "app.kubernetes.io/part-of": "redis-failover"},
		{"v1.min.io/tenant": "minio-main"},
	}, claims, "the labels of the operators")

	external := read(t, "external.yaml", "deletionPolicy: Retain", "deletionPolicy: Delete")
	external.Spec.DeletionPolicy = goharborv1.DeleteData
	for _, part := range parts[1:] {
		require.Empty(t, harbor.RemovalOf(external, part))
	}
}

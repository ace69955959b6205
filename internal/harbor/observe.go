package harbor

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Observed are the objects of a HarborCluster; nil: the object does not exist.
type Observed struct {
	Postgresql    *unstructured.Unstructured
	RedisFailover *unstructured.Unstructured
	RedisServers  *appsv1.StatefulSet
	Sentinels     *appsv1.Deployment
	Tenant        *unstructured.Unstructured
	BucketJob     *batchv1.Job
	Harbor        *unstructured.Unstructured
	// Secrets that exist in the namespace, by name.
	Secrets map[string]bool
	// Failures are why objects could not be applied or read, by condition.
	Failures map[goharborv1.ConditionType]Failure
	// Unapplied are why objects do not match the current desired state, by condition.
	Unapplied map[goharborv1.ConditionType]string
}

// Failure is why an object could not be applied or read: an error, or its CRD is missing.
type Failure struct{ Reason, Message string }

// Reasons of conditions.
const (
	ReasonReady                    = "Ready"
	ReasonExternal                 = "External"
	ReasonNotFound                 = "NotFound"
	ReasonSecretMissing            = "SecretMissing"
	ReasonSettingsMissing          = "SettingsMissing"
	ReasonKindUnknown              = "KindUnknown"
	ReasonCRDMissing               = "CRDMissing"
	ReasonApplied                  = "Applied"
	ReasonApplyFailed              = "ApplyFailed"
	ReasonNotApplied               = "NotApplied"
	ReasonGenerationNotObserved    = "GenerationNotObserved"
	ReasonNotReported              = "NotReported"
	ReasonReplicasNotReady         = "ReplicasNotReady"
	ReasonPoolNotInitialized       = "PoolNotInitialized"
	ReasonBucketJobNotComplete     = "BucketJobNotComplete"
	ReasonBucketJobFailed          = "BucketJobFailed"
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// state is the current state of a service's objects, without history.
type state int

const (
	// pending: not ready, and it may become ready by itself.
	pending state = iota
	ready
	// failed: not ready, and it will not become ready by itself.
	failed
	// unapplied: ready, but not with the current desired state.
	unapplied
)

type observation struct {
	state           state
	reason, message string
}

func waiting(reason, format string, values ...any) observation {
	return observation{state: pending, reason: reason, message: fmt.Sprintf(format, values...)}
}

// unknownKind: the service has an unknown kind, so its health is unknown.
func unknownKind[K ~string](service string, kind K) observation {
	return observation{state: failed, reason: ReasonKindUnknown, message: fmt.Sprintf("spec.%s.kind: %q is not a known kind of %s", service, kind, service)}
}

func observeDatabase(hc *goharborv1.HarborCluster, o Observed) observation {
	switch kind := hc.Spec.Database.Kind; kind {
	case goharborv1.ZalandoPostgreSQL:
	case goharborv1.ExternalPostgreSQL:
		return externalDatabase(hc).observe(o.Secrets)
	default:
		return unknownKind("database", kind)
	}
	if o.Postgresql == nil {
		return waiting(ReasonNotFound, "there is no postgresql %s/%s", hc.Namespace, postgresName(hc))
	}
	if stale, is := notObserved(o.Postgresql); is {
		return stale
	}
	status, _, _ := unstructured.NestedString(o.Postgresql.Object, "status", "PostgresClusterStatus")
	switch status {
	case "Running":
	case "":
		return waiting(ReasonNotReported, "postgresql %s has no status yet", o.Postgresql.GetName())
	case "CreateFailed", "UpdateFailed", "SyncFailed", "Invalid":
		return observation{state: failed, reason: status, message: fmt.Sprintf("postgresql %s is %s: see its events", o.Postgresql.GetName(), status)}
	default:
		return waiting(status, "postgresql %s is %s", o.Postgresql.GetName(), status)
	}
	names := operatorSecrets(o.Postgresql.GetName())
	if !slices.ContainsFunc(names, func(name string) bool { return o.Secrets[name] }) {
		return waiting(ReasonSecretMissing, "postgresql %s is Running, but there is no Secret %s", o.Postgresql.GetName(), names[0])
	}
	return observation{state: ready, reason: ReasonReady, message: fmt.Sprintf("postgresql %s is Running", o.Postgresql.GetName())}
}

// notObserved: an operator's report about an older generation does not count.
func notObserved(object *unstructured.Unstructured) (observation, bool) {
	observed, reported, _ := unstructured.NestedNumberAsFloat64(object.Object, "status", "observedGeneration")
	if !reported || int64(observed) >= object.GetGeneration() {
		return observation{}, false
	}
	return waiting(ReasonGenerationNotObserved, "generation %d of %s %s is not observed yet", object.GetGeneration(), object.GetKind(), object.GetName()), true
}

func observeCache(hc *goharborv1.HarborCluster, o Observed) observation {
	switch kind := hc.Spec.Cache.Kind; kind {
	case goharborv1.RedisFailover:
	case goharborv1.ExternalRedis:
		return externalCache(hc).observe(o.Secrets)
	default:
		return unknownKind("cache", kind)
	}
	if o.RedisFailover == nil {
		return waiting(ReasonNotFound, "there is no RedisFailover %s/%s", hc.Namespace, redisName(hc))
	}
	name := o.RedisFailover.GetName()
	if o.RedisServers == nil {
		return waiting(ReasonNotFound, "there is no StatefulSet rfr-%s of RedisFailover %s", name, name)
	}
	if o.Sentinels == nil {
		return waiting(ReasonNotFound, "there is no Deployment rfs-%s of RedisFailover %s", name, name)
	}
	servers, sentinels := o.RedisServers, o.Sentinels
	parts := []replicaSet{
		{"StatefulSet " + servers.Name, "redis", servers.Spec.Replicas, servers.Status.ReadyReplicas, servers.Generation, servers.Status.ObservedGeneration},
		{"Deployment " + sentinels.Name, "sentinel", sentinels.Spec.Replicas, sentinels.Status.ReadyReplicas, sentinels.Generation, sentinels.Status.ObservedGeneration},
	}
	for _, part := range parts {
		if not, is := part.notReady(o.RedisFailover); is {
			return not
		}
	}
	return observation{state: ready, reason: ReasonReady, message: fmt.Sprintf("all replicas of RedisFailover %s are ready", name)}
}

// replicaSet is one of the workloads of a RedisFailover.
type replicaSet struct {
	workload, part       string
	replicas             *int32
	ready                int32
	generation, observed int64
}

// notReady requires as many replicas as the workload and the RedisFailover ask for: its operator may not have scaled it yet.
func (r replicaSet) notReady(redis *unstructured.Unstructured) (observation, bool) {
	if r.observed < r.generation {
		return waiting(ReasonGenerationNotObserved, "generation %d of %s is not observed yet", r.generation, r.workload), true
	}
	asked, _, _ := unstructured.NestedNumberAsFloat64(redis.Object, "spec", r.part, "replicas")
	wanted := max(int64(asked), or(r.replicas, 1))
	if int64(r.ready) < wanted {
		return waiting(ReasonReplicasNotReady, "%d of %d replicas of %s are ready", r.ready, wanted, r.workload), true
	}
	return observation{}, false
}

func observeStorage(hc *goharborv1.HarborCluster, o Observed) observation {
	switch kind := hc.Spec.Storage.Kind; kind {
	case goharborv1.MinIO, goharborv1.S3, goharborv1.Swift, goharborv1.FileSystemStorage, goharborv1.Azure, goharborv1.Gcs, goharborv1.Oss:
	default:
		return unknownKind("storage", kind)
	}
	if minioOf(hc) == nil {
		return externalStorage(hc).observe(o.Secrets)
	}
	if tenant := observeTenant(hc, o.Tenant); tenant.state != ready {
		if job := observeBucketJob(hc, o); job.state == failed {
			return job
		}
		return tenant
	}
	return observeBucketJob(hc, o)
}

func observeTenant(hc *goharborv1.HarborCluster, tenant *unstructured.Unstructured) observation {
	if tenant == nil {
		return waiting(ReasonNotFound, "there is no Tenant %s/%s", hc.Namespace, minioName(hc))
	}
	if stale, is := notObserved(tenant); is {
		return stale
	}
	current, _, _ := unstructured.NestedString(tenant.Object, "status", "currentState")
	switch {
	case current == "":
		return waiting(ReasonNotReported, "Tenant %s has no status yet", tenant.GetName())
	case current != "Initialized":
		return waiting(ReasonPoolNotInitialized, "Tenant %s: %s", tenant.GetName(), current)
	}
	available, _, _ := unstructured.NestedNumberAsFloat64(tenant.Object, "status", "availableReplicas")
	if wanted := minioOf(hc).Replicas; int64(available) != int64(wanted) {
		return waiting(ReasonReplicasNotReady, "%d of %d replicas of Tenant %s are available", int64(available), wanted, tenant.GetName())
	}
	pools, _, _ := unstructured.NestedSlice(tenant.Object, "status", "pools")
	for _, pool := range pools {
		fields, _ := pool.(map[string]any)
		if fields["state"] != "PoolInitialized" {
			return waiting(ReasonPoolNotInitialized, "pool %v of Tenant %s is %v", fields["ssName"], tenant.GetName(), fields["state"])
		}
	}
	if len(pools) == 0 {
		return waiting(ReasonPoolNotInitialized, "Tenant %s reports no pool yet", tenant.GetName())
	}
	return observation{state: ready, reason: ReasonReady, message: fmt.Sprintf("Tenant %s is initialized", tenant.GetName())}
}

func observeBucketJob(hc *goharborv1.HarborCluster, o Observed) observation {
	job := o.BucketJob
	if job == nil {
		return waiting(ReasonBucketJobNotComplete, "there is no Job %s/%s yet, which makes the bucket", hc.Namespace, minioName(hc))
	}
	if why := outdatedJob(hc, o); why != "" {
		return waiting(ReasonBucketJobNotComplete, "Job %s, which makes the bucket, %s", job.Name, why)
	}
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return observation{state: ready, reason: ReasonReady, message: "the Tenant is initialized and the bucket is made"}
		case condition.Type == batchv1.JobFailed:
			return observation{
				state: failed, reason: ReasonBucketJobFailed,
				message: fmt.Sprintf("Job %s, which makes the bucket, failed: %s: %s; delete it to try again", job.Name, condition.Reason, condition.Message),
			}
		}
	}
	return waiting(ReasonBucketJobNotComplete, "Job %s, which makes the bucket, is not complete", job.Name)
}

package harbor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Part is a group of objects of a HarborCluster that are applied together.
type Part string

// The parts. The first three do not depend on each other.
const (
	PartDatabase Part = "database"
	PartCache    Part = "cache"
	PartStorage  Part = "storage"
	// PartBucket is the Job that creates the bucket. It is applied when the Tenant is ready.
	PartBucket Part = "bucket"
	// PartHarbor is Harbor itself. It is applied when database, cache and storage are ready.
	PartHarbor Part = "harbor"
)

// Condition is the condition type of the part.
func (p Part) Condition() goharborv1.ConditionType {
	switch p {
	case PartDatabase:
		return goharborv1.DatabaseReady
	case PartCache:
		return goharborv1.CacheReady
	case PartHarbor:
		return goharborv1.ServiceReady
	}
	return goharborv1.StorageReady
}

// Applied is the last application of a part.
type Applied struct {
	// Wanted identifies the desired state at that time.
	Wanted string `json:"wanted"`
	// Versions of the objects at that time, by kind and name.
	Versions map[string]string `json:"versions,omitempty"`
	At       time.Time         `json:"at"`
	// Failure is why it could not be applied; Failures is how often in a row.
	Failure  *Failure `json:"failure,omitempty"`
	Failures int      `json:"failures,omitempty"`
}

// Due is a part to apply.
type Due struct {
	Part   Part   `json:"part"`
	Wanted string `json:"wanted"`
	// Why it is due, for people.
	Why string `json:"why"`
	// Replaces is an object to delete first, because it is immutable.
	Replaces types.UID `json:"replaces,omitempty"`
}

// ReasonApplying: a part is being applied.
const ReasonApplying = "Applying"

const (
	// repairPause is the time between two applications of a part, which limits the conflict with a client that keeps changing it back.
	repairPause = 2 * time.Second
	// shortestPause and longestPause are the pauses after a part could not be applied.
	shortestPause = 2 * time.Second
	longestPause  = time.Minute
)

// Seen are the observed objects of a HarborCluster.
type Seen struct {
	Observed
	// Versions of the applied objects, by kind and name; missing objects have none.
	Versions map[string]string
}

// Judgement is the state of a managed HarborCluster, and the actions that are due.
type Judgement struct {
	Evaluation
	// Due are the parts to apply now; Again is when more will be due without a change; nil: never.
	Due   []Due
	Again *time.Time
	// Obsolete are parts whose failure no longer matters, because the desired state has changed.
	Obsolete []Part
	// Drifted: an applied object that is still desired differs. A client changed it, or the cache is stale.
	Drifted bool
}

// parts in the order in which their failures count: a condition has one.
var parts = []Part{PartDatabase, PartCache, PartStorage, PartBucket, PartHarbor}

// Judge evaluates a managed HarborCluster with the record of its applied parts. A service is not ready until its current desired state is applied: its
// operator reports about an earlier one.
func Judge(hc *goharborv1.HarborCluster, seen Seen, applied map[Part]Applied, now time.Time) Judgement {
	var j Judgement
	wanted := wantedParts(hc, seen)
	failures, unapplied := map[goharborv1.ConditionType]Failure{}, map[goharborv1.ConditionType]string{}
	maps.Copy(failures, seen.Failures)
	var whole configuration
	for _, part := range parts {
		was := applied[part]
		fingerprint, isWanted := wanted[part]
		current := isWanted && was.Wanted == fingerprint
		if _, worse := failures[part.Condition()]; was.Failure != nil && current && !worse {
			failures[part.Condition()] = *was.Failure
		}
		if was.Failure != nil && !current {
			j.Obsolete = append(j.Obsolete, part)
		}
		if current && was.Failure == nil && was.drift(part, seen.Versions) != "" {
			j.Drifted = true
		}
		if isWanted && !current && part != PartBucket {
			unapplied[part.Condition()] = neverOrChanged(was)
		}
		if isWanted {
			whole.add(part, was, current, seen.Failures[part.Condition()])
		}
	}
	seen.Failures, seen.Unapplied = failures, unapplied
	j.Evaluation = Evaluate(hc, seen.Observed, now)
	j.Conditions = append(j.Conditions, newJudge(hc, goharborv1.ConfigurationReady, now).configuration(whole))
	j.Due, j.Again = dueParts(seen, wanted, j.Evaluation, applied, now)
	return j
}

// wantedParts identifies the desired state of each part. It omits parts that the HarborCluster does not have, and parts that exist and are immutable.
func wantedParts(hc *goharborv1.HarborCluster, seen Seen) map[Part]string {
	wanted := map[Part]string{PartHarbor: serviceFingerprint(hc, seen)}
	for _, part := range []Part{PartDatabase, PartCache, PartStorage} {
		if manifest := ManifestOf(hc, part); len(manifest.Objects) > 0 {
			wanted[part] = fingerprint([]any{manifest.Objects, manifest.Credentials})
		}
	}
	if wantsBucket(hc, seen.Observed) {
		wanted[PartBucket] = fingerprint(BucketJob(hc).Object)
	}
	return wanted
}

// anyValues replace the values of Secrets where they do not matter.
var anyValues = Values{DatabasePassword: "-", AccessKey: "-", SecretKey: "-"}

// ServiceObjects identifies the objects of Harbor.
func ServiceObjects(hc *goharborv1.HarborCluster) []Object {
	made, _ := Service(hc, anyValues)
	var objects []Object
	for _, object := range made {
		objects = append(objects, Object{object.GroupVersionKind(), object.GetName()})
	}
	return objects
}

// serviceFingerprint identifies the desired Harbor by its inputs, including the Secrets.
func serviceFingerprint(hc *goharborv1.HarborCluster, seen Seen) string {
	objects, _ := Service(hc, anyValues) // the names of the Secrets matter
	var sources []string
	for _, name := range slices.Concat(SourceSecrets(hc)...) {
		if version := seen.Versions[VersionKey(Secret.Kind, name)]; version != "" {
			sources = append(sources, name+"="+version)
		}
	}
	return fingerprint([]any{objects, sources})
}

func fingerprint(made any) string {
	text, err := json.Marshal(made)
	if err != nil {
		panic(err) // objects from an API server can always be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func dueParts(seen Seen, wanted map[Part]string, evaluation Evaluation, applied map[Part]Applied, now time.Time) (due []Due, again *time.Time) {
	for _, part := range parts {
		fingerprint, isWanted := wanted[part]
		if !isWanted || seen.Failures[part.Condition()].Reason == ReasonCRDMissing || !evaluation.dependenciesReady(part) {
			continue
		}
		why, at := applied[part].due(part, fingerprint, seen.Versions)
		switch {
		case why == "":
		case now.Before(at):
			again = earlier(again, &at)
		default:
			next := Due{Part: part, Wanted: fingerprint, Why: why}
			if part == PartBucket && seen.BucketJob != nil {
				next.Replaces = seen.BucketJob.UID
			}
			due = append(due, next)
		}
	}
	return due, again
}

// dependenciesReady reports whether the services that the part needs are ready.
func (e Evaluation) dependenciesReady(part Part) bool {
	switch part {
	case PartBucket:
		return e.MakeBucket
	case PartHarbor:
		return e.ApplyHarbor
	}
	return true
}

// due returns why the part must be applied, and from when on; an empty reason: it is current.
func (a Applied) due(part Part, wanted string, versions map[string]string) (why string, from time.Time) {
	switch {
	case a.Wanted != wanted:
		return neverOrChanged(a), time.Time{}
	case a.Failure != nil:
		return "it could not be applied", a.At.Add(min(shortestPause<<min(10, max(0, a.Failures-1)), longestPause))
	}
	return a.drift(part, versions), a.At.Add(repairPause)
}

// drift returns how a desired part differs from its last application; empty: it does not. The Job of the bucket is desired only while no suitable one
// exists.
func (a Applied) drift(part Part, versions map[string]string) string {
	if part == PartBucket {
		return "the Job is gone, or outdated"
	}
	for _, object := range slices.Sorted(maps.Keys(a.Versions)) {
		if versions[object] != a.Versions[object] {
			return object + " was changed"
		}
	}
	return ""
}

// neverOrChanged returns why the desired state differs from the applied one.
func neverOrChanged(was Applied) string {
	if was.Wanted == "" {
		return "never applied"
	}
	return "the spec has changed"
}

// ManifestOf returns the objects for database, cache or storage.
func ManifestOf(hc *goharborv1.HarborCluster, part Part) Manifest {
	switch part {
	case PartDatabase:
		return Database(hc)
	case PartCache:
		return Cache(hc)
	case PartStorage:
		return Storage(hc)
	}
	return Manifest{}
}

// SourceSecrets are the Secrets that provide Values; of alternative names, the first that exists counts.
func SourceSecrets(hc *goharborv1.HarborCluster) [][]string {
	var sources [][]string
	if hc.Spec.Database.Kind == goharborv1.ZalandoPostgreSQL {
		sources = append(sources, operatorSecrets(postgresName(hc)))
	}
	return append(sources, StorageSources(hc)...)
}

// StorageSources are the Secrets that provide the keys of MinIO.
func StorageSources(hc *goharborv1.HarborCluster) [][]string {
	if minioOf(hc) == nil {
		return nil
	}
	return [][]string{{minioSecret(hc)}}
}

// ReadValues reads the values from the Secrets of a HarborCluster. Missing ones stay empty, which Service refuses.
func ReadValues(hc *goharborv1.HarborCluster, secrets map[string]map[string][]byte) Values {
	var values Values
	if hc.Spec.Database.Kind == goharborv1.ZalandoPostgreSQL {
		for _, name := range operatorSecrets(postgresName(hc)) {
			if password := secrets[name]["password"]; values.DatabasePassword == "" {
				values.DatabasePassword = string(password)
			}
		}
	}
	if minioOf(hc) != nil {
		credentials := secrets[minioSecret(hc)]
		values.AccessKey, values.SecretKey = string(credentials["accesskey"]), string(credentials["secretkey"])
	}
	return values
}

// VersionKey is the key of an object in Versions.
func VersionKey(kind, name string) string { return kind + "/" + name }

// VersionOf changes when an applied field of an object may have changed: its generation, Drydock's labels and annotations, its owners, or, without a
// generation, anything. It ignores the status and annotations of others.
func VersionOf(object metav1.Object, set map[string]string) string {
	version := "r" + object.GetResourceVersion()
	if generation := object.GetGeneration(); generation > 0 {
		version = fmt.Sprintf("g%d", generation)
	}
	if slices.ContainsFunc(object.GetOwnerReferences(), isHarborCluster) {
		version += "/owned"
	}
	labels := object.GetLabels()
	version = fmt.Sprintf("%s/%s/%s/%s", object.GetUID(), version, labels[LabelCluster], labels[labelManagedBy])
	if len(set) == 0 {
		return version
	}
	annotations := map[string]string{}
	for key := range set {
		annotations[key] = object.GetAnnotations()[key]
	}
	return version + "/" + fingerprint(annotations)
}

// Belongs reports whether an object belongs to the HarborCluster: by its label, or because the Harbor operator created it.
func Belongs(object metav1.Object, name string) bool {
	if object.GetLabels()[LabelCluster] == name {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && isHarborCluster(*owner) && owner.Name == name
}

func isHarborCluster(owner metav1.OwnerReference) bool {
	return owner.Kind == "HarborCluster" && strings.HasPrefix(owner.APIVersion, goharborv1.GroupVersion.Group+"/")
}

// OtherOwners returns the owners of an object except the HarborCluster, and whether the HarborCluster is one: then the object is deleted with it.
func OtherOwners(object metav1.Object, name string) (others []metav1.OwnerReference, owned bool) {
	for _, owner := range object.GetOwnerReferences() {
		if isHarborCluster(owner) && owner.Name == name {
			owned = true
		} else {
			others = append(others, owner)
		}
	}
	return others, owned
}

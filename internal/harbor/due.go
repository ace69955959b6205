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

// Part is what is applied for a HarborCluster in one go.
type Part string

// The parts. The first three do not depend on each other.
const (
	PartDatabase Part = "database"
	PartCache    Part = "cache"
	PartStorage  Part = "storage"
	// PartBucket is the Job that makes the bucket. It is applied when the Tenant is ready.
	PartBucket Part = "bucket"
	// PartHarbor is Harbor itself. It is applied when database, cache and storage are ready.
	PartHarbor Part = "harbor"
)

// Condition is that which says how the part is.
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

// Applied is what was done about a part last.
type Applied struct {
	// Wanted tells what was to be applied from anything else that might have been.
	Wanted string `json:"wanted"`
	// Versions of the objects as they were then, by kind and name.
	Versions map[string]string `json:"versions,omitempty"`
	At       time.Time         `json:"at"`
	// Failure is why it could not be; Failures is how often in a row.
	Failure  *Failure `json:"failure,omitempty"`
	Failures int      `json:"failures,omitempty"`
}

// Due is a part that is to be applied.
type Due struct {
	Part   Part   `json:"part"`
	Wanted string `json:"wanted"`
	// Why it is: for people.
	Why string `json:"why"`
	// Replaces is an object that goes first: it cannot be changed.
	Replaces types.UID `json:"replaces,omitempty"`
}

// ReasonApplying is that of waiting until a part is applied.
const ReasonApplying = "Applying"

const (
	// repairPause is how long a part is left alone that was applied: who changes it back all the time is not answered each time at once.
	repairPause = 2 * time.Second
	// shortestPause and longestPause are how long a part is left alone that could not be applied.
	shortestPause = 2 * time.Second
	longestPause  = time.Minute
)

// Seen are the objects of a HarborCluster.
type Seen struct {
	Observed
	// Versions of the objects that were applied, by kind and name; those that are not there have none.
	Versions map[string]string
}

// Judgement is how a HarborCluster that is kept is, and what is to be done about it.
type Judgement struct {
	Evaluation
	// Due is what is to be applied now; Again is when more will be although nothing changes; nil: never.
	Due   []Due
	Again *time.Time
	// Moot are the parts that could not be applied as they were wanted then, which is not what is wanted now.
	Moot []Part
	// Drifted: something that was applied, and is wanted so still, is not seen as it was then. Somebody has changed it, or it is not seen yet.
	Drifted bool
}

// parts in the order in which their failures count: a condition has one.
var parts = []Part{PartDatabase, PartCache, PartStorage, PartBucket, PartHarbor}

// Judge judges a HarborCluster that is kept, of whose parts this was done last. A service is not ready as long as what is wanted of it now was not applied:
// what its operator says is about something else.
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
			j.Moot = append(j.Moot, part)
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

// wantedParts tells what is to be applied of each part from anything else. It lacks the parts that the HarborCluster has not, or that are there for good.
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

// anyValues stand for those of the Secrets where they do not matter.
var anyValues = Values{DatabasePassword: "-", AccessKey: "-", SecretKey: "-"}

// ServiceObjects names what Harbor is applied by.
func ServiceObjects(hc *goharborv1.HarborCluster) []Object {
	made, _ := Service(hc, anyValues)
	var objects []Object
	for _, object := range made {
		objects = append(objects, Object{object.GroupVersionKind(), object.GetName()})
	}
	return objects
}

// serviceFingerprint tells Harbor as it is wanted by what it is made of, and by the Secrets that it is made with.
func serviceFingerprint(hc *goharborv1.HarborCluster, seen Seen) string {
	objects, _ := Service(hc, anyValues) // of which Secrets the values are does matter
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
		panic(err) // objects as they come from an API server always can be
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func dueParts(seen Seen, wanted map[Part]string, evaluation Evaluation, applied map[Part]Applied, now time.Time) (due []Due, again *time.Time) {
	for _, part := range parts {
		fingerprint, isWanted := wanted[part]
		if !isWanted || seen.Failures[part.Condition()].Reason == ReasonCRDMissing || !evaluation.turnOf(part) {
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

// turnOf: what the part depends on is there.
func (e Evaluation) turnOf(part Part) bool {
	switch part {
	case PartBucket:
		return e.MakeBucket
	case PartHarbor:
		return e.ApplyHarbor
	}
	return true
}

// due says why the part is to be applied, and from when on; an empty reason: it stands as it was applied.
func (a Applied) due(part Part, wanted string, versions map[string]string) (why string, from time.Time) {
	switch {
	case a.Wanted != wanted:
		return neverOrChanged(a), time.Time{}
	case a.Failure != nil:
		return "it could not be applied", a.At.Add(min(shortestPause<<min(10, max(0, a.Failures-1)), longestPause))
	}
	return a.drift(part, versions), a.At.Add(repairPause)
}

// drift says what of a part that is wanted still is not seen as it was applied; empty: nothing. The Job of the bucket is wanted only while there is none that
// will do.
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

// neverOrChanged says why what is wanted is not what was applied.
func neverOrChanged(was Applied) string {
	if was.Wanted == "" {
		return "never applied"
	}
	return "the spec has changed"
}

// ManifestOf returns what is applied for database, cache or storage.
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

// SourceSecrets are the Secrets that Values come from; of the names of one that stand together, the first counts that is there.
func SourceSecrets(hc *goharborv1.HarborCluster) [][]string {
	var sources [][]string
	if hc.Spec.Database.Kind == goharborv1.ZalandoPostgreSQL {
		sources = append(sources, operatorSecrets(postgresName(hc)))
	}
	if minioOf(hc) != nil {
		sources = append(sources, []string{minioSecret(hc)})
	}
	return sources
}

// ReadValues takes the values out of the Secrets of a HarborCluster. Those that are not there stay empty, which Service refuses.
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

// VersionKey names an object among the Versions.
func VersionKey(kind, name string) string { return kind + "/" + name }

// VersionOf changes whenever somebody may have changed what we apply of an object: its spec, of which its generation tells, our labels, the annotations
// that we have set, an owner with which it would go, or, when it has no generation, anything. The status may change, and what others annotate.
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

// Belongs reports whether an object is the HarborCluster's: by its label, or since the Harbor operator has made it.
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

// OtherOwners returns the owners of an object but for the HarborCluster, and whether that is one of them: the object goes with it then.
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

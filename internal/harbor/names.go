// Package harbor decides which objects are applied for a HarborCluster, and evaluates its services by their objects. It is pure.
//
// Objects have the names that the Harbor operator gives them, so that an existing Harbor of that operator is found, not duplicated.
package harbor

import (
	"encoding/base64"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// The kinds of objects that a HarborCluster is made of.
var (
	Postgresql    = schema.GroupVersionKind{Group: "acid.zalan.do", Version: "v1", Kind: "postgresql"}
	RedisFailover = schema.GroupVersionKind{Group: "databases.spotahome.com", Version: "v1", Kind: "RedisFailover"}
	Tenant        = schema.GroupVersionKind{Group: "minio.min.io", Version: "v2", Kind: "Tenant"}
	Harbor        = schema.GroupVersionKind{Group: goharborv1.GroupVersion.Group, Version: goharborv1.GroupVersion.Version, Kind: "Harbor"}
	StatefulSet   = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	Deployment    = appsv1.SchemeGroupVersion.WithKind("Deployment")
	Job           = batchv1.SchemeGroupVersion.WithKind("Job")
	Ingress       = networkingv1.SchemeGroupVersion.WithKind("Ingress")
	Secret        = corev1.SchemeGroupVersion.WithKind("Secret")
)

// Finalizer keeps a deleted HarborCluster until its objects are deleted. Drydock manages the HarborClusters that have it.
const Finalizer = "drydock.dev/harbor-cluster"

// AnnotationUnmanaged on a HarborCluster keeps Drydock from managing it: "true", or the generation for which a person stopped the management. An edit of
// the spec ends the latter.
const AnnotationUnmanaged = "drydock.dev/unmanaged"

// Unmanaged reports whether Drydock leaves a HarborCluster alone until it is applied with the CLI, or changed.
func Unmanaged(hc *goharborv1.HarborCluster) bool {
	value := hc.Annotations[AnnotationUnmanaged]
	return value == "true" || value == strconv.FormatInt(hc.Generation, 10)
}

// LabelCluster names the HarborCluster that an object belongs to.
const LabelCluster = "goharbor.io/harbor-cluster"

const labelManagedBy = "app.kubernetes.io/managed-by"

// user of the database, and owner of Harbor's databases in it.
const user = "harbor"

func teamName(hc *goharborv1.HarborCluster) string       { return "postgresql-" + hc.Namespace }
func postgresName(hc *goharborv1.HarborCluster) string   { return teamName(hc) + "-" + hc.Name }
func databaseSecret(hc *goharborv1.HarborCluster) string { return hc.Name + "-database-password" }
func redisName(hc *goharborv1.HarborCluster) string      { return hc.Name + "-redis" }
func minioName(hc *goharborv1.HarborCluster) string      { return "minio-" + hc.Name }
func harborName(hc *goharborv1.HarborCluster) string     { return hc.Name + "-harbor" }

// operatorSecrets are the possible names of the Postgres operator's Secret for the database user: its default, and the one that the Harbor operator
// configures (the operator's setting secret_name_template).
func operatorSecrets(postgres string) []string {
	short := user + "." + postgres + ".credentials"
	return []string{short + ".postgresql.acid.zalan.do", short}
}

func minioSecret(hc *goharborv1.HarborCluster) string {
	if named := hc.Spec.Storage.Spec.MinIO.SecretRef; named != "" {
		return named
	}
	return minioName(hc) + "-creds"
}

// minioConfiguration is the Secret that MinIO's operator reads.
func minioConfiguration(hc *goharborv1.HarborCluster) string { return minioName(hc) + "-configuration" }

// object returns one of the applied objects.
func object(kind schema.GroupVersionKind, hc *goharborv1.HarborCluster, name string, fields map[string]any) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: fields}
	made.SetGroupVersionKind(kind)
	made.SetNamespace(hc.Namespace)
	made.SetName(name)
	made.SetLabels(labelsOf(hc))
	return made
}

func labelsOf(hc *goharborv1.HarborCluster) map[string]string {
	return map[string]string{LabelCluster: hc.Name, labelManagedBy: "drydock"}
}

// secret returns a Secret with text values.
func secret(hc *goharborv1.HarborCluster, name string, values map[string]string) *unstructured.Unstructured {
	data := map[string]any{}
	for key, value := range values {
		// Not as stringData: server-side apply would lose the owner of the fields.
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return object(Secret, hc, name, map[string]any{"type": string(corev1.SecretTypeOpaque), "data": data})
}

// plain converts a typed value for unstructured objects. The types of the API can all be converted.
func plain[T any](typed *T) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(err)
	}
	return fields
}

// or is the number, or the default if it was not read through the API.
func or(number *int32, otherwise int64) int64 {
	if number == nil {
		return otherwise
	}
	return int64(*number)
}

// Objects are the names of the objects that decide the health of a HarborCluster's services; empty for missing services.
type Objects struct{ Postgresql, RedisFailover, Tenant, BucketJob, Harbor string }

// ObjectsOf returns the names of a HarborCluster's objects.
func ObjectsOf(hc *goharborv1.HarborCluster) Objects {
	names := Objects{Harbor: harborName(hc)}
	if hc.Spec.Database.Kind == goharborv1.ZalandoPostgreSQL {
		names.Postgresql = postgresName(hc)
	}
	if hc.Spec.Cache.Kind == goharborv1.RedisFailover {
		names.RedisFailover = redisName(hc)
	}
	if minioOf(hc) != nil {
		names.Tenant, names.BucketJob = minioName(hc), minioName(hc)
	}
	return names
}

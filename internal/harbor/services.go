package harbor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Manifest has the objects of a service; none for an external service.
type Manifest struct {
	Objects []*unstructured.Unstructured
	// Credentials are Secrets that must exist before the objects. They are created once and never changed.
	Credentials []Credentials
	// Unwanted are objects of an earlier spec. They hold no data, and are deleted.
	Unwanted []Object
}

// Credentials is a Secret with random values.
type Credentials struct {
	Name string
	// Keys in one group share a value.
	Keys [][]string
}

// Secret is the Secret without its values.
func (c Credentials) Secret(hc *goharborv1.HarborCluster) *corev1.Secret {
	made := &corev1.Secret{Type: corev1.SecretTypeOpaque}
	made.Namespace, made.Name, made.Labels = hc.Namespace, c.Name, labelsOf(hc)
	return made
}

// Database returns the objects for the database.
func Database(hc *goharborv1.HarborCluster) Manifest {
	spec := hc.Spec.Database.Spec.Zalando
	if hc.Spec.Database.Kind != goharborv1.ZalandoPostgreSQL || spec == nil {
		return Manifest{}
	}
	fields := map[string]any{
		"teamId":            teamName(hc),
		"numberOfInstances": or(spec.Replicas, 3),
		"postgresql":        map[string]any{"version": text(spec.Version, "15")},
		"users":             map[string]any{user: []any{"createdb"}},
		"databases":         databases(hc),
		"volume":            volume(spec.VolumeSpec),
	}
	setText(fields, "dockerImage", spec.Image.Image)
	if resources := databaseResources(spec.Resources); len(resources) > 0 {
		fields["resources"] = resources
	}
	return Manifest{Objects: []*unstructured.Unstructured{object(Postgresql, hc, postgresName(hc), map[string]any{"spec": fields})}}
}

func databases(hc *goharborv1.HarborCluster) map[string]any {
	owners := map[string]any{"core": user}
	if hc.Spec.Notary != nil {
		owners["notaryserver"], owners["notarysigner"] = user, user
	}
	return owners
}

func volume(spec goharborv1.VolumeSpec) map[string]any {
	fields := map[string]any{"size": text(spec.Storage, "1Gi")}
	setText(fields, "storageClass", spec.StorageClassName)
	return fields
}

// databaseResources are in the format of the Postgres operator, which supports CPU and memory.
func databaseResources(resources corev1.ResourceRequirements) map[string]any {
	fields := map[string]any{}
	for field, list := range map[string]corev1.ResourceList{"requests": resources.Requests, "limits": resources.Limits} {
		amounts := map[string]any{}
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, given := list[resource]; given {
				amounts[string(resource)] = amount.String()
			}
		}
		if len(amounts) > 0 {
			fields[field] = amounts
		}
	}
	return fields
}

// Cache returns the objects for the cache.
func Cache(hc *goharborv1.HarborCluster) Manifest {
	spec := hc.Spec.Cache.Spec.RedisFailover
	if hc.Spec.Cache.Kind != goharborv1.RedisFailover || spec == nil {
		return Manifest{}
	}
	part := func(replicas *int32) map[string]any {
		fields := map[string]any{"replicas": or(replicas, 1)}
		setText(fields, "image", spec.Image.Image)
		setPull(fields, pullOf(hc, spec.ImagePull))
		return fields
	}
	servers := part(spec.Server.Replicas)
	if resources := plain(&spec.Server.Resources); len(resources) > 0 {
		servers["resources"] = resources
	}
	setText(servers, "serviceAccountName", spec.Server.ServiceAccountName)
	servers["storage"] = map[string]any{
		// Otherwise the operator deletes the claims with the RedisFailover.
		"keepAfterDeletion":     hc.Spec.DeletionPolicy != goharborv1.DeleteData,
		"persistentVolumeClaim": map[string]any{"metadata": map[string]any{"name": redisName(hc)}, "spec": claim(spec.Server.VolumeSpec)},
	}
	return Manifest{
		Objects: []*unstructured.Unstructured{object(RedisFailover, hc, redisName(hc), map[string]any{"spec": map[string]any{
			"redis": servers, "sentinel": part(spec.Sentinel.Replicas), "auth": map[string]any{"secretPath": redisName(hc)},
		}})},
		// The operator reads the first, Harbor the second.
		Credentials: []Credentials{{Name: redisName(hc), Keys: [][]string{{"password", "redis-password"}}}},
	}
}

func claim(spec goharborv1.VolumeSpec) map[string]any {
	fields := map[string]any{
		"accessModes": []any{string(corev1.ReadWriteOnce)},
		"resources":   map[string]any{"requests": map[string]any{"storage": text(spec.Storage, "1Gi")}},
	}
	setText(fields, "storageClassName", spec.StorageClassName)
	return fields
}

// pullOf is how the images of a service are pulled: by its own settings, or else by those of the HarborCluster.
func pullOf(hc *goharborv1.HarborCluster, own goharborv1.ImagePull) goharborv1.ImagePull {
	if source := hc.Spec.ImageSource; source != nil {
		if own.ImagePullPolicy == "" {
			own.ImagePullPolicy = source.ImagePullPolicy
		}
		if len(own.ImagePullSecrets) == 0 {
			own.ImagePullSecrets = source.ImagePullSecrets
		}
	}
	return own
}

func setPull(fields map[string]any, pull goharborv1.ImagePull) {
	setText(fields, "imagePullPolicy", string(pull.ImagePullPolicy))
	if secrets := pullSecrets(pull); len(secrets) > 0 {
		fields["imagePullSecrets"] = secrets
	}
}

func pullSecrets(pull goharborv1.ImagePull) []any {
	var secrets []any
	for _, reference := range pull.ImagePullSecrets {
		secrets = append(secrets, map[string]any{"name": reference.Name})
	}
	return slices.Clip(secrets)
}

func text(given, otherwise string) string {
	if strings.TrimSpace(given) == "" {
		return otherwise
	}
	return given
}

func setText(fields map[string]any, field, value string) {
	if value != "" {
		fields[field] = value
	}
}

package harbor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Values are the values of Secrets that Harbor's own Secrets need. Only services in the cluster have some.
type Values struct {
	// DatabasePassword is the password that the Postgres operator set for the database's user.
	DatabasePassword string
	// AccessKey and SecretKey of MinIO.
	AccessKey, SecretKey string
}

// Service returns the objects for Harbor itself once database, cache and storage are ready: the Secrets that it reads, then the Harbor. The error
// names a missing value.
func Service(hc *goharborv1.HarborCluster, values Values) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	if hc.Spec.Database.Kind == goharborv1.ZalandoPostgreSQL {
		if values.DatabasePassword == "" {
			return nil, fmt.Errorf("secret %s/%s has no password", hc.Namespace, operatorSecrets(postgresName(hc))[0])
		}
		objects = append(objects, secret(hc, databaseSecret(hc), map[string]string{"postgresql-password": values.DatabasePassword}))
	}
	if minioOf(hc) != nil {
		if err := values.checkKeys(hc); err != nil {
			return nil, err
		}
		objects = append(objects, secret(hc, minioName(hc), map[string]string{"secret": values.SecretKey}))
	}
	spec := plain(&hc.Spec.HarborSettings)
	spec["database"] = databaseConnection(hc)
	spec["redis"] = cacheConnection(hc)
	spec["imageChartStorage"] = registryStorage(hc, values.AccessKey)
	// The API of Harbor requires these parts, even without settings.
	for _, part := range []string{"jobservice", "registry"} {
		if spec[part] == nil {
			spec[part] = map[string]any{}
		}
	}
	trustStorage(spec)
	return append(objects, object(Harbor, hc, harborName(hc), map[string]any{"spec": spec})), nil
}

func databaseConnection(hc *goharborv1.HarborCluster) map[string]any {
	if hc.Spec.Database.Kind != goharborv1.ZalandoPostgreSQL {
		return externalDatabase(hc).fields
	}
	sslMode := "require"
	if spec := hc.Spec.Database.Spec.Zalando; spec != nil {
		sslMode = text(spec.SSLConfig, sslMode)
	}
	return map[string]any{
		"hosts":    []any{map[string]any{"host": postgresName(hc) + "." + hc.Namespace + ".svc", "port": int64(5432)}},
		"username": user, "passwordRef": databaseSecret(hc), "sslMode": sslMode,
	}
}

func cacheConnection(hc *goharborv1.HarborCluster) map[string]any {
	if hc.Spec.Cache.Kind != goharborv1.RedisFailover {
		return externalCache(hc).fields
	}
	return map[string]any{
		"host": "rfs-" + redisName(hc) + "." + hc.Namespace + ".svc", "port": int64(26379), "sentinelMasterSet": "mymaster", "passwordRef": redisName(hc),
	}
}

// trustStorage makes the parts of Harbor that use the storage trust its certificate.
func trustStorage(spec map[string]any) {
	certificate, _, _ := unstructured.NestedString(spec, "imageChartStorage", "s3", "certificateRef")
	if certificate == "" {
		return
	}
	for _, part := range []string{"core", "jobservice", "trivy", "chartmuseum"} {
		fields, present := spec[part].(map[string]any)
		if !present {
			continue
		}
		trusted, _, _ := unstructured.NestedSlice(fields, "certificateRefs")
		fields["certificateRefs"] = append(trusted, certificate)
	}
}

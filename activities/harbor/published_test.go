package harbor

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
)

// published are settings of HarborClusters, by the field of the spec. The API server refuses an applied object with a field that the API of its operator lacks.
var published = map[string]string{
	"every setting of MinIO, Redis and PostgreSQL": `{
		"imageSource": {"repository": "registry.example/goharbor", "tagSuffix": "-1", "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "pull"}]},
		"database": {"kind": "Zlando/PostgreSQL", "spec": {"zlandoPostgreSql": {"version": "16", "image": "spilo:1", "replicas": 2, "storage": "10Gi", "storageClassName": "fast", "sslConfig": "disable",
			"resources": {"requests": {"cpu": "100m", "memory": "1.5Gi", "ephemeral-storage": "1Gi"}, "limits": {"cpu": "2", "memory": "500M"}}}}},
		"cache": {"kind": "RedisFailover", "spec": {"redisFailover": {"image": "redis:6", "imagePullPolicy": "Never", "imagePullSecrets": [{"name": "own"}],
			"server": {"replicas": 3, "serviceAccountName": "redis", "storage": "2Gi", "storageClassName": "fast", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}, "sentinel": {"replicas": 3}}}},
		"storage": {"kind": "MinIO", "spec": {"redirect": {"enable": true, "expose": {"ingress": {"host": "minio.example"}, "tls": {"certificateRef": "public"}}},
			"minIO": {"image": "minio:1", "imagePullPolicy": "Never", "imagePullSecrets": [{"name": "own"}], "replicas": 2, "volumesPerServer": 2, "resources": {"requests": {"cpu": "1"}},
				"volumeClaimTemplate": {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}}}}}}}`,
	"every setting of Harbor": `{
		"expose": {"core": {"ingress": {"host": "core.example", "controller": "gce", "annotations": {"a": "b"}, "ingressClassName": "nginx"}, "tls": {"certificateRef": "public"}}, "notary": {"ingress": {"host": "notary.example"}}},
		"internalTLS": {"enabled": true}, "logLevel": "debug", "updateStrategyType": "Recreate", "network": {"ipFamilies": ["IPv4"]},
		"proxy": {"httpProxy": "http://proxy.example", "httpsProxy": "http://proxy.example", "noProxy": ["localhost"], "components": ["core"]},
		"trace": {"enabled": true, "namespace": "n", "sampleRate": 1, "provider": "otel", "otel": {"endpoint": "otel.example", "urlPath": "/v1", "timeout": "10s"}},
		"core": {"tokenIssuer": {"name": "issuer", "kind": "Issuer", "group": "cert-manager.io"}, "replicas": 2, "metrics": {"enabled": true}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "certificateRefs": ["other"]},
		"jobservice": {"workerCount": 5, "storage": {"scanDataExportsPersistentVolume": {"claimName": "exports"}}}, "portal": {"replicas": 1}, "registryctl": {"resources": {"requests": {"cpu": "1"}}},
		"registry": {"relativeURLs": true, "storageMiddlewares": [{"name": "cloudfront", "optionsRef": "options"}]}, "chartmuseum": {"absoluteUrl": true}, "exporter": {"port": 8001, "path": "/metrics", "cache": {"duration": "30s"}},
		"trivy": {"skipUpdate": true, "githubTokenRef": "token", "storage": {"cachePersistentVolume": {"claimName": "cache", "prefix": "p"}}}, "notary": {"migrationEnabled": true, "server": {"replicas": 1}, "signer": {}}}`,
	"an external PostgreSQL and Redis": `{
		"database": {"kind": "PostgreSQL", "spec": {"postgresql": {"hosts": [{"host": "db.example", "port": 5432}], "username": "harbor", "passwordRef": "db", "prefix": "p", "sslMode": "verify-full"}}},
		"cache": {"kind": "Redis", "spec": {"redis": {"host": "redis.example", "port": 6379, "sentinelMasterSet": "m", "passwordRef": "redis", "certificateRef": "ca"}}}}`,
	"an external S3":           `{"storage": {"kind": "S3", "spec": {"redirect": {"enable": false}, "s3": {"region": "eu-1", "bucket": "images", "accesskey": "key", "secretkeyRef": "s3", "rootdirectory": "/", "storageclass": "STANDARD", "certificateRef": "ca"}}}}`,
	"an external Swift":        `{"storage": {"kind": "Swift", "spec": {"swift": {"authurl": "https://auth.example", "username": "u", "passwordRef": "swift", "container": "images", "domain": "d"}}}}`,
	"an external file system":  `{"storage": {"kind": "FileSystem", "spec": {"fileSystem": {"registryPersistentVolume": {"claimName": "images", "maxthreads": 100}, "chartPersistentVolume": {"claimName": "charts"}}}}}`,
	"an external Azure":        `{"storage": {"kind": "Azure", "spec": {"azure": {"accountname": "a", "accountkeyRef": "azure", "container": "images"}}}}`,
	"an external Google Cloud": `{"storage": {"kind": "Gcs", "spec": {"gcs": {"bucket": "images", "keyDataRef": "gcs", "chunkSize": "5242880"}}}}`,
	"an external Alibaba":      `{"storage": {"kind": "Oss", "spec": {"oss": {"region": "oss-eu", "bucket": "images", "accessKeyID": "a", "accessSecretRef": "oss"}}}}`,
}

// harborSetsPublishedFields applies all objects for each of these settings. The CRDs have the fields of the published APIs, and no others.
func harborSetsPublishedFields(t *testing.T, _ *operators.Operators) {
	t.Parallel()
	cluster := activitytest.BareCluster(t)
	for name, settings := range published {
		t.Run(name, func(t *testing.T) {
			hc := harborCluster(t, devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)))
			require.NoError(t, json.Unmarshal([]byte(settings), &hc.Spec))
			var objects []*unstructured.Unstructured
			for _, part := range []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage} {
				objects = append(objects, harbor.ManifestOf(hc, part).Objects...)
			}
			values := harbor.Values{DatabasePassword: "p", AccessKey: "a", SecretKey: "s"}
			secrets, err := harbor.StorageSecrets(hc, values)
			require.NoError(t, err)
			service, err := harbor.Service(hc, values)
			require.NoError(t, err)
			for _, object := range append(append(objects, secrets...), service...) {
				require.NoError(t, cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("test")), object.GetKind())
			}
		})
	}
}

// harborShowsUnknownFields: a setting that Harbor's API lacks is named, not dropped.
func harborShowsUnknownFields(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "registry: {replicas: 2}", "registry: {replicaCount: 2}")
	condition := r.untilReason(goharborv1.ServiceReady, harbor.ReasonApplyFailed)
	require.Equal(t, metav1.ConditionFalse, condition.Status)
	require.Contains(t, condition.Message, ".spec.registry.replicaCount: field not declared in schema")
	require.Nil(t, r.object(harbor.Harbor, "main-harbor"))
}

// harborChangesItsKeys: the operator of MinIO gets changed keys, and a person who names a Secret that is missing is told.
func harborChangesItsKeys(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "volumesPerServer: 2", "volumesPerServer: 2\n        secretRef: mine")
	condition := r.untilReason(goharborv1.StorageReady, harbor.ReasonApplyFailed)
	require.Contains(t, condition.Message, "secret "+r.ref.Namespace+"/mine has no accesskey or no secretkey")
	require.Nil(t, r.object(harbor.Tenant, "minio-main"))

	keys := &unstructured.Unstructured{Object: map[string]any{"stringData": map[string]any{"accesskey": "user", "secretkey": "first"}}}
	keys.SetGroupVersionKind(harbor.Secret)
	keys.SetNamespace(r.ref.Namespace)
	keys.SetName("mine")
	require.NoError(t, r.cluster.Client.Create(t.Context(), keys))
	r.untilIs(goharborv1.StatusHealthy)
	require.Contains(t, r.settings(), `MINIO_ROOT_PASSWORD="first"`)
	r.patch(keys, `{"stringData":{"secretkey":"second"}}`)
	for range 100 {
		if strings.Contains(r.settings(), `MINIO_ROOT_PASSWORD="second"`) {
			break
		}
		r.await()
	}
	require.Equal(t, "export MINIO_ROOT_USER=\"user\"\nexport MINIO_ROOT_PASSWORD=\"second\"\n", r.settings())
}

// settings are those that MinIO's operator reads.
func (r *registry) settings() string {
	r.t.Helper()
	text, _, _ := unstructured.NestedString(r.object(harbor.Secret, "minio-main-configuration").Object, "data", "config.env")
	settings, err := base64.StdEncoding.DecodeString(text)
	require.NoError(r.t, err)
	return string(settings)
}

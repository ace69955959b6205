package fleet

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// HarborCluster describes a HarborCluster named main with a database in the cluster.
type HarborCluster struct {
	Namespace string
	// External: cache and storage are external. The Secret of the storage is s3.
	External bool
	// Redirected: clients are redirected to the storage in the cluster, which has an Ingress.
	Redirected bool
	// DeletionPolicy defaults to Retain.
	DeletionPolicy goharborv1.DeletionPolicy
}

const harborClusterManifest = `
apiVersion: goharbor.io/v1beta1
kind: HarborCluster
metadata: {namespace: %s, name: main}
spec:
  version: 2.5.0
  externalURL: https://registry.example.com
  harborAdminPasswordRef: harbor-admin
  expose: {core: {ingress: {host: registry.example.com}}}
  core: {tokenIssuer: {name: registry}}
  database: {kind: Zlando/PostgreSQL, spec: {zlandoPostgreSql: {replicas: 1}}}
  cache: %s
  storage: %s
  deletionPolicy: %s
`

// Manifest is the HarborCluster as YAML.
func (h HarborCluster) Manifest() []byte {
	cache, storage := "{kind: RedisFailover, spec: {redisFailover: {}}}", "{kind: MinIO, spec: {minIO: {replicas: 4, volumesPerServer: 1}}}"
	if h.Redirected {
		storage = "{kind: MinIO, spec: {redirect: {enable: true, expose: {ingress: {host: minio.example.com}}}, minIO: {replicas: 4, volumesPerServer: 1}}}"
	}
	if h.External {
		cache, storage = "{kind: Redis, spec: {redis: {host: redis.example.com}}}", "{kind: S3, spec: {s3: {region: eu-1, bucket: images, accesskey: key, secretkeyRef: s3}}}"
	}
	return fmt.Appendf(nil, harborClusterManifest, h.Namespace, cache, storage, cmp.Or(h.DeletionPolicy, goharborv1.RetainData))
}

// Object is the HarborCluster as an unstructured object.
func (h HarborCluster) Object() (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal(h.Manifest(), &object.Object)
}

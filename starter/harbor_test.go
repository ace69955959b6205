package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

const harborObjects = `
apiVersion: goharbor.io/v1beta1
kind: HarborCluster
metadata: {namespace: default, name: main}
spec:
  version: 2.5.0
  externalURL: https://core.harbor.example
  harborAdminPasswordRef: admin
  expose: {core: {ingress: {host: core.harbor.example}}}
  core: {tokenIssuer: {name: issuer}}
  database: {kind: Zlando/PostgreSQL, spec: {zlandoPostgreSql: {replicas: 1}}}
  cache: {kind: Redis, spec: {redis: {host: redis.example, passwordRef: redis}}}
  storage: {kind: MinIO, spec: {minIO: {replicas: 2, volumesPerServer: 2}}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: default, name: redis}
---
apiVersion: acid.zalan.do/v1
kind: postgresql
metadata: {namespace: default, name: postgresql-default-main}
spec: {teamId: postgresql-default, numberOfInstances: 1, postgresql: {version: "16"}, volume: {size: 1Gi}}
status: {PostgresClusterStatus: Creating}
---
apiVersion: minio.min.io/v2
kind: Tenant
metadata: {namespace: default, name: storage, labels: {goharbor.io/harbor-cluster: main}}
spec: {pools: []}
status:
  currentState: Initialized
  availableReplicas: 2
  pools: [{ssName: storage-zone-harbor, state: PoolInitialized}]
  certificates: {}
  revision: 0
  syncVersion: v4.2.0
---
apiVersion: batch/v1
kind: Job
metadata: {namespace: default, name: minio-main}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: mc, image: mc}]}}}
---
apiVersion: goharbor.io/v1beta1
kind: Harbor
metadata: {namespace: default, name: main-harbor}
spec:
  externalURL: https://core.harbor.example
  version: 2.5.0
  harborAdminPasswordRef: admin
  expose: {core: {ingress: {host: core.harbor.example}}}
  core: {tokenIssuer: {name: issuer, kind: Issuer}}
  jobservice: {}
  registry: {}
  database: {hosts: [{host: postgresql-default-main.default.svc, port: 5432}], username: harbor, passwordRef: main-database-password}
  redis: {host: redis.example, port: 6379, passwordRef: redis}
  imageChartStorage: {s3: {bucket: harbor, region: us-east-1}}
status: {conditions: [{type: Failed, status: "False"}, {type: InProgress, status: "False"}]}
`

func TestAHarborClusterIsEvaluatedFromAFile(t *testing.T) {
	isolate(t)
	got := parsed[map[string]any](t, "harbor", "evaluate", "--snapshot", file(t, "harbor.yaml", harborObjects), "--at", "2026-11-20T10:00:00Z")
	require.ElementsMatch(t, []string{"status", "applyHarbor", "conditions"}, keysOf(got))
	require.Equal(t, "creating", got["status"])
	require.Equal(t, false, got["applyHarbor"])
	first := got["conditions"].([]any)[0].(map[string]any)
	require.Equal(t, "DatabaseReady", first["type"])
	require.Equal(t, "Unknown", first["status"])
	require.Equal(t, "Creating", first["reason"])
	require.Equal(t, "postgresql postgresql-default-main is Creating", first["message"])

	require.Equal(t, `HarborCluster default/main: creating
apply Harbor: no: database, cache and storage are not all ready
CONDITION       STATUS    REASON                 MESSAGE
DatabaseReady   Unknown   Creating               postgresql postgresql-default-main is Creating
CacheReady      True      External               runs elsewhere; its settings and secrets are there
StorageReady    Unknown   BucketJobNotComplete   Job minio-main, which makes the bucket, is not complete
ServiceReady    True      Ready                  Harbor main-harbor is up
`, succeeds(t, "harbor", "evaluate", "main", "--snapshot", file(t, "harbor.yaml", harborObjects)))
}

func keysOf(object map[string]any) []string {
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	return keys
}

func TestAnUnhealthyHarborClusterExitsWithAFailure(t *testing.T) {
	isolate(t)
	broken := strings.Replace(harborObjects, "Creating", "SyncFailed", 1)
	got := drydock(t, "harbor", "evaluate", "--snapshot", file(t, "harbor.yaml", broken), "-o", "json")
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: HarborCluster default/main is unhealthy\n", got.stderr)
	var evaluation harbor.Evaluation
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &evaluation))
	require.Equal(t, goharborv1.StatusUnhealthy, evaluation.Status)
}

func TestAnEvaluationKnowsWhatIsNotAppliedYetAndWhatWouldBeRefused(t *testing.T) {
	isolate(t)
	managed := strings.Replace(harborObjects, "metadata: {namespace: default, name: main}",
		"metadata: {namespace: default, name: main, generation: 1, finalizers: [drydock.dev/harbor-cluster]}", 1)
	require.Contains(t, succeeds(t, "harbor", "evaluate", "--snapshot", file(t, "harbor.yaml", managed)),
		"ServiceReady    Unknown   NotApplied             not applied yet: generation 1 is not observed yet\n")

	invalid := strings.Replace(harborObjects, "volumesPerServer: 2", "volumesPerServer: 1", 1)
	got := drydock(t, "harbor", "evaluate", "--snapshot", file(t, "harbor.yaml", invalid))
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "spec.storage.spec.minIO: Invalid value: replicas * volumesPerServer must be 4 or more")
}

func TestAHarborClusterMustBeNamedIfThereAreSeveral(t *testing.T) {
	isolate(t)
	other := strings.Replace(strings.SplitAfter(harborObjects, "---\n")[0], "name: main", "name: other", 1)
	two := file(t, "harbor.yaml", other+harborObjects)
	got := drydock(t, "harbor", "evaluate", "--snapshot", two)
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "error: several HarborClusters found: name one of default/main, default/other")
	require.Contains(t, succeeds(t, "harbor", "evaluate", "default/other", "--snapshot", two), "HarborCluster default/other: creating\n")
	got = drydock(t, "harbor", "evaluate", "third", "--snapshot", two)
	require.Equal(t, outcome{status: exitUsage, stderr: "error: HarborCluster third not found; there are: default/main, default/other\n"}, got)
}

// harborsAlike creates the objects in a cluster, and compares the output for the cluster with that for a file.
func harborsAlike(t *testing.T, config *rest.Config) {
	cluster, err := client.New(config, client.Options{})
	require.NoError(t, err)
	written, err := manifest.Parse("harbor.yaml", []byte(harborObjects))
	require.NoError(t, err)
	var live []string
	for _, object := range written {
		status, has := object.Object["status"]
		require.NoError(t, cluster.Create(t.Context(), object))
		if has {
			object.Object["status"] = status
			require.NoError(t, cluster.Status().Update(t.Context(), object))
		}
		live = append(live, textOf(t, object))
	}
	evaluate := []string{"harbor", "evaluate", "--at", "2026-11-20T10:00:00Z", "-o", "json"}
	fromCluster := succeeds(t, evaluate...)
	require.Equal(t, fromCluster, succeeds(t, append(evaluate, "--snapshot", file(t, "live.yaml", strings.Join(live, "---\n")))...))
	require.Contains(t, fromCluster, `"status": "creating"`)
	require.Contains(t, fromCluster, `"message": "postgresql postgresql-default-main is Creating"`)
}

func textOf(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	require.NoError(t, err)
	return string(text)
}

func TestTheStatusOfAnUnmanagedHarborIsAFailure(t *testing.T) {
	target := harborCluster("c1", "registry", "main")
	status := func(state harborworkflow.State, harbor goharborv1.ClusterStatus, wait string) harborStatus {
		s := harborStatus{Status: harborworkflow.Status{State: state, Harbor: goharborv1.HarborClusterStatus{Status: harbor}}}
		if wait != "" {
			s.Status.Wait = &drydockv1.Wait{Reason: wait, Message: "for " + wait}
		}
		return s
	}
	for _, well := range []harborStatus{
		status(harborworkflow.Managed, goharborv1.StatusHealthy, ""), status(harborworkflow.Managed, goharborv1.StatusCreating, ""),
		status(harborworkflow.Managed, "", emergency.ReasonUnknown), status(harborworkflow.Deleting, goharborv1.StatusUnhealthy, harbor.ReasonRemoving),
	} {
		require.NoError(t, well.verdict(target))
		require.NotContains(t, well.frame(time.Now(), frameStyle{}), "may be stale")
	}
	unseen := status(harborworkflow.Managed, goharborv1.StatusHealthy, temporal.ErrClusterUnreachable)
	require.EqualError(t, unseen.verdict(target), "HarborCluster registry/main in cluster c1: the status may be stale: for ClusterUnreachable")
	require.Contains(t, unseen.frame(time.Now(), frameStyle{}), "waiting: ClusterUnreachable")
	require.Contains(t, unseen.frame(time.Now(), frameStyle{}), "the following may be stale")
	require.EqualError(t, status(harborworkflow.Managed, goharborv1.StatusUnhealthy, "").verdict(target), "HarborCluster registry/main in cluster c1 is unhealthy")
	require.ErrorContains(t, status(harborworkflow.Unmanaged, goharborv1.StatusHealthy, "").verdict(target), "is not managed")
}

func TestAWatchedHarborStatusShowsThatTheHarborIsHeld(t *testing.T) {
	s := harborStatus{Status: harborworkflow.Status{
		Namespace: "registry", Name: "main", State: harborworkflow.Managed, Harbor: goharborv1.HarborClusterStatus{Status: goharborv1.StatusCreating},
		Held: &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"},
	}}
	require.Regexp(t, "^HarborCluster registry/main: creating; held: .* by ann: flood \\(`drydock release --all`\\)$", s.lines(time.Now())[0].text)
}

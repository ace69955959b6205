package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const shopObjects = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web-1, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: web}]}
status: {phase: Running, containerStatuses: [{name: web, ready: true}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, generation: 2}
spec: {replicas: 1}
status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {conditions: [{type: Ready, status: "False", reason: KubeletDown}]}
---
apiVersion: acid.zalan.do/v1
kind: postgresql
metadata: {namespace: shop, name: db}
status: {PostgresClusterStatus: Running}
`

const shopChecks = `
healthChecks:
- {name: web, workload: {namespace: shop}}
- {name: pods, pods: {namespace: shop, selector: {matchLabels: {app: web}}}}
- {name: database, cel: {apiVersion: acid.zalan.do/v1, kind: postgresql, namespace: shop, name: db, expression: "object.status.PostgresClusterStatus == 'Running'"}}
- {name: node, node: {}}
`

func TestHealthChecksAreEvaluatedFromAFile(t *testing.T) {
	isolate(t)
	checks, snapshot := file(t, "checks.yaml", shopChecks), file(t, "objects.yaml", shopObjects)
	require.Equal(t, `CHECK      HEALTHY   REASON   MESSAGE
web        yes                1 workloads in namespace shop are available
pods       yes                1 pods in namespace shop are ready
database   yes                object.status.PostgresClusterStatus == 'Running' holds for 1 of postgresql db in namespace shop
node       yes                1 nodes are Ready
`, succeeds(t, "health", "check", "-f", checks, "--snapshot", snapshot, "--node", "n1"))

	got := drydock(t, "health", "check", "-f", checks, "--snapshot", snapshot, "-o", "json")
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: 1 of 4 checks are not healthy: node\n", got.stderr)
	var report checkReport
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &report))
	require.False(t, report.Healthy)
	require.True(t, report.Checks[0].Healthy)
	require.Equal(t, "NodeNotReady", report.Checks[3].Reason)
	require.Equal(t, "n2", report.Checks[3].Blockers[0].Name)

	require.Equal(t, "node\n", drydock(t, "health", "check", "-f", checks, "--snapshot", snapshot, "-o", "name").stdout)
}

func TestTheHealthCheckExampleInTheDocumentationIsCorrect(t *testing.T) {
	isolate(t)
	page, err := os.ReadFile("../docs/how-to/check-health.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(page), "$ cat checks.yaml\n")
	checks, example, _ := strings.Cut(example, "$ drydock health check -f checks.yaml --snapshot objects.yaml\n")
	shown, _, found := strings.Cut(example, "```\n")
	require.True(t, found)
	objects := strings.Replace(harborObjects, "Creating", "SyncFailed", 1) + `---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, generation: 1}
spec: {replicas: 2}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2}
`
	got := drydock(t, "health", "check", "-f", file(t, "checks.yaml", checks), "--snapshot", file(t, "objects.yaml", objects))
	require.Equal(t, shown, got.stdout+got.stderr)
}

func TestHealthChecksUseTheGivenTime(t *testing.T) {
	isolate(t)
	checks := file(t, "checks.yaml", "[{name: registry, harborCluster: {namespace: reg, name: main}}]")
	objects := file(t, "objects.yaml", `
apiVersion: goharbor.io/v1beta1
kind: HarborCluster
metadata: {namespace: reg, name: main, generation: 1, creationTimestamp: "2026-01-10T12:00:00Z"}
spec:
  version: 2.5.0
  externalURL: https://core.harbor.example
  harborAdminPasswordRef: admin
  expose: {}
  core: {}
  database: {kind: Zlando/PostgreSQL, spec: {zlandoPostgreSql: {storage: 1Gi}}}
  cache: {kind: RedisFailover, spec: {redisFailover: {}}}
  storage: {kind: MinIO, spec: {minIO: {replicas: 4, volumesPerServer: 1, volumeClaimTemplate: {spec: {}}}}}
`)
	succeeds(t, "health", "check", "-f", checks, "--snapshot", objects, "--at", "2026-01-10T12:14:59Z")
	got := drydock(t, "health", "check", "-f", checks, "--snapshot", objects, "--at", "2026-01-10T12:15:00Z")
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stdout, "ProgressDeadlineExceeded")
}

func TestEndpointChecksAreUnknownWithASnapshot(t *testing.T) {
	isolate(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the endpoint received a request") }))
	t.Cleanup(server.Close)
	checks := file(t, "checks.yaml", `[{name: page, http: {url: "`+server.URL+`"}}]`)
	got := drydock(t, "health", "check", "-f", checks, "--snapshot", file(t, "objects.yaml", shopObjects))
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stdout, "NoRequest")
	require.Contains(t, got.stdout, server.URL+": no request is sent: a file of objects cannot tell")
}

func TestInvalidHealthChecksAreInvalidInput(t *testing.T) {
	isolate(t)
	got := drydockWith(t, "[{name: a, cel: {apiVersion: v1, kind: Pod, name: p, expression: '1'}}]", "health", "check", "-f", "-")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "error: stdin: healthChecks[0].cel.expression: ")
	require.Equal(t, exitUsage, drydock(t, "health", "check").status)
}

func checksLiveHealth(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	checks := file(t, "checks.yaml", `
- {name: namespace, cel: {apiVersion: v1, kind: Namespace, name: kube-system, expression: "object.status.phase == 'Active'"}}
- {name: gone, http: {url: "`+server.URL+`", status: 404}}
`)
	require.True(t, parsed[checkReport](t, "health", "check", "-f", checks).Healthy)

	checks = file(t, "unserved.yaml", "[{name: turbine, condition: {apiVersion: example.com/v1, kind: Turbine, name: a, type: Ready}}, {name: pods, pods: {namespace: default}}]")
	got := drydock(t, "health", "check", "-f", checks)
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stdout, "KindNotServed")
	require.Contains(t, got.stdout, "found no pod in namespace default")
}

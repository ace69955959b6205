package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/rollout"
)

const hubObjects = `
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: spoke-3, labels: {env: prod}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: spoke-1, labels: {env: prod}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: spoke-2, labels: {env: prod}}
---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: lab, labels: {env: lab}}
`

const selectingRollout = `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: november, namespace: prod}
spec:
  clusterLabelSelectors:
  - matchLabels: {env: prod}
  remediationStrategy:
    canaries: [spoke-2]
    maxConcurrency: 50%
  nodeMaintenance: {}
`

func TestADecisionTimesOutOnAnUnresponsiveCluster(t *testing.T) {
	isolate(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	access := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, devstack.WriteKubeconfig(access, "hub", &rest.Config{Host: "https://" + silent.Addr().String(), BearerToken: "token"}))

	got := drydock(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--kubeconfig", access, "--timeout", "100ms")
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stderr, "exceeded", "a timeout, not a refusal")
}

func TestAnErrorNamesTheClusterThatIsNotAHub(t *testing.T) {
	isolate(t)
	serves := http.NewServeMux() // an API server without CRDs serves only the core group
	for path, answer := range map[string]string{"/api": `{"kind": "APIVersions", "versions": ["v1"]}`, "/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`} {
		serves.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		})
	}
	spoke := httptest.NewServer(serves)
	t.Cleanup(spoke.Close)
	access := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, devstack.WriteKubeconfig(access, "spoke-1", &rest.Config{Host: spoke.URL}))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: the cluster of context spoke-1 (--context) does not serve ManagedClusters (cluster.open-cluster-management.io/v1): name the context of the hub\n",
	}, drydock(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--kubeconfig", access))
}

func TestAPlanNamesClustersThatAreListedTwice(t *testing.T) {
	isolate(t)
	twice := strings.Replace(validRollout, "[spoke-1, spoke-2]", "[spoke-1, spoke-2, spoke-2]", 1)
	require.Contains(t, succeeds(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", twice), "--snapshot", file(t, "hub.yaml", hubObjects)),
		"spec.clusters names spoke-2 more than once: each cluster is upgraded once\n")
}

func TestAPlanFromAFile(t *testing.T) {
	isolate(t)
	plan := parsed[rollout.Plan](t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--snapshot", file(t, "hub.yaml", hubObjects))
	require.Equal(t, [][]string{{"spoke-2"}, {"spoke-1"}, {"spoke-3"}}, plan.RemediationPlan)
	require.Equal(t, int32(1), plan.ComputedMaxConcurrency)

	require.Equal(t, `rollout prod/november: 3 clusters in 3 batches, at most 1 at once
BATCH   CLUSTER   NOTE
1       spoke-2   canary
2       spoke-1
3       spoke-3
no limit on failures: after a failed cluster the next one starts; spec.remediationStrategy.maxFailures sets a limit
`, succeeds(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--snapshot", file(t, "hub.yaml", hubObjects)))
}

func TestAPlanNotesWhichClustersAreOffline(t *testing.T) {
	isolate(t)
	available := func(status string) string {
		return "\nstatus: {conditions: [{type: ManagedClusterConditionAvailable, status: \"" + status + "\"}]}\n---"
	}
	hub := file(t, "hub.yaml", strings.NewReplacer(
		"spoke-2, labels: {env: prod}}\n---", "spoke-2, labels: {env: prod}}"+available("Unknown"),
		"spoke-1, labels: {env: prod}}\n---", "spoke-1, labels: {env: prod}}"+available("True"),
	).Replace(hubObjects))
	require.Equal(t, []string{"spoke-2"}, parsed[rollout.Plan](t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--snapshot", hub).Offline)
	require.Contains(t, succeeds(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--snapshot", hub), `
1       spoke-2   canary, offline now
2       spoke-1
`)
}

func TestAPlanWithoutClustersReportsIt(t *testing.T) {
	isolate(t)
	noClusters := strings.NewReplacer("env: prod", "env: prd", "    canaries: [spoke-2]\n", "").Replace(selectingRollout)
	require.Equal(t, `rollout prod/november: 0 clusters in 0 batches, at most 0 at once
no cluster is selected, so the rollout would do nothing and end as Completed; see spec.clusters, spec.clusterLabelSelectors and spec.clusterSelector
`, succeeds(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", noClusters), "--snapshot", file(t, "hub.yaml", hubObjects)))
	plan := parsed[rollout.Plan](t, "upgrade", "plan", "-f", file(t, "cgu.yaml", noClusters), "--snapshot", file(t, "hub.yaml", hubObjects))
	require.Equal(t, "All selected clusters are valid; none is selected", plan.Conditions[0].Message)
}

func TestAPlanUsesTheGivenTime(t *testing.T) {
	isolate(t)
	at := "2027-03-28T02:00:00Z"
	plan := parsed[rollout.Plan](t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--snapshot", file(t, "hub.yaml", hubObjects), "--at", at)
	require.Equal(t, at, plan.Conditions[0].LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"))

	got := drydock(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout), "--at", "tomorrow")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, `--at "tomorrow" is not a time such as 2026-11-20T22:00:00Z`)
}

func TestAnInvalidPlanIsPrintedAndRefused(t *testing.T) {
	isolate(t)
	snapshot := file(t, "hub.yaml", hubObjects)
	got := drydockWith(t, validRollout, "upgrade", "plan", "-f", "-", "--snapshot", snapshot)
	require.Equal(t, exitDone, got.status)

	wanted := file(t, "cgu.yaml", `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: november, namespace: prod}
spec:
  clusters: [spoke-1, spoke-7, spoke-8]
  remediationStrategy: {maxConcurrency: 1}
  nodeMaintenance: {}
`)
	got = drydock(t, "upgrade", "plan", "-f", wanted, "--snapshot", snapshot, "-o", "json")
	require.Equal(t, exitFailed, got.status)
	var plan rollout.Plan
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &plan))
	require.Equal(t, "ClusterNotFound", plan.Conditions[0].Reason)
	require.Contains(t, got.stderr, "error: rollout prod/november cannot start: ")
	require.Contains(t, got.stderr, "spoke-7")
	require.Contains(t, got.stderr, "spoke-8")
}

func TestUnreadableObjectsInAFileAreInvalidInput(t *testing.T) {
	isolate(t)
	blocked := file(t, "cgu.yaml", strings.TrimSpace(validRollout)+"\n  blockingCRs: [{name: october, namespace: prod}]\n")
	for name, tt := range map[string]struct {
		args             []string
		objects, problem string
	}{
		"a saved rollout without content": {
			[]string{"upgrade", "plan", "-f", blocked},
			hubObjects + "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {namespace: drydock-system, name: rollout.prod.october}, data: {some: text}}", "ConfigMap drydock-system/rollout.prod.october is not Drydock's",
		},
		"a policy with invalid clusters": {
			[]string{"upgrade", "plan", "-f", blocked},
			hubObjects + "\n---\n{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: prod, name: p}, status: {status: {}}}", "prod/p: status.status: must be a list",
		},
		"two configurations": {
			[]string{"node", "schedule"},
			"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: drydock-system, name: a}}\n---\n" +
				"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: drydock-system, name: b}}", "2 MaintenanceOperatorConfigs found (drydock-system/a, drydock-system/b)",
		},
		"an empty configuration": {
			[]string{"node", "schedule"},
			"{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: a, name: default}, spec: {maxUnavailable: 50 %}}", "a/default: spec.maxUnavailable: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := drydock(t, append(tt.args, "--snapshot", file(t, "objects.yaml", tt.objects))...)
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, tt.problem)
			require.Empty(t, got.stdout)
		})
	}
}

func TestAPlanShowsTheFirstPolicyOfEachCluster(t *testing.T) {
	isolate(t)
	got := drydockWith(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: november}
spec:
  clusters: [spoke-1]
  remediationStrategy: {maxConcurrency: 1}
  managedPolicies: [p1]
`, "upgrade", "plan", "-f", "-", "--snapshot", file(t, "hub.yaml", hubObjects+`
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {name: p1, namespace: policies}
spec: {remediationAction: inform, policy-templates: []}
status: {status: [{clustername: spoke-1, clusternamespace: spoke-1, compliant: NonCompliant}]}
`))
	require.Equal(t, exitDone, got.status)
	require.Contains(t, got.stdout, "1       spoke-1   from policy p1\n")
	require.Empty(t, got.stderr)
}

func TestADecisionWithoutSnapshotAndKubeconfigNamesTheFlags(t *testing.T) {
	isolate(t)
	got := drydock(t, "upgrade", "plan", "-f", file(t, "cgu.yaml", selectingRollout))
	require.Equal(t, outcome{
		status: exitUsage,
		stderr: "error: no kubeconfig: set --kubeconfig or KUBECONFIG, or work offline with --snapshot (see drydock upgrade plan --help)\n",
	}, got)
}

const nodeObjects = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: worker-1}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-1
    namespace: shop
    labels: {app: web}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]
  spec: {nodeName: worker-1, containers: [{name: web}]}
  status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: bare, namespace: shop}
  spec: {nodeName: worker-1, containers: [{name: bare}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: elsewhere, namespace: shop}
  spec: {nodeName: worker-2, containers: [{name: bare}]}
  status: {phase: Running}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: shop}
  spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
  status: {disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3}
`

const forcedMaintenance = `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: m}
spec:
  requestorID: kim.example.com
  nodeName: worker-1
  drainSpec: {force: true}
`

func TestADrainPreviewFromAFile(t *testing.T) {
	isolate(t)
	objects := file(t, "node.yaml", nodeObjects)
	got := drydock(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", objects, "-o", "json")
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: node worker-1 cannot be drained: 1 pod without a controller, which only force evicts: shop/bare\n", got.stderr)
	require.JSONEq(t, `{"pods": [
		{"namespace": "shop", "name": "bare", "action": "block", "reason": "NoController"},
		{"namespace": "shop", "name": "web-1", "action": "evict", "reason": "", "owner": "ReplicaSet/web", "budgets": ["shop/web"]}
	], "drainable": false}`, withoutMessages(t, got.stdout))

	forced := file(t, "request.yaml", forcedMaintenance)
	table := succeeds(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", objects, "-f", forced)
	require.Regexp(t, `(?m)^shop +web-1 +evict +ReplicaSet/web +shop/web`, table)
	require.Contains(t, table, "2 pods: 2 to evict, 0 to skip, 0 blocking\n")
	require.Equal(t, "shop/bare\nshop/web-1\n", succeeds(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", objects, "-f", forced, "-o", "name"))
	waits := file(t, "waits.yaml", strings.Replace(nodeObjects, "disruptionsAllowed: 1, currentHealthy: 3", "disruptionsAllowed: 0, currentHealthy: 2", 1))
	require.Contains(t, succeeds(t, "node", "preview", "worker-1", "--snapshot", waits, "-f", forced), "2 pods: 2 to evict (1 once the budget allows it), 0 to skip, 0 blocking\n")
}

// withoutMessages removes messages.
func withoutMessages(t *testing.T, text string) string {
	t.Helper()
	var preview drain.Preview
	require.NoError(t, json.Unmarshal([]byte(text), &preview))
	for i := range preview.Pods {
		preview.Pods[i].Message = ""
	}
	plain, err := json.Marshal(preview)
	require.NoError(t, err)
	return string(plain)
}

func TestASnapshotMayBeCompressed(t *testing.T) {
	isolate(t)
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err := writer.Write([]byte(nodeObjects))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	path := filepath.Join(t.TempDir(), "node.yaml.gz")
	require.NoError(t, os.WriteFile(path, compressed.Bytes(), 0o600))
	require.Equal(t, exitFailed, drydock(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", path).status)
}

func TestAnInvalidDrainPreviewIsRefused(t *testing.T) {
	isolate(t)
	objects := file(t, "node.yaml", nodeObjects)
	tests := []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{
			name:   "without --dry-run, the error explains how to drain",
			args:   []string{"worker-1"},
			status: exitUsage,
			stderr: "error: drain is only a preview, which is `drydock node preview worker-1`; to take the node out of service, use `drydock node maintain worker-1` (see drydock node drain --help)\n",
		},
		{
			name:   "a missing node is named",
			args:   []string{"worker-9", "--dry-run", "--snapshot", objects},
			status: exitFailed,
			stderr: "error: node worker-9 not found in " + objects + "\n",
		},
		{
			name:   "a maintenance of another node is refused",
			args:   []string{"worker-2", "--dry-run", "--snapshot", objects, "-f", file(t, "request.yaml", forcedMaintenance)},
			status: exitUsage,
		},
		{
			name:   "a cluster and a file exclude each other",
			args:   []string{"worker-1", "--dry-run", "--snapshot", objects, "--context", "spoke-1"},
			status: exitUsage,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := drydock(t, append([]string{"node", "drain"}, tt.args...)...)
			require.Equal(t, tt.status, got.status, got.stderr)
			require.Empty(t, got.stdout)
			if tt.stderr != "" {
				require.Equal(t, tt.stderr, got.stderr)
			}
		})
	}
}

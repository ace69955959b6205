package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/drain"
)

// podText is a running, ready pod of ReplicaSet web on worker-1, in the flow style of YAML, with more metadata, spec and status.
func podText(name, metadata, spec, status string) string {
	owner := "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}], "
	if strings.Contains(metadata, "ownerReferences") {
		owner = ""
	}
	if spec == "" {
		spec = "containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]"
	}
	if status == "" {
		status = `phase: Running, conditions: [{type: Ready, status: "True"}]`
	}
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: %s, %s%s}, spec: {nodeName: worker-1, %s}, status: {%s}}\n",
		name, owner, metadata, spec, status)
}

func budgetText(name, app string, minAvailable, allowed, healthy, expected int) string {
	return fmt.Sprintf("---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: shop, name: %s}, spec: {minAvailable: %d, selector: {matchLabels: {app: %s}}}, "+
		"status: {disruptionsAllowed: %d, currentHealthy: %d, desiredHealthy: %d, expectedPods: %d}}\n", name, minAvailable, app, allowed, healthy, minAvailable, expected)
}

// everyReason returns a node and a pod for each reason.
func everyReason() string {
	labels := func(app string) string { return "labels: {take: yes, app: " + app + "}" }
	owned := func(kind, name string) string {
		return fmt.Sprintf("%s, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: u, controller: true}]", labels("x"), kind, name)
	}
	terminating := func(ends string) string {
		return labels("x") + ", deletionTimestamp: " + ends + ", deletionGracePeriodSeconds: 30"
	}
	gpu := "containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]"
	return strings.ReplaceAll(`{apiVersion: v1, kind: Node, metadata: {name: worker-1}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: shop, name: agent}}
`+podText("plain", labels("x"), "", "")+
		podText("daemon-set", owned("DaemonSet", "agent"), "", "")+
		podText("mirror", labels("x")+", annotations: {kubernetes.io/config.mirror: hash}", "", "")+
		podText("selector", "labels: {app: x}", "", "")+
		podText("resource-filter", labels("x"), "containers: [{name: c, resources: {requests: {cpu: 1}}}]", "")+
		podText("sidecar", labels("x"), "initContainers: [{name: s, restartPolicy: Always, resources: {requests: {nvidia.com/gpu: 1}}}], containers: [{name: c}]", "")+
		podText("finished", labels("x"), "", "phase: Succeeded")+
		podText("terminating", terminating(`"2026-11-20T12:00:00Z"`), "", "")+
		podText("forgotten", terminating(`"2026-11-20T11:00:00Z"`), "", "")+
		podText("no-controller", labels("x")+", ownerReferences: []", "", "")+
		podText("local-storage", labels("x"), gpu+", volumes: [{name: v, emptyDir: {}}]", "")+
		podText("daemon-set-gone", owned("DaemonSet", "other"), "", "")+
		podText("budget", labels("web"), "", "")+
		podText("never", labels("db"), "", "")+
		podText("multiple", labels("both"), "", "")+
		budgetText("web", "web", 2, 0, 2, 3)+budgetText("db", "db", 1, 0, 1, 1)+budgetText("one", "both", 1, 1, 2, 2)+budgetText("two", "both", 1, 1, 2, 2),
		"take: yes", `take: "yes"`)
}

const gpuMaintenance = `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: m}
spec:
  requestorID: kim.example.com
  nodeName: worker-1
  drainSpec:
    podSelector: take=yes
    skipWaitForDeleteSeconds: 60
    podEvictionFilters: [{byResourceNameRegex: ^nvidia.com/}]
`

func TestADryRunDocumentsEveryReason(t *testing.T) {
	isolate(t)
	got := drydock(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", file(t, "node.yaml", everyReason()),
		"-f", file(t, "request.yaml", gpuMaintenance), "--at", "2026-11-20T12:00:30Z", "-o", "json")
	require.Equal(t, exitFailed, got.status, got.stderr)
	var preview drain.Preview
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &preview))
	decided := map[string]string{}
	for _, pod := range preview.Pods {
		decided[pod.Name] = string(pod.Action) + " " + string(pod.Reason)
	}
	require.Equal(t, map[string]string{
		"plain": "evict ", "sidecar": "evict ",
		"daemon-set": "skip DaemonSet", "mirror": "skip Mirror", "selector": "skip Selector", "resource-filter": "skip ResourceFilter",
		"finished": "evict Finished", "terminating": "evict Terminating", "forgotten": "skip Terminating",
		"no-controller": "block NoController", "local-storage": "block LocalStorage", "daemon-set-gone": "block DaemonSetGone",
		"budget": "evict DisruptionBudget", "never": "block DisruptionBudgetNever", "multiple": "block MultipleBudgets",
	}, decided)
	require.False(t, preview.Drainable)
	declared, err := os.ReadFile("../internal/drain/decision.go")
	require.NoError(t, err)
	reasons := regexp.MustCompile(`\bReason\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(declared), -1)
	require.NotEmpty(t, reasons)
	for _, reason := range reasons {
		require.True(t, slices.ContainsFunc(preview.Pods, func(pod drain.Decision) bool { return string(pod.Reason) == reason[1] }),
			"add a pod with the reason %s to everyReason", reason[1])
	}
}

func TestADryRunShowsTheEvictionOrder(t *testing.T) {
	isolate(t)
	objects := file(t, "node.yaml", nodeObjects)
	require.NotContains(t, drydock(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", objects).stdout, "ORDER", "the order column needs an order")

	ordered := file(t, "request.yaml", strings.Replace(forcedMaintenance, "{force: true}", "{force: true, podOrder: [{podSelector: app=web, order: -5}]}", 1))
	table := succeeds(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", objects, "-f", ordered)
	require.Regexp(t, `(?s)^ORDER +NAMESPACE.*\n +-5 +shop +web-1 +evict.*\n +0 +shop +bare +evict`, table)
}

func TestAnInvalidOrderIsRefusedWithItsField(t *testing.T) {
	isolate(t)
	bad := file(t, "request.yaml", strings.Replace(forcedMaintenance, "{force: true}", "{podOrder: [{podSelector: app=web, order: 1}, {podSelector: app in, order: 2}]}", 1))
	got := drydock(t, "node", "drain", "worker-1", "--dry-run", "--snapshot", file(t, "node.yaml", nodeObjects), "-f", bad)
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "spec.drainSpec.podOrder[1].podSelector")
}

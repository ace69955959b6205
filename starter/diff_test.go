package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// differs runs diff on a text, with the exit status of kubectl diff.
func differs(t *testing.T, status int, text string, more ...string) outcome {
	t.Helper()
	got := drydock(t, append([]string{"diff", "-f", file(t, "edited.yaml", text)}, more...)...)
	require.Equal(t, status, got.status, got.stderr)
	return got
}

// requireDiffsOfChanged compares the rollout prod/changed, which is not enabled, with its file and with edits of it.
func requireDiffsOfChanged(t *testing.T, text, fewer string) {
	t.Helper()
	require.Equal(t, outcome{}, differs(t, exitDone, text))
	got := differs(t, exitFailed, fewer)
	require.Contains(t, got.stdout, "--- current\n+++ edited\n")
	require.Contains(t, got.stdout, "\n   - spoke-2\n-  - spoke-3\n")
	require.Contains(t, got.stdout, "\nclusters that leave the rollout: spoke-3\n")
	require.Empty(t, got.stderr)
	var found editDiff
	precaching := strings.Replace(fewer, "spec:", "spec:\n  preCaching: true", 1)
	require.NoError(t, json.Unmarshal([]byte(differs(t, exitFailed, precaching, "-o", "json").stdout), &found))
	require.Equal(t, []string{"spec.clusters", "spec.preCaching"}, found.Changed)
	require.NotEmpty(t, found.Plan.Problems, "nothing says what to precache")
	require.Contains(t, differs(t, exitFailed, precaching).stdout, "\nthe rollout would wait, because its plan has an error: ")
	enabled := differs(t, exitFailed, strings.Replace(text, "enable: false", "enable: true", 1))
	require.Contains(t, enabled.stdout, "\nthe rollout is enabled: it starts with a valid plan\n")

	elsewhere := differs(t, exitFailed, strings.Replace(text, "name: changed", "name: nowhere", 1))
	require.Contains(t, elsewhere.stdout, "rollout prod/nowhere is not running, so it would be started\n--- current\n+++ edited\n")
	require.Contains(t, elsewhere.stdout, "\n+  - spoke-3\n")
	require.Contains(t, differs(t, exitUsage, strings.Replace(text, "clusters:", "cluster:", 1)).stderr, "spec.cluster: unknown field")
	require.Contains(t, differs(t, exitUsage, maintenanceText).stderr, "error: no cluster: set --cluster or DRYDOCK_CLUSTER")
}

const maintenanceText = `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: worker-1-kim.example.com, namespace: default}
spec: {requestorID: kim.example.com, nodeName: worker-1, drainSpec: {force: true, timeoutSeconds: 300}}
`

// requireDiffsOfADrain compares a maintenance whose node is drained with edits of it.
func requireDiffsOfADrain(t *testing.T) {
	t.Helper()
	got := differs(t, exitFailed, maintenanceText)
	require.Contains(t, got.stdout, "+    force: true\n")
	require.Contains(t, got.stdout, "\nthe drain begins again\n")
	joins := strings.Replace(maintenanceText, "nodeName:", "additionalRequestors: [lee.example.com], nodeName:", 1)
	require.Contains(t, differs(t, exitFailed, joins).stdout, "\nrequestor lee.example.com joins\n")
	got = differs(t, exitUsage, strings.Replace(maintenanceText, "nodeName: worker-1", "nodeName: worker-2", 1))
	require.Contains(t, got.stdout, "-  nodeName: worker-1\n")
	require.Contains(t, got.stdout, "+  nodeName: worker-2\n")
	require.Contains(t, got.stderr, "error: edit maintenance default/worker-1-kim.example.com in cluster spoke-1: spec.nodeName: cannot be changed while the maintenance runs")
}

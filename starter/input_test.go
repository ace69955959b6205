package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const validRollout = `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata:
  name: november
  namespace: prod
spec:
  clusters: [spoke-1, spoke-2]
  remediationStrategy:
    canaries: [spoke-1]
    maxConcurrency: 2
  nodeMaintenance: {}
`

func TestAnInvalidRolloutIsRefusedWithAllErrors(t *testing.T) {
	isolate(t)
	path := file(t, "cgu.yaml", `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: november}
spec:
  clusters: [spoke-1]
  colour: blue
  remediationStrategy:
    maxConcurrency: 0
    timeout: soon
`)
	got := drydock(t, "upgrade", "start", "-f", path)
	require.Equal(t, exitUsage, got.status)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "error: "+path+": ClusterGroupUpgrade november: spec.colour: unknown field\n")
	require.Contains(t, got.stderr, "spec.remediationStrategy.maxConcurrency: ")
	require.Contains(t, got.stderr, "spec.remediationStrategy.timeout: ")
}

func TestAnObjectOfAnotherKindIsRefused(t *testing.T) {
	isolate(t)
	got := drydockWith(t, validRollout, "lock", "controller", "start", "-f", "-", "--cluster", "spoke-1")
	require.Equal(t, outcome{status: exitUsage, stderr: "error: stdin: ClusterGroupUpgrade prod/november: is not a WorkloadLockPolicy\n"}, got)
}

func TestANamespaceInAFileMustMatchTheFlag(t *testing.T) {
	isolate(t)
	got := drydockWith(t, validRollout, "upgrade", "start", "-f", "-", "-n", "test")
	require.Equal(t, outcome{
		status: exitUsage,
		stderr: "error: namespace \"prod\" contradicts -n test (see drydock upgrade start --help)\n",
	}, got)
}

func TestMaintenanceFlagsAreValidatedLikeAFileAndErrorsNameTheFlag(t *testing.T) {
	isolate(t)
	got := drydock(t, "node", "maintain", "Worker_1", "--cluster", "spoke-1", "--name", "M_",
		"--requestor", "x", "--additional-requestor", "a.example.com,B", "--pod-selector", "a in (", "--pod-eviction-filter", "nvidia,(", "--drain-timeout", "-1s",
		"--skip-wait-for-delete", "-1s", "--wait-for-pods", "--wait-for-pods-selector", "=", "--wait-for-pods-timeout", "-1s",
		"--health-timeout", "-1s", "--lock-timeout", "0", "--lock-release", strings.Repeat("x", 254), "--maintenance-window", "a/b/c", "--on-drain-timeout", "retry", "--on-failure", "Explode")
	require.Equal(t, exitUsage, got.status)
	for _, flag := range flagsOfFields {
		if flag == "--force" || flag == "--delete-emptydir-data" {
			continue // a boolean is always valid
		}
		require.True(t, strings.Contains(got.stderr, "error: "+flag+": "), "no problem with %s: give it an invalid value in this test", flag)
	}
	require.NotContains(t, got.stderr, "spec.")
	require.Contains(t, got.stderr, "error: --drain-timeout: Invalid value: -1: should be greater than or equal to 0\n")
}

func TestAnErrorDoesNotBlameADefaultName(t *testing.T) {
	isolate(t)
	got := drydock(t, "node", "maintain", "worker_1", "--cluster", "spoke-1")
	require.Equal(t, exitUsage, got.status)
	require.Equal(t, 1, strings.Count(got.stderr, "error: "), got.stderr)
	require.Contains(t, got.stderr, `error: NODE: Invalid value: "worker_1": `)
}

func TestAFlagWithoutItsFeatureIsRefused(t *testing.T) {
	isolate(t)
	for flags, want := range map[string]string{
		"--drain=false --pod-selector=app=web": "--pod-selector: needs --drain",
		"--drain=false --force":                "--force: needs --drain",
		"--wait-for-pods-timeout=1m":           "--wait-for-pods-timeout: needs --wait-for-pods",
	} {
		got := drydock(t, append([]string{"node", "maintain", "worker-1", "--cluster", "spoke-1"}, strings.Fields(flags)...)...)
		require.Equal(t, outcome{status: exitUsage, stderr: "error: " + want + "\n"}, got)
	}
}

func TestADrainTimeoutIsNeverRoundedToZero(t *testing.T) {
	for given, want := range map[time.Duration]int32{0: 0, 500 * time.Millisecond: 1, 90 * time.Second: 90, -time.Millisecond: -1, math.MaxInt64: math.MaxInt32} {
		object := maintainFlags{drain: true, drainTimeout: given, given: func(string) bool { return false }}.object("worker-1")
		require.Equal(t, want, *object.Spec.DrainSpec.TimeoutSeconds, given)
	}
}

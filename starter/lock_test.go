package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/locks"
	locksworkflow "drydock.dev/drydock/workflows/locks"
)

const lockPolicy = `
apiVersion: drydock.dev/v1alpha1
kind: WorkloadLockPolicy
metadata: {name: vrouter}
spec:
  controllerName: vrouter
  nodeSelector: {matchLabels: {role: worker}}
  namespace: network
  nodePodSelector: {matchLabels: {app: vrouter}}
`

func (s *stage) operatesLocks(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	policy := file(t, "policy.yaml", lockPolicy)
	require.Equal(t, "lock controller vrouter in cluster spoke-1 started; see `drydock lock controller status vrouter --cluster spoke-1`\n",
		succeeds(t, "lock", "controller", "start", "-f", policy))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: lock controller vrouter in cluster spoke-1 is already running: see `drydock lock controller status vrouter --cluster spoke-1`\n",
	}, drydock(t, "lock", "controller", "start", "-f", policy))
	require.Equal(t, "lock controller vrouter in cluster spoke-1 is already running\n", succeeds(t, "lock", "controller", "apply", "-f", policy))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: lock controller vrouter in cluster spoke-1 is running with another policy: cancel it with `drydock lock controller cancel vrouter --cluster spoke-1`, and apply the file again\n",
	}, drydock(t, "lock", "controller", "apply", "-f", file(t, "changed.yaml", strings.Replace(lockPolicy, "role: worker", "role: storage", 1))))

	awaitOutput(t, func(s lockControllerStatus) bool { return s.Status.Locks != nil }, "lock", "controller", "status", "vrouter")
	table := succeeds(t, "lock", "controller", "status", "locks/spoke-1/vrouter")
	require.Contains(t, table, "locks of vrouter in cluster spoke-1   Running\n")
	require.Contains(t, table, `
LOCK            STATE      REASON      MESSAGE
cluster         active     NoRequest
node worker-1   inactive   PodReady
2 node locks: 1 active, 1 inactive, 0 failed
`)

	require.Contains(t, succeeds(t, "lock", "controller", "cancel", "vrouter"), "lock controller vrouter in cluster spoke-1 stops")
	awaitOutput(t, func(s lockControllerStatus) bool { return s.Status.State == locksworkflow.Cancelled }, "lock", "controller", "status", "vrouter")
}

func TestTheStatusOfALockControllerShowsProgress(t *testing.T) {
	report := reportedLocks
	report.Progress = locks.Progress{Percentage: 50, Description: "1 out of 2 nodes updated", InactiveNow: 1, Updated: 1, Total: 2}
	var text page
	renderLocks(&text, lockControllerStatus{Status: locksworkflow.Status{Locks: &report}}, time.Time{})
	require.Contains(t, text.String(), "2 node locks: 1 active, 1 inactive, 0 failed\n1 out of 2 nodes updated (50%), 1 inactive now\n")
}

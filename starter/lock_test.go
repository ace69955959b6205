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
	const name = "lock controller vrouter in cluster spoke-1"
	require.Equal(t, name+" already matches the file\n", succeeds(t, "lock", "controller", "apply", "-f", policy))
	require.Equal(t, name+": changed spec.maxInactiveNodes; see `drydock lock controller status vrouter --cluster spoke-1`\n",
		succeeds(t, "lock", "controller", "apply", "-f", file(t, "two.yaml", lockPolicy+"  maxInactiveNodes: 2\n")))
	require.Equal(t, name+": changed spec.maxInactiveNodes, spec.nodePodDeadlineSeconds; see `drydock lock controller status vrouter --cluster spoke-1`\n",
		succeeds(t, "lock", "controller", "edit", "--reason", "slow disks", "-f", file(t, "slow.yaml", lockPolicy+"  nodePodDeadlineSeconds: 1200\n")))
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: lock controller other in cluster spoke-1 not found: see `drydock lock controller list --cluster spoke-1`\n",
	}, drydock(t, "lock", "controller", "edit", "-f", file(t, "other.yaml", strings.Replace(lockPolicy, "controllerName: vrouter", "controllerName: other", 1))))
	require.Equal(t, outcome{}, differs(t, exitDone, lockPolicy+"  nodePodDeadlineSeconds: 1200\n"))
	require.Contains(t, differs(t, exitFailed, lockPolicy+"  nodePodDeadlineSeconds: 1500\n").stdout, "\n-  nodePodDeadlineSeconds: 1200\n+  nodePodDeadlineSeconds: 1500\n")
	prints(t, "(?m)^note: the policy was edited by "+actor()+": slow disks$", "lock", "controller", "status", "vrouter")

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

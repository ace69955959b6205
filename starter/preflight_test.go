package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// warnsWithoutWorker: nothing answers, so the request is started unchecked, unless it must be checked.
func warnsWithoutWorker(t *testing.T) {
	const why = "it was not checked: no worker polls task queue drydock for workflow tasks: start drydock-worker\n"
	started := drydock(t, "upgrade", "start", "-f", file(t, "waiting.yaml", rolloutText("waiting")))
	require.Equal(t, outcome{
		stdout: "rollout prod/waiting started; follow it with `drydock upgrade status prod/waiting --watch`\n",
		stderr: "warning: rollout prod/waiting: " + why,
	}, started)
	refused := drydock(t, "node", "maintain", "worker-1", "--cluster", "spoke-1", "--requestor", "kim.example.com", "--refuse-if-blocked")
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 was not started: " + why,
	}, refused)
	require.Equal(t, outcome{status: exitFailed, stderr: "error: rollout prod/other: " + why},
		drydock(t, "upgrade", "plan", "--drains", "-f", file(t, "other.yaml", rolloutText("other"))))
}

// refusesWhatDoesNotExist: a refused request leaves nothing running.
func (s *stage) refusesWhatDoesNotExist(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	maintain := func(node string, more ...string) outcome {
		return drydock(t, append([]string{"node", "maintain", node, "--requestor", "kim.example.com", "--name", "checked"}, more...)...)
	}
	const subject, id = "maintenance default/checked in cluster spoke-1", "node/spoke-1/default/checked"
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: " + subject + " was not started: spec.nodeName: node worker-9 of cluster spoke-1 does not exist\n",
	}, maintain("worker-9"))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: " + subject + " was not started: spec.maintenanceWindows: window default/none is not defined: `drydock window create -f FILE` defines it\n",
	}, maintain("worker-1", "--maintenance-window", "none"))
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: " + subject + " was not started: cluster spoke-1: the drain of node worker-3 would wait: 1 pod blocked\n",
	}, maintain("worker-3", "--refuse-if-blocked"))
	_, err := s.client.DescribeWorkflow(t.Context(), id, "")
	require.IsType(t, &serviceerror.NotFound{}, err)

	blocked := maintain("worker-3")
	require.Equal(t, "warning: cluster spoke-1: the drain of node worker-3 would wait: 1 pod blocked\n", blocked.stderr)
	require.Contains(t, blocked.stdout, "started")
	succeeds(t, "node", "cancel", "checked")

	unknown := drydock(t, "upgrade", "start", "-f", file(t, "unknown.yaml", strings.Replace(validRollout, "spoke-2]", "spoke-9]", 1)))
	require.Equal(t, outcome{status: exitFailed, stderr: "error: rollout prod/november was not started: spec.clusters: cluster spoke-9 is not a ManagedCluster\n"}, unknown)
	planned := succeeds(t, "upgrade", "plan", "--drains", "-f", file(t, "known.yaml", strings.Replace(validRollout, "nodeMaintenance: {}", "nodeMaintenance: {drainSpec: {}}", 1)))
	require.Contains(t, planned, "rollout prod/november: 2 clusters in ", "the plan is shown, too")
	require.Contains(t, planned, "spoke-1   worker-1       2      1       0\n")
}

// waitsForWhatDoesNotExist: the start follows once the window is defined.
func (s *stage) waitsForWhatDoesNotExist(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	waiting := begin(t, "node", "maintain", "worker-4", "--requestor", "kim.example.com", "--name", "patient", "--maintenance-window", "later", "--wait-for-it")
	require.Eventually(t, func() bool { return waiting.stderr.String() != "" }, patience, tick)
	require.Contains(t, waiting.stderr.String(), "maintenance default/patient in cluster spoke-1 is not started yet; waiting: spec.maintenanceWindows: window default/later is not defined")
	_, err := s.client.DescribeWorkflow(t.Context(), temporal.NodeMaintenanceID("spoke-1", "default", "patient"), "")
	require.IsType(t, &serviceerror.NotFound{}, err)
	halfAYear := fmt.Sprintf("FREQ=DAILY;BYMONTH=%d", time.Now().AddDate(0, 6, 0).Month())
	later := strings.NewReplacer("{name: nightly, namespace: prod}", "{name: later}", "FREQ=DAILY", halfAYear)
	text := later.Replace(springWindow)
	require.Contains(t, differs(t, exitFailed, text).stdout, "window default/later is not running, so it would be started\n--- current\n+++ edited\n")
	succeeds(t, "window", "create", "-f", file(t, "later.yaml", text))
	got := waiting.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	require.Contains(t, got.stdout, "maintenance default/patient in cluster spoke-1 of node worker-4 started")
	require.Contains(t, got.stderr, "window default/later is closed, opens ")
	require.Equal(t, outcome{}, differs(t, exitDone, text))
	longer := differs(t, exitFailed, strings.Replace(text, `endTime: "04:00"`, `endTime: "05:00"`, 1)).stdout
	require.Contains(t, longer, "\n-  endTime: \"04:00\"\n+  endTime: \"05:00\"\n")
	require.Regexp(t, `\nopening \S+T0[01]:30:00Z to \S+T0[34]:00:00Z instead of \S+T0[01]:30:00Z to \S+T0[23]:00:00Z\n`, longer)
	require.Contains(t, differs(t, exitUsage, strings.Replace(text, "Europe/Berlin", "Mars/Olympus", 1)).stderr, "spec.timeZone")
	succeeds(t, "node", "cancel", "patient")
	succeeds(t, "window", "cancel", "later")
}

func TestAClosedWindowIsNamedWithItsNextOpening(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	night := windows.Status{Window: "ops/night", Phase: windows.PhaseClosed, Upcoming: []windows.Opening{{Start: now.Add(10 * time.Hour), End: now.Add(12 * time.Hour)}}}
	require.Equal(t, "window ops/night is closed, opens "+stamp(night.Upcoming[0].Start, now)+"; work waits for it", closedWindow(night, now))
	night.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "lab"}}
	require.Equal(t, "window ops/night is closed, opens "+stamp(night.Upcoming[0].Start, now)+"; work waits for it on clusters with site=lab", closedWindow(night, now))
}

func TestTheAdviceOfDrainsIsGivenOnce(t *testing.T) {
	once := adviceOnce()
	const web, api = "2 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0): set it to 1", "1 pod blocked by PodDisruptionBudget shop/api (its maxUnavailable is 0): set it to 2"
	require.Equal(t, web, once(web))
	require.Equal(t, api, once(api))
	require.Equal(t, "2 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0), as above", once(web))
	require.Equal(t, "1 pod blocked", once("1 pod blocked"))
	require.Equal(t, "1 pod blocked", once("1 pod blocked"))
}

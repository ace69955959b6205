package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/windows"
)

// createWindow creates a window that opens at those times.
func createWindow(t *testing.T, name string, duration time.Duration, starts ...time.Time) {
	t.Helper()
	succeeds(t, "window", "create", "-f", windowFile(t, name, duration, "", starts...))
}

// windowFile writes the manifest of a window with additional spec, and returns its path.
func windowFile(t *testing.T, name string, duration time.Duration, extra string, starts ...time.Time) string {
	t.Helper()
	var dates []string
	for _, start := range starts {
		dates = append(dates, start.UTC().Format("20060102T150405Z"))
	}
	path := filepath.Join(t.TempDir(), "window.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: %s, namespace: default}
spec: {timeZone: UTC, recurrence: "RDATE:%s", duration: %s%s}
`, name, strings.Join(dates, ","), duration, extra), 0o600))
	return path
}

func windowStatus(t *testing.T, name string) windows.Status {
	t.Helper()
	var status windows.Status
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, "window", "status", name, "-o", "json")), &status))
	return status
}

// windowHas reports whether the status of a window is known and satisfies a condition.
func windowHas(t *testing.T, name string, condition func(windows.Status) bool) bool {
	t.Helper()
	var status windows.Status
	return json.Unmarshal([]byte(drydock(t, "window", "status", name, "-o", "json").out), &status) == nil && condition(status)
}

// awaitWindow waits until the status of a window has exactly these events.
func awaitWindow(t *testing.T, name string, last ...windows.EventKind) windows.Status {
	t.Helper()
	var status windows.Status
	require.Eventually(t, func() bool {
		return windowHas(t, name, func(now windows.Status) bool {
			status = now
			return slices.Equal(kindsOf(now), last)
		})
	}, stateLimit, 200*time.Millisecond, "the events of %s: %v", name, &status)
	return status
}

func kindsOf(status windows.Status) []windows.EventKind {
	var kinds []windows.EventKind
	for _, event := range status.Events {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

// inSeconds is a time on a whole second, at least that many seconds ahead.
func inSeconds(seconds int) time.Time {
	return time.Now().Add(time.Duration(seconds)*time.Second + 999*time.Millisecond).Truncate(time.Second)
}

func TestWindowsAreCorrectWhenWorkersMissStartsAndEnds(t *testing.T) {
	alone(t)
	var opens, ends time.Time
	var start, end, opening string
	for lead := 4; ; lead *= 2 { // on a slow machine, more time passes until the worker has stopped
		opens, ends = inSeconds(lead), inSeconds(lead+2)
		start, end, opening = fmt.Sprintf("missed-start-%d", lead), fmt.Sprintf("missed-end-%d", lead), fmt.Sprintf("missed-opening-%d", lead)
		createWindow(t, start, time.Hour, opens)
		createWindow(t, opening, time.Second, opens, inSeconds(3600))
		if lasts := time.Until(ends).Truncate(time.Second); lasts >= 3*time.Second {
			createWindow(t, end, lasts, inSeconds(0))
			require.Eventually(t, func() bool {
				started := func(now windows.Status) bool { return slices.Contains(kindsOf(now), windows.EventStarted) }
				return windowHas(t, end, started) || !time.Now().Before(opens)
			}, stateLimit, 200*time.Millisecond)
			require.NoError(t, theFleet.Worker.Stop())
			if time.Now().Before(opens) {
				break
			}
			require.NoError(t, theFleet.Worker.Start(t.Context()))
		}
		for _, name := range []string{start, opening} {
			succeeds(t, "window", "cancel", name, "--all")
		}
	}
	select { // the opening is at a fixed time, and up to 8 s are not reported as late
	case <-time.After(time.Until(ends.Add(7 * time.Second))):
	case <-t.Context().Done():
	}
	require.NoError(t, theFleet.Worker.Start(t.Context()))

	late := awaitWindow(t, start, windows.EventDefined, windows.EventStarted)
	require.Contains(t, late.Events[1].Message, "late")
	require.Equal(t, windows.PhaseOpen, late.Phase)
	awaitWindow(t, end, windows.EventDefined, windows.EventStarted, windows.EventEnded)
	missed := awaitWindow(t, opening, windows.EventDefined, windows.EventMissed)
	require.Len(t, missed.Upcoming, 1, "it continues with the next opening")
	succeeds(t, "window", "cancel", start, "--all", "--reason", "the test is over")
	succeeds(t, "window", "cancel", opening, "--all")
}

func TestARolloutResumesInTheNextOpeningOfItsWindow(t *testing.T) {
	reserve(t, "spoke-2")
	spoke := theFleet.Cluster("spoke-2")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	before := len(actionsOf(t, spoke))
	startUnchecked(t, rollout("nightly", "maintenanceWindows: [night]", 60, spoke.Name)) // the window is defined later
	waiting := func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Wait != nil && s.Wait.Reason == "WaitingForWindow"
	}
	waitingAs := func(message string) func(ranv1.ClusterGroupUpgradeStatus) bool {
		return func(s ranv1.ClusterGroupUpgradeStatus) bool {
			return waiting(s) && strings.Contains(s.Wait.Message, message)
		}
	}
	awaitStatus(t, "nightly", waitingAs("the window is not defined"))

	first, later := inSeconds(1), inSeconds(1200)
	opensLater := "; it opens " + later.UTC().Format("2006-01-02 15:04:05Z")
	createWindow(t, "night", time.Hour, first, later)
	awaitEviction(t, spoke, slowPod)
	t.Log(succeeds(t, "window", "status", "night"))
	freeze := fmt.Sprintf(`, exclusions: [{name: freeze, effect: trim, scheduledStart: %q, scheduledEnd: %q}]`, first.UTC().Format(time.RFC3339), later.UTC().Format(time.RFC3339))
	succeeds(t, "window", "edit", "-f", windowFile(t, "night", time.Hour, freeze, first, later), "--reason", "a freeze")
	frozen := windowStatus(t, "night")
	require.Equal(t, windows.PhaseExcluded, frozen.Phase)
	require.Equal(t, later.UTC(), frozen.ExcludedUntil.UTC())
	t.Log(succeeds(t, "window", "status", "night"))
	excluded := waitingAs("window default/night is closed by an exclusion" + opensLater)
	awaitStatus(t, "nightly", excluded)
	releasePods(t, spoke, slowPod)
	// The running node finishes, and no other node starts.
	waitsForOpening := awaitStatus(t, "nightly", func(s ranv1.ClusterGroupUpgradeStatus) bool { return excluded(s) && clusterAt(s, 0).Nodes.Done == 2 })
	require.Nil(t, waitsForOpening.Status.Deadline, "the deadline is paused")
	t.Log(succeeds(t, "upgrade", "status", "nightly"))
	t.Log(succeeds(t, "window", "end", "night", "--reason", "the on-call needs the cluster"))
	awaitStatus(t, "nightly", waitingAs("window default/night is closed"+opensLater))
	succeeds(t, "window", "edit", "-f", windowFile(t, "night", time.Hour, "", first, later), "--reason", "no freeze")
	require.Equal(t, windows.PhaseClosed, windowStatus(t, "night").Phase, "an ended opening does not start again")
	require.Equal(t, []string{"control-plane-1", "worker-1"}, fleet.Cordoned(actionsOf(t, spoke)[before:]), "nothing new starts while the window is frozen or closed")
	second := inSeconds(2)
	succeeds(t, "window", "edit", "-f", windowFile(t, "night", time.Hour, "", first, second), "--reason", "sooner")

	ended, code := awaitEnd(t, "nightly")
	require.Zero(t, code)
	require.False(t, ended.Status.CompletedAt.Time.Before(second), "it waited for the second opening")
	actions := actionsOf(t, spoke)[before:]
	require.Equal(t, []string{"control-plane-1", "worker-1", "worker-2"}, fleet.Cordoned(actions))
	requireNoPodEvictedTwice(t, actions)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	require.Eventually(t, func() bool {
		return windowHas(t, "night", func(now windows.Status) bool { return len(now.Subscribers) == 0 })
	}, stateLimit, 200*time.Millisecond, "the rollout has unsubscribed")
	t.Log(succeeds(t, "window", "override", "night", "--for", "1h", "--reason", "CVE-2026-1234"))
	t.Log(succeeds(t, "window", "extend", "night", "--until", time.Now().Add(3*time.Hour).UTC().Format(time.RFC3339)))
	t.Log(succeeds(t, "window", "list"))
	t.Log(succeeds(t, "window", "status", "night"))
	succeeds(t, "window", "cancel", "night", "--all")
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

func TestHoldAndReleaseReportMissingArguments(t *testing.T) {
	isolate(t)
	t.Setenv(clusterVariable, "spoke-1") // hold ignores the variable
	for _, verb := range []string{"hold", "release"} {
		for _, tt := range []struct {
			name    string
			args    []string
			message string
		}{
			{"nothing", nil, "no cluster: set --cluster or --all"},
			{"both", []string{"--all", "--cluster", "c1"}, "--cluster contradicts --all: set one of the two"},
			{"an empty name", []string{"--cluster", "c1", "--cluster", " "}, `clusters[1]: " " is not a name of a cluster`},
			{"a name twice", []string{"--cluster", "c1,c1"}, "clusters[1]: c1 is named twice"},
			{"an operand", []string{"c1"}, `unexpected argument "c1"`},
		} {
			t.Run(verb+" "+tt.name, func(t *testing.T) {
				require.Equal(t, outcome{status: exitUsage, stderr: "error: " + tt.message + " (see drydock " + verb + " --help)\n"},
					drydock(t, append([]string{verb}, tt.args...)...))
			})
		}
	}
}

func TestAHoldIsShownBesideOtherWaits(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	hold := &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood", Since: since}
	const line = "held: every cluster is held since 2026-11-20 12:00:00Z by ann: flood (`drydock release --all`)"
	wait := func(reason string) *drydockv1.Wait {
		return &drydockv1.Wait{Reason: reason, Message: "why", Since: since}
	}

	paused := rolloutStatus{Status: ranv1.ClusterGroupUpgradeStatus{Paused: true, Held: hold, Wait: wait("Paused"), Counts: ranv1.ClusterCounts{Total: 1}}}
	require.Contains(t, paused.frame(since.Time, frameStyle{}), "waiting: Paused: why\n"+line+"\n")
	require.Contains(t, paused.headline(since.Time, frameStyle{}), "   Paused")
	require.Contains(t, paused.wholeLine().text, ": Paused; waiting: Paused: why; "+line)

	held := rolloutStatus{Status: ranv1.ClusterGroupUpgradeStatus{Held: hold, Wait: wait(emergency.ReasonHeld), Counts: ranv1.ClusterCounts{Total: 1, Running: 1}}}
	require.Contains(t, held.frame(since.Time, frameStyle{}), "waiting: Held: why\n")
	require.NotContains(t, held.frame(since.Time, frameStyle{}), line, "it is not shown twice")

	atWork := ranv1.ClusterStatus{Name: "spoke-1", State: ranv1.ClusterRunning, Step: "worker-1: Draining", Held: hold}
	require.Equal(t, "worker-1: Draining; held by ann: flood", nowText(atWork, since.Time, ""))
	require.Equal(t, "spoke-1: running; worker-1: Draining; held by ann: flood", clusterLine(atWork))

	draining := maintenanceStatus{Status: maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeDraining, Held: hold, Wait: wait("DisruptionBudget")}}
	require.Contains(t, draining.frame(since.Time, frameStyle{}), "waiting: DisruptionBudget: why\n"+line)
	require.Contains(t, draining.line(), "DisruptionBudget: why; "+line)
}

// heldIs waits until the status of holds satisfies a condition. The emergency stop may not answer while it continues as new.
func heldIs(t *testing.T, wanted func(holdStatus) bool) holdStatus {
	t.Helper()
	return awaitOutput(t, wanted, "hold", "status")
}

// only reports whether exactly these scopes are held.
func only(scopes ...string) func(holdStatus) bool {
	return func(s holdStatus) bool { return slices.Equal(scopeNames(s.Holds), scopes) }
}

func holdWithoutWorker(t *testing.T) {
	require.Equal(t, "nothing is held\n", succeeds(t, "hold", "status"))
	require.Equal(t, outcome{status: exitFailed, stderr: "error: release: nothing is held\n"}, drydock(t, "release", "--all"))
	got := drydock(t, "hold", "--cluster", "spoke-9", "--reason", "night")
	require.Equal(t, exitDone, got.status, got.stderr)
	require.Contains(t, got.stderr, "no worker answers, so nothing new starts now. The hold is saved")
	prints(t, "the holds are unknown while no worker answers", "doctor")
}

func (s *stage) holdsAndReleases(t *testing.T) {
	require.Equal(t, "night", heldIs(t, only("cluster/spoke-9")).Holds[0].Reason, "the hold that was requested without a worker")
	releases(t, `^cluster spoke-9 is released; it was held for \S+ by \S+: night\n$`, "--cluster", "spoke-9")

	held := succeeds(t, "hold", "--all", "--reason", "flood in hall 2")
	require.Regexp(t, `^(already held: )?every cluster is held since \S+T\S+ by \S+: flood in hall 2(; running steps finish, no new one starts; `+
		"`drydock release --all` continues)?\n", held)
	require.Regexp(t, "\\d+ workflows? (is|are) notified; see `drydock hold status`\n", held, "schedulers of slots, too")
	require.Regexp(t, `^already held: every cluster is held since .*: (flood in hall 2; now held by \S+: fire|fire)\n`, succeeds(t, "hold", "--all", "--reason", "fire"))
	require.Regexp(t, `(?m)^every cluster +\S+ ago +\S+ +fire +drydock release --all$`, succeeds(t, "hold", "status"))
	require.Equal(t, "all\n", succeeds(t, "hold", "status", "-o", "name"))
	prints(t, `WARNING +emergency stop +every cluster is held since .*: fire; not saved on the hub: there is no hub\n +fix: when the emergency is over, `+"`drydock release --all`\n", "doctor")
	require.Equal(t, exitFailed, drydock(t, "doctor", "--strict").status, "CI fails while clusters are held")

	startRollout(t, "flooded")
	waits := reaches(t, "flooded", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return status.Wait != nil && status.Wait.Reason == emergency.ReasonHeld
	})
	require.Equal(t, "fire", waits.Status.Held.Reason)
	require.Equal(t, "fire", waits.Status.Clusters[0].Held.Reason)
	require.Zero(t, waits.Status.Counts.Running)
	require.Regexp(t, `rollout prod/flooded   Held .*\nwaiting: Held.*: every cluster is held since`, succeeds(t, "upgrade", "status", "prod/flooded"))
	require.Eventually(t, func() bool { return strings.Contains(drydock(t, "upgrade", "list").stdout, "Held") }, patience, tick)

	t.Setenv(clusterVariable, "spoke-2")
	succeeds(t, "node", "maintain", "worker-2", "--requestor", "kim.example.com")
	awaitOutput(t, func(s maintenanceStatus) bool {
		return s.Status.State == maintenancev1.NodePending && s.Status.Held != nil && s.Status.Wait != nil && s.Status.Wait.Reason == emergency.ReasonHeld
	}, "node", "status", "worker-2-kim.example.com")
	require.Contains(t, succeeds(t, "node", "status", "worker-2-kim.example.com"), "waiting: Held")
	require.Eventually(t, func() bool { return strings.Contains(drydock(t, "node", "list").stdout, "Pending (held)") }, patience, tick)
	watch := begin(t, "node", "status", "worker-2-kim.example.com", "--watch")
	watch.prints(t, "worker-2: Pending; Held: every cluster is held since")

	require.Contains(t, drydock(t, "hold", "--cluster", "spoke-1").stdout, "cluster spoke-1 is held since")
	require.Equal(t, exitFailed, drydock(t, "release", "--cluster", "spoke-2").status)
	require.Contains(t, drydock(t, "release", "--cluster", "spoke-2").stderr, "error: release: clusters[0]: spoke-2 is not held by its name; held is every cluster (`drydock release --all`), cluster spoke-1")
	releases(t, "^every cluster is released.*\nstill held: cluster spoke-1 is held since .* \\(`drydock release --cluster spoke-1`\\)\n$", "--all")
	watch.prints(t, "worker-2: Ready")
	succeeds(t, "node", "cancel", "worker-2-kim.example.com")
	watch.end(t)

	require.Equal(t, "spoke-1", reaches(t, "flooded", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return status.Held != nil && status.Held.Scope.Cluster() != ""
	}).Status.Held.Scope.Cluster(), "the canary is held by its name, too")
	releases(t, "^cluster spoke-1 is released", "--cluster", "spoke-1")
	reaches(t, "flooded", clustersRunning)
}

// releases releases a hold, and requires what is printed unless the command was repeated and had succeeded the first time.
func releases(t *testing.T, expression string, args ...string) {
	t.Helper()
	got, attempts := attempt(t, "", append([]string{"release"}, args...)...)
	if got.status == exitDone {
		assert.Regexp(t, expression, got.stdout)
		return
	}
	assert.Greater(t, attempts, 1, got.stderr)
	assert.Regexp(t, "is not held by its name|not every cluster is held", got.stderr)
}

// holdsUnderLoad holds and releases concurrently while the emergency stop continues as new every forty events: no request is lost,
// and the running rollout receives the last state.
func (s *stage) holdsUnderLoad(t *testing.T) {
	first, err := s.client.DescribeWorkflow(t.Context(), temporal.EmergencyStopID, "")
	require.NoError(t, err)
	var people sync.WaitGroup
	for person := range 4 {
		people.Go(func() {
			cluster := fmt.Sprintf("hall-%d", person)
			for range 5 {
				got := drydock(t, "hold", "--cluster", cluster)
				assert.Equal(t, exitDone, got.status, got.stderr)
				releases(t, "^cluster "+cluster+" is released", "--cluster", cluster)
			}
		})
	}
	people.Wait()
	heldIs(t, only())
	last, err := s.client.DescribeWorkflow(t.Context(), temporal.EmergencyStopID, "")
	require.NoError(t, err)
	require.NotEqual(t, first.WorkflowExecution.RunID, last.WorkflowExecution.RunID, "the emergency stop continued as new")

	require.Equal(t, exitDone, drydock(t, "hold", "--cluster", "spoke-1", "--reason", "the last request").status)
	reaches(t, "flooded", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return status.Held != nil && status.Held.Reason == "the last request"
	})
	heldIs(t, only("cluster/spoke-1"))
	succeeds(t, "upgrade", "cancel", "prod/flooded")
	s.unsubscribes(t, temporal.ClusterGroupUpgradeID("prod", "flooded"))
	releases(t, "^cluster spoke-1 is released", "--cluster", "spoke-1")
}

// unsubscribes waits until the emergency stop has received from a workflow that it ends its subscription.
func (s *stage) unsubscribes(t *testing.T, workflowID string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var sent int64
		history := s.client.GetWorkflowHistory(t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for history.HasNext() {
			event, err := history.Next()
			if err != nil {
				return false
			}
			if signal := event.GetSignalExternalWorkflowExecutionInitiatedEventAttributes(); signal.GetSignalName() == temporal.SignalUnsubscribeHolds {
				sent = event.EventId
			}
			if received := event.GetExternalWorkflowExecutionSignaledEventAttributes(); received != nil && received.InitiatedEventId == sent {
				return true
			}
		}
		return false
	}, patience, tick)
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/conditions"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// ago returns an instant before noon.
func ago(d time.Duration) *metav1.Time {
	at := metav1.NewTime(noon.Add(-d))
	return &at
}

// atNoon returns a rollout in its second batch: one cluster is done, one is running, one has not started.
func atNoon() rolloutStatus {
	status := rolloutStatus{
		Metadata: observe.RefOf("cgu/prod/november", "run"),
		Status: ranv1.ClusterGroupUpgradeStatus{
			RemediationPlan: [][]string{{"spoke-1"}, {"spoke-2", "spoke-3"}},
			Clusters: []ranv1.ClusterStatus{
				{
					Name: "spoke-1", State: ranv1.ClusterComplete, Batch: 1, Nodes: ranv1.NodeCounts{Total: 4, Done: 4, Evicted: 11},
					StartedAt: ago(10 * time.Minute), CompletedAt: ago(7 * time.Minute),
				},
				{
					Name: "spoke-2", State: ranv1.ClusterRunning, Batch: 2, Nodes: ranv1.NodeCounts{Total: 4, Done: 1}, StartedAt: ago(7 * time.Minute),
					Step: "worker-2: Draining", Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3", Since: ago(2 * time.Minute),
					LockProgress: []drydockv1.LockProgress{{Controller: "tf", Percentage: 33, Description: "1 out of 3 nodes updated", InactiveNow: 1, Updated: 1, Total: 3}},
				},
				{Name: "spoke-3", State: ranv1.ClusterPending, Batch: 2},
				{Name: "spoke-4", State: ranv1.ClusterSkipped, Reason: "AlreadyCompliant", Message: "nothing to do"},
			},
			Status: ranv1.RunStatus{
				StartedAt: ago(10 * time.Minute), CurrentBatch: 2, CurrentBatchStartedAt: ago(7 * time.Minute),
				CurrentBatchDeadline: ago(-14 * time.Minute), Deadline: ago(-4 * time.Hour),
			},
		},
	}
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	status.Status.Percentage = rollout.Percentage(status.Status.Clusters)
	status.Status.Status.Estimate = rollout.Estimate(&status.Status, 0, noon)
	conditions.Set(&status.Status.Conditions, ranv1.ConditionProgressing, metav1.ConditionTrue, ranv1.ReasonInProgress, "Maintaining nodes", noon)
	return status
}

func TestTheFrameOfARunningRollout(t *testing.T) {
	require.Equal(t, `rollout prod/november   Blocked   batch 2 of 2 (times out in 14m)   started 10m ago (times out in 4h)
[#############...................]  41%  1 of 4 clusters complete, 1 running, 1 skipped, 1 pending; 5 nodes done, 11 pods evicted
end unknown: spoke-2 is blocked: budget shop/web allows 0 of 3; the batch times out at `+clock(noon.Add(14*time.Minute), noon)+`

BATCH   CLUSTER   STATE      NODES   NOW
1       spoke-1   complete   4/4     took 3m
2       spoke-2   running    1/4     worker-2: Draining; DisruptionBudget for 2m: budget shop/web allows 0 of 3; tf 1 out of 3 nodes updated (33%)
        spoke-3   pending
        spoke-4   skipped            AlreadyCompliant: nothing to do`, atNoon().frame(noon, frameStyle{}))
}

func TestARolloutThatWorksSaysAtWhat(t *testing.T) {
	status := atNoon()
	status.Status.Clusters[1].Since = ago(time.Second)
	status.Status.Wait = &drydockv1.Wait{Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3", Since: *ago(time.Second)}
	status.Status.Conditions[0].Message = "DisruptionBudget; Maintaining nodes"
	require.Contains(t, status.frame(noon, frameStyle{}), "   Running   batch 2 of 2 (times out in 14m)   started 10m ago (times out in 4h)\nMaintaining nodes\n[####")
	require.Equal(t, "rollout prod/november: Running: Maintaining nodes", status.wholeLine().text, "a wait that often ends by itself is brief")
}

func TestTheFrameOfAFailedRolloutNamesItsRetry(t *testing.T) {
	const retry = "retry the clusters that failed or timed out: `drydock upgrade retry prod/november`"
	const both = "retry the clusters that failed or timed out, and continue with the others: `drydock upgrade retry prod/november --unfinished`"
	status := atNoon()
	status.Status.Clusters[1].State = ranv1.ClusterFailed
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	status.Status.Status.CompletedAt = ago(0)
	require.Contains(t, status.frame(noon, frameStyle{}), "\n"+both, "a retry of the failed one alone would count the other as cancelled")
	status.Status.Status.CompletedAt, status.Status.Clusters[2].State = nil, ranv1.ClusterComplete
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	require.NotContains(t, status.frame(noon, frameStyle{}), retry, "it still runs")
	status.Status.Status.CompletedAt = ago(0)
	require.Contains(t, status.frame(noon, frameStyle{}), "\n"+retry)
	status.Status.Clusters[1].State = ranv1.ClusterComplete
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	require.NotContains(t, status.frame(noon, frameStyle{}), retry, "there is nothing to retry")
}

func TestTheEstimateIsARangeUnlessAllDurationsAreEqual(t *testing.T) {
	in := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }
	status := atNoon().Status
	status.Clusters[1].Reason, status.Clusters[1].Since = "Evicting", ago(0)
	status.Status.Estimate = &ranv1.Estimate{Earliest: in(9 * time.Minute), End: in(12 * time.Minute), Latest: in(15 * time.Minute)}
	bound := "end unknown: it takes longer than expected; the %s times out at "
	for after, text := range map[time.Duration]string{
		0:                "ends in about 12m (9m to 15m)",
		11 * time.Minute: "ends in about 60s (0s to 4m)",
		12 * time.Minute: fmt.Sprintf(bound, "batch") + clock(noon.Add(14*time.Minute), noon),
		time.Hour:        fmt.Sprintf(bound, "rollout") + clock(noon.Add(4*time.Hour), noon),
		5 * time.Hour:    "end unknown: it takes longer than expected",
	} {
		now := noon.Add(after)
		require.Equal(t, text, expectationText(rollout.ExpectationOf(&status, now), now))
	}
}

func TestABlockedRolloutHasABoundAndNoEstimate(t *testing.T) {
	status := atNoon()
	c := &status.Status.Clusters[1]
	c.Reason, c.Until = "DisruptionBudgetNever", new(metav1.NewTime(noon.Add(5*time.Minute)))
	c.Message = "3 pods blocked by PodDisruptionBudget shop/web (its maxUnavailable is 0): set it to 1 or more"
	status.Status.Wait = &drydockv1.Wait{Reason: ranv1.ReasonBatchInProgress, Message: "batch 2 of 2: clusters running: 1", Since: *ago(time.Minute)}
	status.Status.Wait = rollout.DeepestWait(&status.Status)

	end := clock(c.Until.Time, noon)
	require.Equal(t, `rollout prod/november   Blocked   batch 2 of 2 (times out in 14m)   started 10m ago (times out in 4h)
waiting: DisruptionBudgetNever for 2m (until `+end+`): batch 2 of 2: spoke-2: worker-2: Draining: `+c.Message+`
[#############...................]  41%  1 of 4 clusters complete, 1 running, 1 skipped, 1 pending; 5 nodes done, 11 pods evicted
end unknown: spoke-2 is blocked: 3 pods blocked by PodDisruptionBudget shop/web; this step gives up at `+end+`

BATCH   CLUSTER   STATE      NODES   NOW
1       spoke-1   complete   4/4     took 3m
2       spoke-2   running    1/4     worker-2: Draining; DisruptionBudgetNever for 2m; tf 1 out of 3 nodes updated (33%)
        spoke-3   pending
        spoke-4   skipped            AlreadyCompliant: nothing to do`, status.frame(noon, frameStyle{}))
	printed, err := json.Marshal(status)
	require.NoError(t, err)
	require.NotContains(t, string(printed), `"estimate"`)
}

func TestTheFrameOfAPausedRolloutShowsItsWait(t *testing.T) {
	status := atNoon()
	status.Status.Paused = true
	status.Status.Wait = &drydockv1.Wait{Reason: "Paused", Message: "paused by kim", Since: *ago(time.Minute)}
	frame := status.frame(noon, frameStyle{})
	require.Contains(t, frame, "rollout prod/november   Paused   ")
	require.Contains(t, frame, "\nwaiting: Paused for 60s: paused by kim\n")
	require.Contains(t, frame, "\ncontinue: `drydock upgrade resume prod/november`")
}

func TestTheFrameNamesTheNextStepOfAPerson(t *testing.T) {
	status := atNoon()
	status.Status.Wait = &drydockv1.Wait{Reason: ranv1.ReasonWaitingForApproval, Message: "an approver must approve batch 2", Since: *ago(time.Minute)}
	status.Status.Conditions[0].Message = "WaitingForApproval; Maintaining nodes"
	frame := status.frame(noon, frameStyle{})
	require.Contains(t, frame, "\napprove the next batch: `drydock upgrade approve prod/november`")
	require.Contains(t, frame, "started 10m ago (times out in 4h)\nwaiting: WaitingForApproval", "a rollout that waits maintains no nodes")
	status.Status.Wait.Reason = ranv1.ReasonNotEnabled
	require.Contains(t, status.frame(noon, frameStyle{}), "\nstart it: `drydock upgrade enable prod/november`")

	cancelled := atNoon()
	cancelled.Status.Wait, cancelled.Status.Status.CompletedAt = nil, ago(0)
	cancelled.Status.Clusters[1].State = ranv1.ClusterCancelled
	cancelled.Status.Counts = rollout.Count(cancelled.Status.Clusters)
	require.Contains(t, cancelled.frame(noon, frameStyle{}), "\ncontinue with the clusters that were cancelled or not started: `drydock upgrade retry prod/november --unfinished`")
}

func TestTheFrameOfACancellingRolloutShowsItsRunningClusters(t *testing.T) {
	status := atNoon()
	status.Status.Wait = &drydockv1.Wait{Reason: "Cancelling", Message: "batch 2 of 2: clusters that return their nodes: 1", Since: *ago(time.Minute)}
	require.Contains(t, status.frame(noon, frameStyle{}), "\nwaiting: Cancelling for 60s: batch 2 of 2: clusters that return their nodes: 1\n")
	require.Contains(t, status.wholeLine().text, "; waiting: Cancelling: batch 2 of 2")
}

func TestAWaitShowsItsEnd(t *testing.T) {
	until := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(d))) }
	wait := drydockv1.Wait{Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3", Since: *ago(2 * time.Minute), Until: until(3 * time.Minute)}
	require.Equal(t, "DisruptionBudget for 2m (until 12:03:00Z): budget shop/web allows 0 of 3", waitText(wait, noon))
	wait.Until = until(48 * time.Hour)
	require.Equal(t, "DisruptionBudget for 2m (until 2026-11-22T12:00:00Z): budget shop/web allows 0 of 3", waitText(wait, noon))
	wait.Until = nil
	require.Equal(t, "DisruptionBudget for 2m: budget shop/web allows 0 of 3", waitText(wait, noon))
	wait = drydockv1.Wait{Reason: emergency.ReasonWaitingForWindow, Message: "window ops/night is closed; it opens 2026-11-20 22:00:00Z", Since: *ago(0), Until: until(time.Hour)}
	require.Equal(t, "WaitingForWindow: window ops/night is closed; it opens 2026-11-20 22:00:00Z", waitText(wait, noon), "no text is repeated")
}

func TestNoWaitIsShownBetweenBatches(t *testing.T) {
	status := atNoon()
	status.Status.Clusters[1].State = ranv1.ClusterComplete
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	status.Status.Wait = &drydockv1.Wait{Reason: ranv1.ReasonBatchInProgress, Message: "batch 1 of 2: clusters running: 0", Since: *ago(0)}
	require.Equal(t, "rollout prod/november: Running: Maintaining nodes", status.wholeLine().text)

	status.Status.Wait = &drydockv1.Wait{Reason: "ClusterUnreachable", Message: "the hub does not answer", Since: *ago(0)}
	require.Contains(t, status.wholeLine().text, "; waiting: ClusterUnreachable: the hub does not answer")
}

func TestTheFrameOfAFinishedRollout(t *testing.T) {
	status := atNoon()
	status.Status.Status.CompletedAt = ago(0)
	conditions.Set(&status.Status.Conditions, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonTimedOut, "1 of 3 clusters timed out: spoke-2", noon)
	frame := status.frame(noon, frameStyle{})
	require.Contains(t, frame, "rollout prod/november   Timed out   took 10m\n1 of 3 clusters timed out: spoke-2\n")
}

func TestARolloutWithoutClustersHasNoProgress(t *testing.T) {
	status := rolloutStatus{Metadata: observe.RefOf("cgu/prod/november", "run"), Status: ranv1.ClusterGroupUpgradeStatus{Percentage: 100}}
	conditions.Set(&status.Status.Conditions, ranv1.ConditionSucceeded, metav1.ConditionFalse, ranv1.ReasonFailed, "Unable to select clusters: cluster spoke-9 is not a ManagedCluster", noon)
	require.Equal(t, "rollout prod/november   Failed\nUnable to select clusters: cluster spoke-9 is not a ManagedCluster", status.frame(noon, frameStyle{}))
}

func TestAFrameFitsTheTerminalAndCountsWhatItOmits(t *testing.T) {
	status := atNoon()
	for range 100 {
		status.Status.Clusters = append(status.Status.Clusters, ranv1.ClusterStatus{Name: "more", State: ranv1.ClusterPending, Batch: 3})
	}
	status.Status.Counts = rollout.Count(status.Status.Clusters)
	const height = 24
	frame := status.frame(noon, frameStyle{height: height})
	require.Less(t, strings.Count(frame, "\n")+1, height)
	require.Contains(t, frame, "\nand 92 clusters more")
}

func TestUrgentClustersAreListedFirst(t *testing.T) {
	status := atNoon()
	for range planOrderLimit {
		status.Status.Clusters = append(status.Status.Clusters, ranv1.ClusterStatus{Name: "more", State: ranv1.ClusterPending, Batch: 3})
	}
	status.Status.Clusters = append(status.Status.Clusters, ranv1.ClusterStatus{Name: "edge", State: ranv1.ClusterFailed, Batch: 4})
	require.Regexp(t, `(?s)edge +failed.*spoke-2 +running.*more`, status.frame(noon, frameStyle{}))
}

func TestColoursAreUsedOnTerminalsOnly(t *testing.T) {
	require.NotContains(t, atNoon().frame(noon, frameStyle{}), "\x1b[")
	require.Contains(t, atNoon().frame(noon, frameStyle{colours: true}), "\x1b[32mcomplete\x1b[0m")
}

func TestALineIsPrintedAgainOnlyWhenItChanges(t *testing.T) {
	var out bytes.Buffer
	c := &cli{output: formatTable}
	c.Out = &out
	view := c.newView()
	lines := func(status rolloutStatus) string {
		out.Reset()
		require.NoError(t, view.show(status))
		var lines strings.Builder
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(line, "  ")
			lines.WriteString(text)
		}
		return lines.String()
	}
	require.Equal(t, `batch 2 of 2: spoke-2, spoke-3
spoke-1: complete 4/4 nodes; took 3m
spoke-2: running 1/4 nodes; worker-2: Draining; DisruptionBudget: budget shop/web allows 0 of 3; tf 1 out of 3 nodes updated (33%)
spoke-4: skipped; AlreadyCompliant: nothing to do
rollout prod/november: Running: Maintaining nodes
`, lines(atNoon()))
	require.Empty(t, lines(atNoon()))

	changed := atNoon()
	changed.Status.Clusters[1].Reason, changed.Status.Clusters[1].Message = "", ""
	changed.Status.Clusters[1].LockProgress[0] = drydockv1.LockProgress{Controller: "tf", Percentage: 66, Description: "2 out of 3 nodes updated"}
	require.Equal(t, "spoke-2: running 1/4 nodes; worker-2: Draining; tf 2 out of 3 nodes updated (66%)\n", lines(changed))
}

func TestJSONOutputHasADocumentForEveryChange(t *testing.T) {
	for format, begins := range map[string]string{formatJSON: `{"metadata":{"namespace":"prod","name":"november",`, formatYAML: "---\nmetadata:\n  name: november\n"} {
		var out bytes.Buffer
		c := &cli{output: format}
		c.Out = &out
		view := c.newView()
		require.NoError(t, view.show(atNoon()))
		require.NoError(t, view.show(atNoon()))
		changed := atNoon()
		changed.Status.Paused = true
		require.NoError(t, view.show(changed))
		require.True(t, strings.HasPrefix(out.String(), begins), out.String())
		require.Equal(t, 2, strings.Count(out.String(), begins), "no text is repeated")
	}
}

func TestTheScreenIsRedrawnInPlace(t *testing.T) {
	var out bytes.Buffer
	s := screen{out: &out}
	s.draw("first\nsecond\nthird", 80, 24)
	require.Equal(t, "first\x1b[K\nsecond\x1b[K\nthird\x1b[K\n\x1b[J", out.String())
	out.Reset()
	s.draw("a line that is longer than the screen", 20, 24)
	require.Equal(t, "\r\x1b[3Aa line that is longer than the screen\x1b[K\n\x1b[J", out.String(), "the terminal breaks it, so that it can be copied")
	out.Reset()
	s.draw("first\n20 characters of text\n  last", 20, 24)
	require.Equal(t, "\r\x1b[2Afirst\x1b[K\n20 characters of text\x1b[K\n  last\x1b[K\n\x1b[J", out.String(), "lines and their columns stay as they are")
	out.Reset()
	s.draw("a full row of twenty", 20, 24)
	require.Equal(t, "\r\x1b[4Aa full row of twenty\n\x1b[J", out.String(), "erasing its rest would erase its last character")
	out.Reset()
	s.draw("a\nb\nc\nd\ne", 80, 4)
	require.Equal(t, "\r\x1b[1Aa\x1b[K\nb\x1b[K\nand 3 lines more\x1b[K\n\x1b[J", out.String(), "no line scrolls away, or the next frame begins at a wrong line")
}

func TestTheClockOfAClusterStopsWithItsEnd(t *testing.T) {
	cluster := ranv1.ClusterStatus{Name: "spoke-1", State: ranv1.ClusterRunning, Reason: "DisruptionBudget", Message: "shop/web allows 0 of 3", Since: ago(20 * time.Minute)}
	require.Equal(t, "DisruptionBudget for 20m: shop/web allows 0 of 3", nowText(cluster, noon, ""))
	cluster.State, cluster.Reason = ranv1.ClusterFailed, "DrainTimedOut"
	require.Equal(t, "DrainTimedOut: shop/web allows 0 of 3", nowText(cluster, noon, ""))
}

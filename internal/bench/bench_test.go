package bench

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
)

// soak skips a test that takes minutes, unless SOAK is set.
func soak(t *testing.T) {
	t.Helper()
	if !devstacktest.Soak() {
		t.Skip("takes minutes: make chaos runs it")
	}
}

// The test asserts no durations. `make bench` measures them.
func TestAllMeasurementsRunOnATinyFleet(t *testing.T) {
	soak(t)
	size := Size{Nodes: 2, Pods: 1, AtOnce: 1, Rounds: 1}
	drained := size
	drained.DrainOnly, drained.Alone = true, true
	objects, workflows := drained, drained
	objects.ByObject, workflows.ByWorkflow = true, true
	objects.Alone, objects.Rounds, workflows.Rounds = false, 2, 2
	report, err := Run(t.Context(), Sizes{Nodes: []Size{size, drained, objects, workflows}, Policies: []PolicySize{{Clusters: 3, Policies: 2, AtOnce: 2}}, Harbors: []int{2}, Queues: []QueueSize{{Requests: 4, Nodes: 3, AtOnce: 1}}}, os.Stderr)
	require.NoError(t, err)

	require.Len(t, report.Results, 4)
	require.Equal(t, []int{4, 4}, []int{report.Results[3].RequestToReady.Count, report.Results[3].ReleaseToUncordon.Count})
	require.Positive(t, report.Results[3].EventsEach)
	requested := report.Results[2]
	require.Equal(t, []int{4, 4, 2, 4, 2, 2}, []int{
		requested.RequestToReady.Count, requested.ReleaseToUncordon.Count, requested.Objects.ApplyToCordon.Count, requested.Objects.DrainedToStatus.Count,
		requested.LoopSlotIdle.Count, len(requested.Wall.Ratios),
	})
	require.Positive(t, requested.Objects.StatusWrites)
	require.Positive(t, requested.EventsEach)
	require.Zero(t, report.Results[1].Requests.ByTarget["create jobs"])
	require.Zero(t, report.Results[1].Wall.Loop)
	require.Equal(t, 2, report.Results[1].RequestToReady.Count)
	result := report.Results[0]
	require.Equal(t, 2, result.RequestToReady.Count)
	require.Equal(t, 2, result.ReleaseToUncordon.Count)
	require.Equal(t, 1, result.SlotIdle.Count)
	require.Equal(t, 1, result.LoopSlotIdle.Count)
	for what, measured := range map[string]float64{
		"request to Ready": result.RequestToReady.P50, "release to uncordon": result.ReleaseToUncordon.P50,
		"Drydock": result.Wall.Drydock, "the loop": result.Wall.Loop, "kubectl": result.Wall.Kubectl, "ratio": result.Wall.ToLoop,
		"evictions": result.Requests.ByTarget["create pods/eviction"], "the loop's evictions": result.LoopRequests.ByTarget["create pods/eviction"],
		"events": result.EventsEach, "drains": result.Activities["Drain"].Ran.P50, "tasks": result.WorkflowTasks["NodeMaintenance"].Each,
		"memory": float64(result.Worker.PeakMemoryBytes), "CPU": result.Worker.CPUSeconds, "CPU of Temporal": result.Temporal.CPUSeconds,
	} {
		require.Positive(t, measured, what)
	}

	rolled := report.Policies[0]
	require.Equal(t, 1, rolled.BetweenBatches.Count)
	for what, measured := range map[string]float64{
		"wall": rolled.Wall, "wall of the loop": rolled.LoopWall, "between batches": rolled.BetweenBatchesMax, "writes": rolled.Requests.ByTarget["patch placements"], "events": rolled.EventsEach,
		"memory": float64(rolled.Worker.PeakMemoryBytes),
	} {
		require.Positive(t, measured, what)
	}

	for what, measured := range map[string]Latency{
		"applied": report.Harbors[0].ReadyToApplied, "unhealthy": report.Harbors[0].DownToUnhealthy, "unhealthy at the same time": report.Harbors[0].DownTogether,
	} {
		require.Equal(t, 2, measured.Count, what)
		require.Positive(t, measured.P50, what)
	}

	queue := report.Queues[0]
	require.Equal(t, 3, queue.SlotIdle.Count)
	for what, measured := range map[string]float64{
		"accepted": queue.Accepted, "events": queue.EventsEach, "runs": float64(queue.Runs), "largest event": float64(queue.LargestEvent), "tasks": queue.TaskTime.P50,
	} {
		require.Positive(t, measured, what)
	}

	var table bytes.Buffer
	report.Print(&table)
	require.Contains(t, table.String(), "4 requests in the queue of a cluster with 3 nodes, 1 at once: ")
	require.Contains(t, table.String(), "2 nodes x 1 pod")
	require.Contains(t, table.String(), "Drydock / loop")
	require.Contains(t, table.String(), "3 clusters x 2 policies")
	require.Contains(t, table.String(), "2 Harbor clusters, p50 / p99: ")
}

// Each window notifies its subscribers, even if it is defined too late to confirm its opening in advance.
func TestAHundredWindowsOpenInTheSameSecond(t *testing.T) {
	soak(t)
	result, err := windowsOnFleet(t.Context(), WindowSize{Windows: 100, Maintenances: 2}, 0, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, 100, result.Notified.Count)
	require.Equal(t, 100, result.Recorded.Count)
	require.Equal(t, 2, result.Started.Count)
	require.Equal(t, 2, result.Cordoned.Count)
	var table bytes.Buffer
	Report{Windows: []WindowResult{result}}.Print(&table)
	require.Contains(t, table.String(), "100 windows that open in the same second, p50 / p99: ")
	t.Log(table.String())
}

func TestTheStartOfABlockedRolloutIsMeasured(t *testing.T) {
	devstacktest.NeedServers(t)
	require.NoError(t, onHub(t.Context(), devstack.TemporalOptions{}, os.Stderr, selective, func(h *simulatedHub) error {
		require.NoError(t, h.register(t.Context(), 2))
		took, err := h.blockerToStart(t.Context(), "blocker", "blocked")
		require.Positive(t, took)
		return err
	}))
}

func TestTheGuardNamesEachCostThatExceedsItsBaseline(t *testing.T) {
	baseline := map[string]GuardedCost{"5x3@5/workflows": {Events: 50, Activities: 5, Requests: 26, CPU: 4}}
	within := map[string]GuardedCost{"5x3@5/workflows": {Events: 52.4, Activities: 5.2, Requests: 20, CPU: 4.9}}
	require.NoError(t, compare(within, baseline))
	beyond := map[string]GuardedCost{"5x3@5/workflows": {Events: 53, Activities: 5, Requests: 26, CPU: 5.1}, "5x3@5/objects": {}}
	require.Equal(t, TooExpensive{
		"5x3@5/objects: the baseline does not have it",
		"5x3@5/workflows: events per node: 53.00, the baseline is 50.00",
		"5x3@5/workflows: CPU, as a multiple of the loop's: 5.10, the baseline is 4.00",
	}, compare(beyond, baseline))
	require.Equal(t, GuardedCost{Events: 1, Activities: 2, Requests: 3, CPU: 4},
		GuardedCost{Events: 1, Activities: 3, Requests: 3, CPU: 5}.least(GuardedCost{Events: 2, Activities: 2, Requests: 4, CPU: 4}))
}

func TestManyClustersAreMeasured(t *testing.T) {
	soak(t)
	result, err := clustersOnFleet(t.Context(), ClustersSize{Clusters: 3, Nodes: 2, AtOnce: 2}, time.Second, os.Stderr)
	require.NoError(t, err)
	require.Positive(t, result.Rest.MemoryBytes)
	require.Greater(t, result.Rest.Goroutines, result.Hub.Goroutines)
	require.EqualValues(t, 1, result.StartRequests["watch nodemaintenances"])
	require.EqualValues(t, podsOfNode, result.Rollout.Requests["create pods/eviction"])
	require.Positive(t, result.Rollout.EventsEach)
}

func TestASizeIsFormattedAsItIsParsed(t *testing.T) {
	sizes := DefaultSizes()
	sizes.Queues = []QueueSize{{Requests: 10_000, Nodes: 5000, AtOnce: 50}}
	sizes.Nodes = append(sizes.Nodes, Size{Nodes: 3, Pods: 2, AtOnce: 2, Rounds: 1, DrainOnly: true, ByWorkflow: true}, Size{Nodes: 3, Pods: 2, AtOnce: 2, Rounds: 3, DrainOnly: true, ByObject: true}, Size{Nodes: 3, Pods: 2, AtOnce: 2, Rounds: 4, DrainOnly: true, Alone: true})
	sizes.Policies = append(sizes.Policies, PolicySize{Clusters: 10, Policies: 2, AtOnce: 5, OnPostgreSQL: true})
	sizes.Clusters = append(sizes.Clusters, ClustersSize{Clusters: 10, Nodes: 2, AtOnce: 5, OnPostgreSQL: true}, ClustersSize{Clusters: 10, OnPostgreSQL: true})
	read, err := ParseSizes(sizes.Strings())
	require.NoError(t, err)
	require.Equal(t, sizes, read)
	for _, text := range []string{"", "20", "20x10", "x10@5", "20x10@0", "20x-1@5", "20x10@5*0", "20x10@5*", "20x10@5/drain/objects", "20x10@5/workflows/objects"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 20x10@5", text)
	}
	for _, text := range []string{"/harbors", "0/harbors", "50x2/harbors"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 50/harbors", text)
	}
	for _, text := range []string{"/windows", "0x0/windows", "2x3/windows", "10/windows", "10x0/windows"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 1000x20/windows", text)
	}
	for _, text := range []string{"/finished", "10/finished", "0x1/finished", "1x0/finished"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 5000x2000/finished", text)
	}
	for _, text := range []string{"/clusters", "0/clusters", "10x3/clusters", "10@3/clusters", "10x0@1/clusters", "10x3@0/clusters"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 3500/clusters", text)
	}
	for _, text := range []string{"/queue", "10x5/queue", "10x5@0/queue", "10x5@5/queue", "5x10@5/queue"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 10000x5000@50/queue", text)
	}
	for _, text := range []string{"/policies", "20/policies", "20x0@5/policies", "20x1@5*2/policies", "20x1@5/drain/policies"} {
		_, err := ParseSizes([]string{text})
		require.ErrorContains(t, err, "e.g. 100x3@10/policies", text)
	}
}

func TestTheTimeBetweenBatchesIsFromLastComplianceToFirstEnforcement(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 6, 1, 22, 0, second, 0, time.UTC) }
	seen := enforcements{
		enforced: map[string]time.Time{"edge-00001": at(0), "edge-00002": at(0), "edge-00003": at(9), "edge-00004": at(8), "edge-00005": at(20)},
		complied: map[string]time.Time{"edge-00001": at(5), "edge-00002": at(4), "edge-00003": at(12), "edge-00004": at(13), "edge-00005": at(30)},
	}
	require.Equal(t, []time.Duration{3 * time.Second, 7 * time.Second}, seen.betweenBatches(PolicySize{Clusters: 5, Policies: 1, AtOnce: 2}))
}

func TestAQuantileIsAMeasuredTime(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i)*time.Second)
	}
	require.Equal(t, Latency{Count: 200, P50: 100, P99: 198}, latency(took))
	require.Equal(t, Latency{Count: 1, P50: 7, P99: 7}, latency([]time.Duration{7 * time.Second}))
	require.Equal(t, "-", latency(nil).String())
}

func TestTheFreeTimeOfASlotIsFromReturnToNextCordon(t *testing.T) {
	began := time.Date(2026, 6, 1, 22, 0, 0, 0, time.UTC)
	var seen observed
	for _, action := range []struct {
		what  string
		after time.Duration
	}{
		{fleet.ActionCordon, 0},
		{fleet.ActionCordon, 1},
		{fleet.ActionUncordon, 10},
		{fleet.ActionUncordon, 12},
		{fleet.ActionCordon, 13}, // for the slot that is free since 10
		{fleet.ActionUncordon, 20},
		// The next round.
		{fleet.ActionCordon, 30},
		{fleet.ActionCordon, 30},
		{fleet.ActionUncordon, 31},
		{fleet.ActionCordon, 36},
		{fleet.ActionUncordon, 37},
		{fleet.ActionUncordon, 38},
	} {
		seen.actions = append(seen.actions, fleet.Action{What: action.what, At: began.Add(action.after * time.Second)})
	}
	require.Equal(t, []time.Duration{3 * time.Second, 5 * time.Second}, seen.slotIdle(Size{Nodes: 3, AtOnce: 2, Rounds: 2}))
}

func TestEachRoundIsComparedWithThatOfTheLoop(t *testing.T) {
	rounds := func(took ...time.Duration) (all []round) {
		for _, took := range took {
			all = append(all, round{took: took * time.Second})
		}
		return all
	}
	var w Walls
	w.compare(rounds(20, 90, 30), rounds(10, 60, 30))
	require.Equal(t, Walls{Ratios: []float64{2, 1.5, 1}, ToLoop: 1.5}, w)
	require.Equal(t, "1.50 (1.00 to 2.00)", w.ratio())

	var even Walls
	even.compare(rounds(20, 90), rounds(10, 60))
	require.Equal(t, 1.75, even.ToLoop)
}

func TestOnlyRoundsOfTheMethodAreObserved(t *testing.T) {
	began := time.Date(2026, 6, 1, 22, 0, 0, 0, time.UTC)
	var seen observed
	for second := range 50 {
		at := began.Add(time.Duration(second) * time.Second)
		seen.actions = append(seen.actions, fleet.Action{At: at})
		seen.requests = append(seen.requests, auditv1.Event{RequestReceivedTimestamp: metav1.NewMicroTime(at)})
	}
	found := seen.during(round{from: began.Add(10 * time.Second), to: began.Add(14 * time.Second)}, round{from: began.Add(20 * time.Second), to: began.Add(24 * time.Second)})
	require.Len(t, found.actions, 10)
	require.Len(t, found.requests, 10)
}

package bench

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// How long anything takes is not asserted: that is what `make bench` is for.
func TestEverythingThatIsMeasuredIsMeasuredOnATinyFleet(t *testing.T) {
	size := Size{Nodes: 2, Pods: 1, AtOnce: 1, Rounds: 1}
	drained := size
	drained.DrainOnly = true
	report, err := Run(t.Context(), []Size{size, drained}, os.Stderr)
	require.NoError(t, err)

	require.Len(t, report.Results, 2)
	require.Zero(t, report.Results[1].Requests.ByTarget["create jobs"])
	require.Zero(t, report.Results[1].LoopRequests.ByTarget["create jobs"])
	require.Equal(t, 2, report.Results[1].RequestToReady.Count)
	result := report.Results[0]
	require.Equal(t, 2, result.RequestToReady.Count)
	require.Equal(t, 2, result.ReleaseToUncordon.Count)
	require.Equal(t, 1, result.HandOver.Count)
	require.Equal(t, 1, result.LoopHandOver.Count)
	for what, measured := range map[string]float64{
		"request to Ready": result.RequestToReady.P50, "release to uncordon": result.ReleaseToUncordon.P50,
		"Drydock": result.Wall.Drydock, "the loop": result.Wall.Loop, "kubectl": result.Wall.Kubectl, "ratio": result.Wall.ToLoop,
		"evictions": result.Requests.ByTarget["create pods/eviction"], "the loop's evictions": result.LoopRequests.ByTarget["create pods/eviction"],
		"events": result.EventsPerNode, "drains": result.Activities["Drain"].Ran.P50, "tasks": result.WorkflowTasks["NodeMaintenance"].PerNode,
		"memory": float64(result.Worker.PeakMemoryBytes), "CPU": result.Worker.CPUSeconds, "CPU of Temporal": result.Temporal.CPUSeconds,
	} {
		require.Positive(t, measured, what)
	}

	var table bytes.Buffer
	report.Print(&table)
	require.Contains(t, table.String(), "2 nodes x 1 pod")
	require.Contains(t, table.String(), "Drydock / loop")
}

func TestASizeIsWrittenAsItIsRead(t *testing.T) {
	for _, size := range append(DefaultSizes(), Size{Nodes: 3, Pods: 2, AtOnce: 2, Rounds: 4, DrainOnly: true}) {
		read, err := ParseSize(size.String())
		require.NoError(t, err)
		require.Equal(t, size, read)
	}
	for _, text := range []string{"", "20", "20x10", "x10@5", "20x10@0", "20x-1@5", "20x10@5*0", "20x10@5*"} {
		_, err := ParseSize(text)
		require.ErrorContains(t, err, "e.g. 20x10@5", text)
	}
}

func TestAQuantileIsATimeThatWasMeasured(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i)*time.Second)
	}
	require.Equal(t, Latency{Count: 200, P50: 100, P99: 198}, latency(took))
	require.Equal(t, Latency{Count: 1, P50: 7, P99: 7}, latency([]time.Duration{7 * time.Second}))
	require.Equal(t, "-", latency(nil).String())
}

func TestASlotIsHandedOverFromEachReturnToTheCordonThatItMakesRoomFor(t *testing.T) {
	began := time.Date(2026, 6, 1, 22, 0, 0, 0, time.UTC)
	var seen observed
	for _, deed := range []struct {
		what  string
		after time.Duration
	}{
		{fleet.DeedCordon, 0},
		{fleet.DeedCordon, 1},
		{fleet.DeedUncordon, 10},
		{fleet.DeedUncordon, 12},
		{fleet.DeedCordon, 13}, // makes use of the return at 10
		{fleet.DeedUncordon, 20},
		// The next round.
		{fleet.DeedCordon, 30},
		{fleet.DeedCordon, 30},
		{fleet.DeedUncordon, 31},
		{fleet.DeedCordon, 36},
		{fleet.DeedUncordon, 37},
		{fleet.DeedUncordon, 38},
	} {
		seen.deeds = append(seen.deeds, fleet.Deed{What: deed.what, At: began.Add(deed.after * time.Second)})
	}
	require.Equal(t, []time.Duration{3 * time.Second, 5 * time.Second}, seen.handOvers(Size{Nodes: 3, AtOnce: 2, Rounds: 2}))
}

package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Print writes the report as tables with a column for each size.
func (r Report) Print(out io.Writer) {
	m := r.Machine
	fmt.Fprintf(out, "%d x %s, %.0f GiB, %s, %s\n", m.Processors, m.Processor, float64(m.MemoryBytes)/(1<<30), m.Platform, m.Go)
	printTable(out, r.Results, func(r Result) string { return r.Size.title() }, r.groups())
	printTable(out, r.Policies, func(r PolicyResult) string { return r.Size.title() }, r.policyGroups())
	for _, h := range r.Harbors {
		fmt.Fprintf(out, "%d Harbor clusters, p50 / p99: last service ready to Harbor applied, all at the same time: %s; service down to unhealthy, one by one: %s; all at the same time: %s\n",
			h.Clusters, h.ReadyToApplied, h.DownToUnhealthy, h.DownTogether)
	}
	for _, w := range r.Windows {
		fmt.Fprintf(out, "%d windows that open in the same second, p50 / p99: opening to notified subscribers: %s; to start of %s: %s; to its cordon: %s; to the recorded opening: %s; "+
			"CPU before the opening: worker %s, Temporal %s; after: worker %s, Temporal %s\n",
			w.Size.Windows, w.Notified, counted(w.Size.Maintenances, "maintenance"), w.Started, w.Cordoned, w.Recorded, seconds(w.WorkerBefore.CPUSeconds), seconds(w.TemporalBefore.CPUSeconds),
			seconds(w.Worker.CPUSeconds), seconds(w.Temporal.CPUSeconds))
	}
	for _, f := range r.Finished {
		for _, w := range []struct {
			title string
			WorkerAtStart
		}{{"no objects", f.Without}, {fmt.Sprintf("%d finished maintenances and %d finished rollouts", f.Size.Maintenances, f.Size.Rollouts), f.With}} {
			fmt.Fprintf(out, "a worker that starts with %s: new request ready after %s; peak memory %d MiB; CPU %s; requests to the spoke: %s; to the hub: %s\n",
				w.title, seconds(w.Served), w.PeakMemoryBytes>>20, seconds(w.CPUSeconds), w.Spoke, w.Hub)
		}
	}
	for _, q := range r.Queues {
		fmt.Fprintf(out, "%d requests in the queue of a cluster with %d nodes, %d at once: created in %s, all wait after %s; slot idle, p50 / p99 of %d: %s; "+
			"events of the scheduler: %.2f for each request, %.1f for each hand-over; its workflow tasks: %s; %s, largest event %d KiB; "+
			"worker: peak memory %d MiB, CPU %s; Temporal: %d MiB, %s\n",
			q.Size.Requests, q.Size.Nodes, q.Size.AtOnce, seconds(q.Created), seconds(q.Accepted), q.SlotIdle.Count, q.SlotIdle, q.EventsBefore, q.EventsEach, q.TaskTime,
			counted(q.Runs, "run"), q.LargestEvent>>10, q.Worker.PeakMemoryBytes>>20, seconds(q.Worker.CPUSeconds), q.Temporal.PeakMemoryBytes>>20, seconds(q.Temporal.CPUSeconds))
	}
	for _, c := range r.Clusters {
		c.print(out)
	}
	if r.Pace != nil {
		fmt.Fprintf(out, "success of a rollout to the first policy of the rollout that it blocked, p50 / p99 of %d: %s\n", r.Pace.BlockerToStart.Count, r.Pace.BlockerToStart)
		fmt.Fprintf(out, "timeout of a batch to the first write that removes its policies, p50 / p99 of %d: %s\n", r.Pace.TimeoutLateness.Count, r.Pace.TimeoutLateness)
	}
}

// printTable writes nothing when there is no result.
func printTable[R any](out io.Writer, results []R, title func(R) string, groups [][]line[R]) {
	if len(results) == 0 {
		return
	}
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	header := table.Row{""}
	configs := []table.ColumnConfig{{Number: 1, Align: text.AlignLeft}}
	for i, result := range results {
		header = append(header, title(result))
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, group := range groups {
		for _, line := range group {
			row := table.Row{line.title}
			for _, result := range results {
				row = append(row, line.of(result))
			}
			t.AppendRow(row)
		}
		t.AppendSeparator()
	}
	t.Render()
}

// line is one line of a table.
type line[R any] struct {
	title string
	of    func(R) string
}

func (r Report) policyGroups() [][]line[PolicyResult] {
	return [][]line[PolicyResult]{
		{
			{"wall time", func(r PolicyResult) string { return seconds(r.Wall) }},
			{"wall time of the loop", func(r PolicyResult) string { return unlessNone(r.LoopWall, "%.2f s") }},
			{"Drydock / loop", func(r PolicyResult) string {
				if r.LoopWall == 0 {
					return "-"
				}
				return fmt.Sprintf("%.2f", r.Wall/r.LoopWall)
			}},
			{"time between batches, p50 / p99", func(r PolicyResult) string { return r.BetweenBatches.String() }},
			{"longest", func(r PolicyResult) string { return seconds(r.BetweenBatchesMax) }},
		},
		{
			{"API requests per cluster", func(r PolicyResult) string { return fmt.Sprintf("%.1f", r.Requests.Total) }},
			{"Temporal events per cluster", func(r PolicyResult) string { return fmt.Sprintf("%.1f", r.EventsEach) }},
			{"activities per cluster (and local ones)", func(r PolicyResult) string { return fmt.Sprintf("%.2f (%.2f)", r.ActivitiesEach, r.LocalEach) }},
			{"worker: peak memory", func(r PolicyResult) string { return fmt.Sprintf("%d MiB", r.Worker.PeakMemoryBytes>>20) }},
			{"worker: CPU, per 100 clusters", func(r PolicyResult) string { return r.Worker.shared(r.Size.Clusters, 100) }},
			{"Temporal: CPU, per 100 clusters", func(r PolicyResult) string { return r.Temporal.shared(r.Size.Clusters, 100) }},
			{"PostgreSQL: CPU, per 100 clusters", func(r PolicyResult) string {
				if !r.Size.OnPostgreSQL {
					return "-"
				}
				return r.Database.shared(r.Size.Clusters, 100)
			}},
			{"transactions", func(r PolicyResult) string { return unlessNone(float64(r.Transactions), "%.0f") }},
			{"stored rows", func(r PolicyResult) string { return unlessNone(float64(r.Stored.Rows), "%.0f") }},
			{"stored bytes", func(r PolicyResult) string { return unlessNone(float64(r.Stored.Bytes)/(1<<20), "%.1f MiB") }},
		},
	}
}

func (r Report) groups() [][]line[Result] {
	return [][]line[Result]{
		{
			{"request to Ready, p50 / p99", func(r Result) string { return r.RequestToReady.String() }},
			{"first maintenance of the namespace to Ready", func(r Result) string { return unlessNone(r.FirstUse, "%.2f s") }},
			{"release to uncordon, p50 / p99", func(r Result) string { return r.ReleaseToUncordon.String() }},
			{"slot idle, p50 / p99", func(r Result) string { return r.SlotIdle.String() }},
			{"slot idle with the loop, p50 / p99", func(r Result) string { return r.LoopSlotIdle.String() }},
			{"object to cordon (free slot), p50 / p99", func(r Result) string { return r.objects().ApplyToCordon.String() }},
			{"drained to object's status, p50 / p99", func(r Result) string { return r.objects().DrainedToStatus.String() }},
			{"status writes per object", func(r Result) string { return unlessNone(r.objects().StatusWrites, "%.1f") }},
		},
		{
			{"wall time", func(r Result) string { return seconds(r.Wall.Drydock) }},
			{"wall time of the loop", func(r Result) string { return unlessNone(r.Wall.Loop, "%.2f s") }},
			{"Drydock / loop (all rounds)", func(r Result) string { return r.Wall.ratio() }},
			{"wall time of kubectl drain", func(r Result) string { return unlessNone(r.Wall.Kubectl, "%.2f s") }},
		},
		append([]line[Result]{{"API requests per node (the loop's)", func(r Result) string { return withLoop(r.Requests.Total, r.LoopRequests.Total) }}}, r.verbs()...),
		{
			{"Temporal events per node", func(r Result) string { return fmt.Sprintf("%.1f", r.EventsEach) }},
			{"activities per node (and local ones)", func(r Result) string { return fmt.Sprintf("%.1f (%.1f)", r.ActivitiesEach, r.LocalEach) }},
			{"worker: peak memory", func(r Result) string { return fmt.Sprintf("%d MiB", r.Worker.PeakMemoryBytes>>20) }},
			{"worker: CPU, per node", func(r Result) string { return r.Worker.shared(r.Size.maintenances(), 1) }},
			{"Temporal: CPU, per node", func(r Result) string { return r.Temporal.shared(r.Size.maintenances(), 1) }},
			{"PostgreSQL: CPU, per node", func(r Result) string {
				if !r.Size.OnPostgreSQL {
					return "-"
				}
				return r.Database.shared(r.Size.maintenances(), 1)
			}},
			{"transactions per node", func(r Result) string {
				return unlessNone(float64(r.Transactions)/float64(r.Size.maintenances()), "%.0f")
			}},
		},
	}
}

// objects returns the times of requests by objects; zero if there are none.
func (r Result) objects() ObjectTimes {
	if r.Objects == nil {
		return ObjectTimes{}
	}
	return *r.Objects
}

// verbs returns a line for each used verb.
func (r Report) verbs() []line[Result] {
	used := map[string]bool{}
	for _, result := range r.Results {
		for _, requests := range []Requests{result.Requests, result.LoopRequests} {
			for verb := range requests.ByVerb {
				used[verb] = true
			}
		}
	}
	var lines []line[Result]
	for _, verb := range slices.Sorted(maps.Keys(used)) {
		lines = append(lines, line[Result]{"  " + verb, func(r Result) string { return withLoop(r.Requests.ByVerb[verb], r.LoopRequests.ByVerb[verb]) }})
	}
	return lines
}

// shared returns the whole CPU time, and its share for some of all.
func (u Usage) shared(all, some int) string {
	return seconds(u.CPUSeconds) + ", " + seconds(u.CPUSeconds*float64(some)/float64(all))
}

// String is "p50 / p99"; a dash without a measurement.
func (l Latency) String() string {
	if l.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f / %.2f s", l.P50, l.P99)
}

// ratio is the median, and the range if there are several rounds.
func (w Walls) ratio() string {
	if len(w.Ratios) < 2 {
		return unlessNone(w.ToLoop, "%.2f")
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", w.ToLoop, slices.Min(w.Ratios), slices.Max(w.Ratios))
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

// unlessNone formats a number; a dash if it was not measured.
func unlessNone(number float64, format string) string {
	if number == 0 {
		return "-"
	}
	return fmt.Sprintf(format, number)
}

func withLoop(drydock, loop float64) string { return fmt.Sprintf("%.1f (%.1f)", drydock, loop) }

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
		fmt.Fprintf(out, "%d Harbor clusters, p50 / p99: last service ready to Harbor applied, all at once: %s; service down to unhealthy, one by one: %s; all at once: %s\n",
			h.Clusters, h.ReadyToApplied, h.DownToUnhealthy, h.DownTogether)
	}
	for _, w := range r.Windows {
		fmt.Fprintf(out, "%d windows that open in the same second, p50 / p99: opening to notified subscribers: %s; to start of %s that waited: %s; to its cordon: %s; to the window's own record: %s; "+
			"CPU before the opening: worker %s, Temporal %s; after: worker %s, Temporal %s\n",
			w.Size.Windows, w.Told, counted(w.Size.Maintenances, "maintenance"), w.Began, w.Cordoned, w.Recorded, seconds(w.WorkerBefore.CPUSeconds), seconds(w.TemporalBefore.CPUSeconds),
			seconds(w.Worker.CPUSeconds), seconds(w.Temporal.CPUSeconds))
	}
	if r.Pace != nil {
		fmt.Fprintf(out, "success of a rollout to the first policy of the one that it blocked, p50 / p99 of %d: %s\n", r.Pace.BlockerToStart.Count, r.Pace.BlockerToStart)
		fmt.Fprintf(out, "end of a batch's time to the first write that withdraws it, p50 / p99 of %d: %s\n", r.Pace.TimeoutLateness.Count, r.Pace.TimeoutLateness)
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
			{"hand-over to the next batch, p50 / p99", func(r PolicyResult) string { return r.HandOver.String() }},
			{"longest", func(r PolicyResult) string { return seconds(r.HandOverMax) }},
		},
		{
			{"API requests per cluster", func(r PolicyResult) string { return fmt.Sprintf("%.1f", r.Requests.Total) }},
			{"Temporal events per cluster", func(r PolicyResult) string { return fmt.Sprintf("%.1f", r.EventsEach) }},
			{"activities per cluster", func(r PolicyResult) string { return fmt.Sprintf("%.2f", r.ActivitiesEach) }},
			{"worker: peak memory", func(r PolicyResult) string { return fmt.Sprintf("%d MiB", r.Worker.PeakMemoryBytes>>20) }},
			{"worker: CPU, per 100 clusters", func(r PolicyResult) string { return r.Worker.shared(r.Size.Clusters, 100) }},
			{"Temporal: CPU, per 100 clusters", func(r PolicyResult) string { return r.Temporal.shared(r.Size.Clusters, 100) }},
		},
	}
}

func (r Report) groups() [][]line[Result] {
	return [][]line[Result]{
		{
			{"request to Ready, p50 / p99", func(r Result) string { return r.RequestToReady.String() }},
			{"release to uncordon, p50 / p99", func(r Result) string { return r.ReleaseToUncordon.String() }},
			{"hand-over, p50 / p99", func(r Result) string { return r.HandOver.String() }},
			{"hand-over of the loop, p50 / p99", func(r Result) string { return r.LoopHandOver.String() }},
		},
		{
			{"wall time", func(r Result) string { return seconds(r.Wall.Drydock) }},
			{"wall time of the loop", func(r Result) string { return unlessNone(r.Wall.Loop, "%.2f s") }},
			{"Drydock / loop", func(r Result) string { return unlessNone(r.Wall.ToLoop, "%.2f") }},
			{"wall time of kubectl drain", func(r Result) string { return unlessNone(r.Wall.Kubectl, "%.2f s") }},
		},
		append([]line[Result]{{"API requests per node (the loop's)", func(r Result) string { return beside(r.Requests.Total, r.LoopRequests.Total) }}}, r.verbs()...),
		{
			{"Temporal events per node", func(r Result) string { return fmt.Sprintf("%.1f", r.EventsEach) }},
			{"activities per node", func(r Result) string { return fmt.Sprintf("%.1f", r.ActivitiesEach) }},
			{"worker: peak memory", func(r Result) string { return fmt.Sprintf("%d MiB", r.Worker.PeakMemoryBytes>>20) }},
			{"worker: CPU, per node", func(r Result) string { return r.Worker.shared(r.Size.maintenances(), 1) }},
			{"Temporal: CPU, per node", func(r Result) string { return r.Temporal.shared(r.Size.maintenances(), 1) }},
		},
	}
}

// verbs are the lines of the verbs that were used.
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
		lines = append(lines, line[Result]{"  " + verb, func(r Result) string { return beside(r.Requests.ByVerb[verb], r.LoopRequests.ByVerb[verb]) }})
	}
	return lines
}

// shared is the whole CPU time, and its part for some of count.
func (u Usage) shared(among, some int) string {
	return seconds(u.CPUSeconds) + ", " + seconds(u.CPUSeconds*float64(some)/float64(among))
}

// String is "p50 / p99"; a dash without a measurement.
func (l Latency) String() string {
	if l.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f / %.2f s", l.P50, l.P99)
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

// unlessNone is a dash for what was not measured.
func unlessNone(number float64, format string) string {
	if number == 0 {
		return "-"
	}
	return fmt.Sprintf(format, number)
}

func beside(ours, theirs float64) string { return fmt.Sprintf("%.1f (%.1f)", ours, theirs) }

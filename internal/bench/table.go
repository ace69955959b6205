package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Print writes the report as a table with a column for each size.
func (r Report) Print(out io.Writer) {
	m := r.Machine
	fmt.Fprintf(out, "%d x %s, %.0f GiB, %s, %s\n", m.Processors, m.Processor, float64(m.MemoryBytes)/(1<<30), m.Platform, m.Go)
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	header := table.Row{""}
	configs := []table.ColumnConfig{{Number: 1, Align: text.AlignLeft}}
	for i, result := range r.Results {
		header = append(header, result.Size.title())
		configs = append(configs, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, group := range r.groups() {
		for _, line := range group {
			row := table.Row{line.title}
			for _, result := range r.Results {
				row = append(row, line.of(result))
			}
			t.AppendRow(row)
		}
		t.AppendSeparator()
	}
	t.Render()
}

// line is one line of the table.
type line struct {
	title string
	of    func(Result) string
}

func (r Report) groups() [][]line {
	return [][]line{
		{
			{"request to Ready, p50 / p99", func(r Result) string { return r.RequestToReady.String() }},
			{"release to uncordon, p50 / p99", func(r Result) string { return r.ReleaseToUncordon.String() }},
			{"hand-over, p50 / p99", func(r Result) string { return r.HandOver.String() }},
			{"hand-over of the loop, p50 / p99", func(r Result) string { return r.LoopHandOver.String() }},
		},
		{
			{"wall time", func(r Result) string { return seconds(r.Wall.Drydock) }},
			{"wall time of the loop", func(r Result) string { return seconds(r.Wall.Loop) }},
			{"Drydock / loop", func(r Result) string { return fmt.Sprintf("%.2f", r.Wall.ToLoop) }},
			{"wall time of kubectl drain", func(r Result) string { return seconds(r.Wall.Kubectl) }},
		},
		append([]line{{"API requests per node (the loop's)", func(r Result) string { return beside(r.Requests.Total, r.LoopRequests.Total) }}}, r.verbs()...),
		{
			{"Temporal events per node", func(r Result) string { return fmt.Sprintf("%.1f", r.EventsPerNode) }},
			{"activities per node", func(r Result) string { return fmt.Sprintf("%.1f", r.ActivitiesPerNode) }},
			{"worker: peak memory", func(r Result) string { return fmt.Sprintf("%d MiB", r.Worker.PeakMemoryBytes>>20) }},
			{"worker: CPU, per node", func(r Result) string { return r.cpu(r.Worker) }},
			{"Temporal: CPU, per node", func(r Result) string { return r.cpu(r.Temporal) }},
		},
	}
}

// verbs are the lines of those that were used.
func (r Report) verbs() []line {
	used := map[string]bool{}
	for _, result := range r.Results {
		for _, requests := range []Requests{result.Requests, result.LoopRequests} {
			for verb := range requests.ByVerb {
				used[verb] = true
			}
		}
	}
	var lines []line
	for _, verb := range slices.Sorted(maps.Keys(used)) {
		lines = append(lines, line{"  " + verb, func(r Result) string { return beside(r.Requests.ByVerb[verb], r.LoopRequests.ByVerb[verb]) }})
	}
	return lines
}

// cpu is the time in all and for one node.
func (r Result) cpu(u Usage) string {
	return seconds(u.CPUSeconds) + ", " + seconds(u.CPUSeconds/float64(r.Size.maintenances()))
}

// String is "p50 / p99"; a dash when nothing of the kind happened.
func (l Latency) String() string {
	if l.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f / %.2f s", l.P50, l.P99)
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func beside(ours, theirs float64) string { return fmt.Sprintf("%.1f (%.1f)", ours, theirs) }

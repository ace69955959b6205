package kit

import (
	"fmt"
	"strings"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// DetailsLimit is how long the current details of the Web UI may be, in bytes.
const DetailsLimit = 2000

// Details builds the markdown that the Temporal Web UI shows as the current details of a workflow.
type Details struct{ strings.Builder }

// Head begins a table; line adds a row to it.
func (d *Details) Head(columns ...string) {
	d.Line(columns...)
	d.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

// Line adds a row. What comes after the limit would be cut off anyway, and a workflow has no time to waste on it.
func (d *Details) Line(cells ...string) {
	if d.Len() > DetailsLimit {
		return
	}
	for _, text := range cells {
		d.WriteString("| " + Cell(text) + " ")
	}
	d.WriteString("|\n")
}

// Row adds a row to a table of two columns, unless the value is empty.
func (d *Details) Row(name, value string) {
	if value != "" {
		d.Line(name, value)
	}
}

// Wait adds the current reason and who blocks.
func (d *Details) Wait(w *drydockv1.Wait) {
	if w == nil {
		return
	}
	d.Row("**waiting**", w.Reason+": "+w.Message)
	d.Row("since", w.Since.UTC().Format(TimeFormat))
	if w.Until != nil {
		d.Row("until", w.Until.UTC().Format(TimeFormat))
	}
	d.blockers(w.Blockers)
}

func (d *Details) blockers(blockers []drydockv1.Blocker) {
	for i, b := range blockers {
		if i == 5 {
			d.Row("blocked by", fmt.Sprintf("and %d more", len(blockers)-i))
			return
		}
		d.Row("blocked by", strings.TrimSuffix(b.String()+": "+b.Message, ": "))
	}
}

func (d *Details) Failure(f *maintenancev1.Failure) {
	if f != nil {
		d.Row("**failure**", f.Reason+": "+f.Message)
		d.blockers(f.Blockers)
	}
}

// Text returns the details, cut at a line's end when they are too long.
func (d *Details) Text() string {
	const more = "…\n"
	if d.Len() <= DetailsLimit {
		return d.String()
	}
	text := temporal.Cut(d.String(), DetailsLimit-len(more))
	return text[:strings.LastIndexByte(text, '\n')+1] + more
}

// TimeFormat shows instants to people.
const TimeFormat = "2006-01-02 15:04:05Z"

// Cell makes text fit into a table cell.
func Cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}

// Held adds a row for a hold.
func (d *Details) Held(h *drydockv1.Hold) {
	if h != nil {
		d.Row("**"+emergency.Reason(*h)+"**", h.String())
	}
}

// SummaryLimit is how long a summary of an activity may be, in bytes.
const SummaryLimit = 150

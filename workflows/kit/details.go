package kit

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// DetailsLimit is the maximum size of the current details in the Web UI, in bytes.
const DetailsLimit = 2000

// Details builds the markdown that the Temporal Web UI shows as the current details of a workflow.
type Details struct{ strings.Builder }

// Head begins a table. Line adds a row to it.
func (d *Details) Head(columns ...string) {
	d.Line(columns...)
	d.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

// Line adds a row. It skips rows beyond the limit, because Text cuts them off.
func (d *Details) Line(cells ...string) {
	if d.Full() {
		return
	}
	for _, text := range cells {
		d.WriteString("| " + Cell(text) + " ")
	}
	d.WriteString("|\n")
}

// Full reports whether further rows would be skipped.
func (d *Details) Full() bool { return d.Len() > DetailsLimit }

// Row adds a row to a table of two columns, unless the value is empty.
func (d *Details) Row(name, value string) {
	if value != "" {
		d.Line(name, value)
	}
}

// Wait adds the current reason and its blockers.
func (d *Details) Wait(w *drydockv1.Wait) {
	if w == nil {
		return
	}
	d.Row("**waiting**", w.Reason+": "+w.Message)
	d.Row("since", w.Since.UTC().Format(TimeFormat))
	d.Until(w)
	d.blockers(w.Blockers)
}

// Until adds when a wait ends by itself.
func (d *Details) Until(w *drydockv1.Wait) {
	if w.Until != nil {
		d.Row("until", w.Until.UTC().Format(TimeFormat))
	}
}

// ToDo adds the command with which a person ends a wait or repairs a failure.
func (d *Details) ToDo(command string) {
	if command != "" {
		d.Row("**to do**", "`"+command+"`")
	}
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

// Failure adds a failure and its blockers.
func (d *Details) Failure(f *maintenancev1.Failure) {
	if f != nil {
		d.Row("**failure**", f.Reason+": "+f.Message)
		d.blockers(f.Blockers)
	}
}

// Text returns the details. Beyond the limit, it cuts them at the end of a line.
func (d *Details) Text() string {
	const more = "…\n"
	if d.Len() <= DetailsLimit {
		return d.String()
	}
	text := temporal.Cut(d.String(), DetailsLimit-len(more))
	return text[:strings.LastIndexByte(text, '\n')+1] + more
}

// ShowDetails shows details in the Web UI, with the ID of the trace that this worker sends.
func ShowDetails(ctx workflow.Context, details string) {
	if trace := temporal.TraceOf(ctx); trace != "" {
		details += "\ntrace `" + trace + "`\n"
	}
	workflow.SetCurrentDetails(ctx, details)
}

// TimeFormat shows instants to people.
const TimeFormat = "2006-01-02 15:04:05Z"

// Cell makes text fit into a table cell. Some of the text is of others, such as the message of a lock: it must not become a link, an image or HTML in the
// Web UI, nor end the cell. What is between two backticks is code, in which only the bar has a meaning.
func Cell(text string) string {
	text = strings.ReplaceAll(temporal.Visible(text), "\n", " ")
	parts := strings.Split(text, "`")
	paired := len(parts)%2 == 1 && !strings.Contains(text, "``")
	var cell strings.Builder
	for i, part := range parts {
		switch {
		case paired && i%2 == 1:
			cell.WriteString("`" + strings.ReplaceAll(part, "|", `\|`) + "`")
			continue
		case !paired && i > 0:
			cell.WriteString("\\`")
		}
		cell.WriteString(inert.Replace(part))
	}
	return cell.String()
}

// inert escapes what begins a link, an image or HTML, and what ends a cell.
var inert = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "|", `\|`, "<", "&lt;", "&", "&amp;")

// Held adds a row for a hold.
func (d *Details) Held(h *drydockv1.Hold) {
	if h != nil {
		d.Row("**"+emergency.Reason(*h)+"**", h.String())
	}
}

// SummaryLimit is the maximum size of the summary of an activity, in bytes.
const SummaryLimit = 150

package statuspage

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
)

// statusWords is the display text of a status.
func statusWords(status sreportalv1.ServiceStatus) string {
	switch status {
	case sreportalv1.StatusOperational:
		return "Operational"
	case sreportalv1.StatusMaintenance:
		return "Under maintenance"
	case sreportalv1.StatusDegraded:
		return "Degraded"
	case sreportalv1.StatusPartialOutage:
		return "Partial outage"
	case sreportalv1.StatusMajorOutage:
		return "Major outage"
	}
	return "Unknown"
}

// headline is the status of the whole portal in one sentence.
func headline(v *View) string {
	switch {
	case v.unread():
		return "Not read yet"
	case v.Trouble != nil:
		return "Last known: " + condition(v)
	}
	return condition(v)
}

func condition(v *View) string {
	if len(v.components()) == 0 {
		return "No components yet"
	}
	switch v.status() {
	case sreportalv1.StatusOperational:
		return "All systems operational"
	case sreportalv1.StatusMaintenance:
		return "Maintenance in progress"
	case sreportalv1.StatusDegraded:
		return "Some systems are degraded"
	case sreportalv1.StatusPartialOutage:
		return "Partial outage"
	case sreportalv1.StatusMajorOutage:
		return "Major outage"
	}
	return "Status unknown"
}

// tone is how good a status is; the style sheet has a colour for each.
func tone(status sreportalv1.ServiceStatus) string {
	switch status {
	case sreportalv1.StatusOperational:
		return "good"
	case sreportalv1.StatusMaintenance:
		return "work"
	case sreportalv1.StatusDegraded:
		return "warn"
	case sreportalv1.StatusPartialOutage:
		return "bad"
	case sreportalv1.StatusMajorOutage:
		return "worst"
	}
	return "none"
}

// toneOfState is the tone of the state of a rollout, a cluster or a node.
func toneOfState(state string) string {
	switch strings.ToLower(state) {
	case "completed", "complete":
		return "good"
	case "failed", "timedout", "aborted", "terminated", "requestorfailed", "nodegone", "clusternotfound", "clusterunreachable":
		return "bad"
	case "offline", "clustersoffline":
		return "warn"
	case "cancelled", "skipped", "pending", "notenabled", "notstarted", "notreadyet":
		return "none"
	}
	return "work"
}

// daysText describes the bar of days for screen readers: the number of days in each status, and the dates of bad ones.
func daysText(days []portal.Day) string {
	counts, dates, order := map[string]int{}, map[string][]string{}, []string{}
	for _, run := range runsOf(days) {
		if counts[run.Words] == 0 {
			order = append(order, run.Words)
		}
		counts[run.Words] += run.Days
		if run.Tone != "good" && run.Tone != "blank" {
			dates[run.Words] = append(dates[run.Words], run.When)
		}
	}
	parts := make([]string, 0, len(order))
	for _, words := range order {
		part := fmt.Sprintf("%s on %s", strings.ToLower(words), plural(counts[words], "day"))
		if when := dates[words]; len(when) > 0 {
			part += " (" + strings.Join(when, ", ") + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("Last %s, by the worst of each: %s.", plural(len(days), "day"), strings.Join(parts, ", "))
}

func dayWords(day portal.Day) string {
	if day.Worst == "" {
		return "Not known"
	}
	return statusWords(day.Worst)
}

// run is a series of days with the same status: one piece of the bar.
type run struct {
	Days int
	Tone string
	// When is e.g. "2 Nov to 3 Nov", Words their status.
	When, Words string
}

// runsOf divides a bar into pieces: a hundred bars of thirty pieces each would be a long page.
func runsOf(days []portal.Day) []run {
	var runs []run
	first := 0
	for i, day := range days {
		if i+1 < len(days) && days[i+1].Worst == day.Worst {
			continue
		}
		when := dayText(days[first].Date)
		if i > first {
			when += " to " + dayText(day.Date)
		}
		tone := tone(day.Worst)
		if day.Worst == "" {
			tone = "blank"
		}
		runs = append(runs, run{Days: i + 1 - first, Tone: tone, When: when, Words: dayWords(day)})
		first = i + 1
	}
	return runs
}

// dayText is e.g. "3 Nov".
func dayText(date string) string {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return day.Format("2 Jan")
}

// verdict is the reason and message of the condition that describes a rollout best.
func verdict(u Upgrade) (state, message string) {
	if u.Cut() {
		return u.Execution, cutWords(u.Execution)
	}
	for _, condition := range []string{ranv1.ConditionSucceeded, ranv1.ConditionProgressing} {
		if found := meta.FindStatusCondition(u.Status.Conditions, condition); found != nil {
			return found.Reason, found.Message
		}
	}
	if n := len(u.Status.Conditions); n > 0 {
		return u.Status.Conditions[n-1].Reason, u.Status.Conditions[n-1].Message
	}
	switch {
	case !u.Running():
		return u.Execution, ""
	case u.Phase != "":
		return u.Phase, ""
	case !u.Known:
		return notReadYet, ""
	}
	return "Planning", ""
}

// notReadYet is the state of a workflow whose status has not been read.
const notReadYet = "NotReadYet"

// cutWords describes the end of a workflow without a status.
func cutWords(execution string) string {
	switch execution {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED.String():
		return "It was terminated and left no status"
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT.String():
		return "It timed out in Temporal and left no status"
	}
	return "It ended and left no status"
}

// unreadWords is why progress is unknown; empty if it is known.
func unreadWords(known, running bool) string {
	switch {
	case known:
		return ""
	case running:
		return "Not read yet"
	}
	return "Progress unknown"
}

// codeIn marks the parts of a text between backticks, which are commands and names, as code.
func codeIn(text string) template.HTML {
	parts := strings.Split(text, "`")
	var marked strings.Builder
	for i, part := range parts {
		part = template.HTMLEscapeString(part)
		switch {
		case i%2 == 0:
			marked.WriteString(part)
		case i == len(parts)-1: // there is no closing one
			marked.WriteString("`" + part)
		default:
			marked.WriteString("<code>" + part + "</code>")
		}
	}
	return template.HTML(marked.String()) //nolint:gosec // every part was escaped
}

// uptimeText is the share of the known time without an outage, e.g. "99.95% uptime"; empty: nothing is known.
func uptimeText(days []portal.Day) string {
	known, out := int64(0), int64(0)
	for _, day := range days {
		known += day.KnownSeconds
		out += day.StatusSeconds[sreportalv1.StatusPartialOutage] + day.StatusSeconds[sreportalv1.StatusMajorOutage]
	}
	if known == 0 {
		return ""
	}
	hundredths := (known - out) * 10000 / known // rounded down: an outage never shows as 100%
	return strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100), "0"), ".0") + "% uptime"
}

// legend has the tones of the bars of days with their words.
func legend() []pill {
	found := []pill{}
	for _, status := range []sreportalv1.ServiceStatus{
		sreportalv1.StatusOperational, sreportalv1.StatusMaintenance, sreportalv1.StatusDegraded, sreportalv1.StatusPartialOutage, sreportalv1.StatusMajorOutage,
	} {
		found = append(found, statusPill(status))
	}
	return append(found, pill{"blank", "Not known"})
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

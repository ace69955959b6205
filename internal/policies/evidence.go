package policies

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Settle is how long a report that is older than its policy does not count. The agent of a cluster evaluates a changed template within seconds, but reports
// nothing of a template that did not change: the hub cannot tell such a report from one that is still to come.
const Settle = 2 * time.Minute

// Report is what a cluster reports of a policy, with the times that tell whether the report is about the policy as it is now.
type Report struct {
	Compliance Compliance
	// Specified is when the spec of the replica was last changed: with the policy, or because it is enforced, or no longer. It has the clock of the hub.
	Specified time.Time
	// Reported is when the status was last written, by the clock of the hub. Evaluated is when the first of the templates had its last evaluation, by the
	// clock of the cluster. Zero: the replica does not tell.
	Reported, Evaluated time.Time
}

// ReadReport reads a whole or trimmed replica; nil: it does not exist.
func ReadReport(replica *unstructured.Unstructured) Report {
	report := Report{Compliance: ComplianceOf(replica)}
	if replica == nil {
		return report
	}
	if times, trimmed, _ := unstructured.NestedStringMap(replica.Object, trimmedTimes); trimmed {
		report.Specified, report.Reported, report.Evaluated = parseTime(times["specified"]), parseTime(times["reported"]), parseTime(times["evaluated"])
		return report
	}
	report.Specified = Specified(replica)
	for _, entry := range replica.GetManagedFields() {
		if entry.Subresource == "status" && entry.Time != nil && entry.Time.After(report.Reported) {
			report.Reported = entry.Time.Time
		}
	}
	report.Evaluated = evaluated(replica)
	return report
}

// Specified is when the spec of a policy or replica was last changed, to the second; zero: it does not tell.
func Specified(policy metav1.Object) time.Time {
	var last time.Time
	for _, entry := range policy.GetManagedFields() {
		ofSpec := entry.Subresource == "" && entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
		if ofSpec && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// evaluated is the earliest of the last evaluations of the templates; zero: there is none.
func evaluated(replica *unstructured.Unstructured) time.Time {
	details, _, _ := unstructured.NestedSlice(replica.Object, "status", "details")
	var first time.Time
	for _, detail := range details {
		template, _ := detail.(map[string]any)
		history, _, _ := unstructured.NestedSlice(template, "history")
		var last time.Time
		for _, event := range history {
			if at := evaluationTime(event); at.After(last) {
				last = at
			}
		}
		if !last.IsZero() && (first.IsZero() || last.Before(first)) {
			first = last
		}
	}
	return first
}

// evaluationTime is the time of an entry in the history of a template. The name of its event ends with it in nanoseconds.
func evaluationTime(event any) time.Time {
	fields, _ := event.(map[string]any)
	name, _, _ := unstructured.NestedString(fields, "eventName")
	text, _, _ := unstructured.NestedString(fields, "lastTimestamp")
	at := parseTime(text)
	nanoseconds, err := strconv.ParseInt(name[strings.LastIndex(name, ".")+1:], 16, 64)
	if exact := time.Unix(0, nanoseconds); err == nil && exact.Truncate(time.Second).Equal(at) {
		return exact
	}
	return at
}

// Judge returns the compliance that counts, if the policy itself was last changed at specified (zero: unknown). A cluster is Compliant only if its report is at
// least as new as the policy and the spec of its replica. Outdated: it is older. It then counts from settles on, if the cluster is available.
func (r Report) Judge(specified time.Time) (compliance Compliance, settles time.Time) {
	changed := r.Specified
	if specified.After(changed) {
		changed = specified
	}
	older := func(at time.Time) bool { return !at.IsZero() && at.Before(changed) }
	if r.Compliance == Compliant && (older(r.Reported) || older(r.Evaluated)) {
		return Outdated, changed.Add(Settle)
	}
	return r.Compliance, time.Time{}
}

// trimmedTimes is the field of a trimmed replica with the times of its report.
const trimmedTimes = "times"

// times are the times of the report as text.
func (r Report) times() map[string]any {
	times := map[string]any{}
	for name, at := range map[string]time.Time{"specified": r.Specified, "reported": r.Reported, "evaluated": r.Evaluated} {
		if !at.IsZero() {
			times[name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	return times
}

func parseTime(text string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, text)
	return at
}

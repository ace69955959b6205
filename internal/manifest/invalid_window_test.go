package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
)

const goodWindows = `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: w, namespace: prod}
spec:
  timeZone: Europe/Berlin
  recurrence: |
    DTSTART:20261121T220000
    RRULE:FREQ=WEEKLY;INTERVAL=2
  duration: 4h
  cutoff: 30m
  exclusions:
  - {name: freeze, scheduledStart: "2026-12-19T00:00:00+01:00", scheduledEnd: "2027-01-04T00:00:00+01:00"}
  - {name: backup, recurrence: "FREQ=DAILY;BYHOUR=23", endTime: "23:30", effect: trim}
  selector: {matchLabels: {env: prod}}
  notify: [{url: "https://chat.example.com/hook", leads: [24h, 1h30m]}]
---
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: m}
spec: {title: Switches, portalRef: main, components: [net], scheduledStart: "2026-03-28T02:00:00Z", scheduledEnd: "2026-03-28T06:00:00Z"}
---
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: net}
spec: {displayName: Network, group: Infrastructure, portalRef: main, link: "https://grafana.example.com"}
`

func TestDefaultsOfWindowsMaintenancesAndComponents(t *testing.T) {
	objects, err := manifest.Decode("f", []byte(goodWindows))
	require.NoError(t, err)
	require.Len(t, objects, 3)
	window := objects[0].(*drydockv1.MaintenanceWindow).Spec
	require.Equal(t, drydockv1.OverrunFinish, window.OnOverrun)
	require.Equal(t, drydockv1.GapLater, window.OnGap)
	require.Equal(t, drydockv1.RepeatFirst, window.OnRepeat)
	require.Equal(t, drydockv1.ExclusionDrop, window.Exclusions[0].Effect)
	require.Equal(t, sreportalv1.StatusMaintenance, objects[1].(*sreportalv1.Maintenance).Spec.AffectedStatus)
	require.Equal(t, sreportalv1.StatusUnknown, objects[2].(*sreportalv1.Component).Spec.Status)
}

// window is a MaintenanceWindow with a zone, and fields added to its spec.
func window(fields string) string {
	return `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: w}
spec:
  timeZone: Europe/Berlin
` + indented(fields)
}

const nightly = "recurrence: FREQ=DAILY;BYHOUR=22\n"

// announced is a Maintenance with the required fields, and these times.
func announced(times string) string {
	return `
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: m}
spec:
  title: Switches
  portalRef: main
` + indented(times)
}

func invalidWindows() []invalidCase {
	const w, m, c = "f: MaintenanceWindow w: ", "f: Maintenance m: ", "f: Component c: "
	const durationRule = "must be a duration with its units, such as 90s, 30m or 1h30m"
	return []invalidCase{
		{
			name: "a window without a zone", text: strings.Replace(window(nightly+"duration: 4h"), "timeZone: Europe/Berlin", "", 1),
			lines: []string{w + "spec.timeZone: Required value"},
		},
		{
			name: "a window with an unknown time zone", text: strings.Replace(window(nightly+"duration: 4h"), "Europe/Berlin", "Europe/Bonn", 1),
			lines: []string{w + `spec.timeZone: Invalid value: "Europe/Bonn": must be the IANA name of a time zone, e.g. Europe/Berlin or UTC`}, onlyOffline: true,
		},
		{
			name: "a window in the local time zone", text: strings.Replace(window(nightly+"duration: 4h"), "Europe/Berlin", "Local", 1),
			lines: []string{w + `spec.timeZone: Invalid value: "Local": must be the IANA name of a time zone, e.g. Europe/Berlin or UTC`}, onlyOffline: true,
		},
		{
			name: "a window without times", text: window("cutoff: 1h"),
			lines: []string{w + "spec: Invalid value: either recurrence, or scheduledStart and scheduledEnd, must be set"},
		},
		{
			name: "a recurrence without a duration", text: window(nightly),
			lines: []string{w + "spec: Invalid value: a recurrence, and nothing else, has either duration or endTime"},
		},
		{
			name: "a window with duration and endTime", text: window(nightly + "duration: 4h\nendTime: '02:00'"),
			lines: []string{w + "spec: Invalid value: a recurrence, and nothing else, has either duration or endTime"},
		},
		{
			name: "a window that ends when it starts", text: window("scheduledStart: 2026-11-20T22:00:00Z\nscheduledEnd: 2026-11-20T23:00:00+01:00"),
			lines: []string{w + "spec.scheduledEnd: Invalid value: must be after scheduledStart"},
		},
		{
			name: "invalid durations", text: window(nightly + "duration: 4 hours\ncutoff: ''\nnotify: [{url: 'https://a', leads: [1d]}]"),
			lines: []string{
				w + `spec.cutoff: Invalid value: "": ` + durationRule,
				w + `spec.duration: Invalid value: "4 hours": ` + durationRule,
				w + `spec.notify[0].leads[0]: Invalid value: "1d": ` + durationRule,
			},
		},
		{
			name: "durations that are numbers", text: window(nightly + "duration: 300\ncutoff: 1.5\nnotify: [{url: 'https://a', leads: [60]}]"),
			lines: []string{
				w + "spec.cutoff: must be of type string, not number: it has no unit: write 1.5s for seconds, 1.5m for minutes or 1.5h for hours",
				w + "spec.duration: must be of type string, not integer: it has no unit: write 300s for seconds, 300m for minutes or 300h for hours",
				w + "spec.notify[0].leads[0]: must be of type string, not integer: it has no unit: write 60s for seconds, 60m for minutes or 60h for hours",
			},
		},
		{
			name: "a duration without a unit", text: window(nightly + "duration: '4'"),
			lines: []string{w + `spec.duration: Invalid value: "4": ` + durationRule},
		},
		{
			name: "an invalid time of day", text: window(nightly + "endTime: '24:00'"),
			lines: []string{w + `spec.endTime: Invalid value: "24:00": should match '^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$'`},
		},
		{
			name: "a recurrence that is too frequent", text: window("recurrence: FREQ=SECONDLY\nduration: 4h"),
			lines: []string{w + `spec.recurrence: Invalid value: "FREQ=SECONDLY": RRULE: FREQ=SECONDLY: a window opens hourly at most; give the minutes in BYMINUTE`}, onlyOffline: true,
		},
		{
			name: "durations that are zero or too long", text: window("recurrence: FREQ=DAILY;BYHOUR=22\nduration: 0s\nexclusions: [{name: e, recurrence: FREQ=DAILY;BYHOUR=22, duration: 9000h}]"),
			lines: []string{
				w + `spec.duration: Invalid value: "0s": must be more than 0s and at most 8784h0m0s`,
				w + `spec.exclusions[0].duration: Invalid value: "9000h": must be more than 0s and at most 8784h0m0s`,
			}, onlyOffline: true,
		},
		{
			name: "a calendar that ends before it begins", text: window(nightly + "duration: 4h\nnotBefore: 2026-11-20T22:00:00Z\nnotAfter: 2026-11-20T22:00:00Z"),
			lines: []string{w + "spec.notAfter: Invalid value: must be after notBefore"},
		},
		{
			name: "exclusions that are incomplete or named twice", text: window(nightly + "duration: 4h\nexclusions: [{name: e}, {name: e, scheduledStart: 2026-11-20T22:00:00Z}, {effect: skip, recurrence: RDATE, endTime: '01:00'}]"),
			lines: []string{
				w + "spec.exclusions[0]: Invalid value: either recurrence, or scheduledStart and scheduledEnd, must be set",
				w + `spec.exclusions[1]: Duplicate value: {"name":"e"}`,
				w + `spec.exclusions[2].effect: Unsupported value: "skip": supported values: "drop", "trim"`,
				w + "spec.exclusions[2].name: Required value",
				w + `spec.exclusions[2].recurrence: Invalid value: "RDATE": RRULE: "RDATE" is not one of FREQ, INTERVAL, WKST, COUNT, UNTIL, BYSETPOS, BYMONTH, BYMONTHDAY, BYYEARDAY, BYWEEKNO, BYDAY, BYHOUR, BYMINUTE, BYSECOND`,
			},
			cluster: []string{"spec.exclusions[1]", "spec.exclusions[2].effect", "spec.exclusions[2].name"},
		},
		{
			name: "a window selector that can never match", text: window(nightly + "duration: 4h\nselector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}"),
			lines: []string{w + `spec.selector: Invalid value: "a,!a": can never match: its requirements for label a contradict each other`}, onlyOffline: true,
		},
		{
			name: "a webhook with an invalid URL", text: window(nightly + "duration: 4h\nnotify: [{url: 'ftp://a'}]"),
			lines: []string{w + `spec.notify[0].url: Invalid value: "ftp://a": should match '^(https?://|mailto:).+'`},
		},
		{
			name: "a template for a webhook", text: window(nightly + "duration: 4h\nnotify: [{url: 'https://a', template: {title: a}}]"),
			lines: []string{w + "spec.notify[0].template: Forbidden: only e-mails have a text"},
		},
		{
			name: "e-mails that cannot be written", text: window(nightly + "duration: 4h\nnotify: [{url: 'mailto:ann'}, {url: 'mailto:ann@example.com', template: {title: '{{ .Start.Format \"15:04\" }}', body: '{{ .Event }}'}}]"),
			lines: []string{
				w + `spec.notify[0].url: Invalid value: "mailto:ann": "ann": is not an e-mail address such as ann@example.com; write mailto: and addresses, joined by commas`,
				w + `spec.notify[1].template.body: Invalid value: template: template:1:3: executing "template" at <.Event>: can't evaluate field Event in type windows.templateData`,
				w + `spec.notify[1].template.title: Invalid value: template: template:1:9: executing "template" at <.Start.Format>: error calling Format: value method drydock.dev/drydock/internal/notify.Instant.Format called using nil *Instant pointer`,
			}, onlyOffline: true,
		},
		{
			name: "a maintenance that ends before it starts", text: announced("scheduledStart: 2026-03-28T02:00:00Z\nscheduledEnd: 2026-03-28T01:00:00Z"),
			lines: []string{m + "spec.scheduledEnd: Invalid value: must be after scheduledStart"},
		},
		{
			name: "a maintenance without an end", text: announced("scheduledStart: 2026-03-28T02:00:00Z"),
			lines: []string{m + "spec.scheduledEnd: Required value"},
		},
		{
			name: "a maintenance with fractions of a second", text: announced("scheduledStart: 2026-03-28T02:00:00.5Z\nscheduledEnd: 2026-03-28T03:00:00Z"),
			lines: []string{m + `spec.scheduledStart: Invalid value: "2026-03-28T02:00:00.5Z": must be a whole second`}, onlyOffline: true,
		},
		{
			name: "a maintenance with invalid times", text: announced("scheduledStart: tomorrow\nscheduledEnd: 2026-03-28T03:00:00Z\naffectedStatus: unknown"),
			lines: []string{
				m + `spec.affectedStatus: Unsupported value: "unknown": supported values: "maintenance", "degraded", "partial_outage", "major_outage"`,
				m + `spec.scheduledStart: must be of type date-time, not tomorrow`,
			},
		},
		{
			name: "invalid names of portals", text: window(nightly+"duration: 4h\nportalRef: a/b") + "---" +
				strings.Replace(announced("scheduledStart: 2026-03-28T02:00:00Z\nscheduledEnd: 2026-03-28T03:00:00Z"), "portalRef: main", "portalRef: Main", 1),
			lines: []string{
				w + `spec.portalRef: Invalid value: "a/b": is not the name of a portal: lower-case letters, digits, '-' and '.'`,
				m + `spec.portalRef: Invalid value: "Main": is not the name of a portal: lower-case letters, digits, '-' and '.'`,
			}, onlyOffline: true,
		},
		{
			name: "a component with an empty name and a file link", text: `
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: c}
spec: {displayName: "", group: g, portalRef: main, link: "file:///etc", status: maintenance}
`,
			lines: []string{
				c + `spec.displayName: Invalid value: "": should be at least 1 chars long`,
				c + `spec.link: Invalid value: "file:///etc": should match '^https?://.+'`,
				c + `spec.status: Unsupported value: "maintenance": supported values: "operational", "degraded", "partial_outage", "major_outage", "unknown"`,
			},
		},
	}
}

func TestATimeThatOnlyTheSchemaAcceptsIsReportedWithItsPath(t *testing.T) {
	_, err := manifest.Decode("f", []byte(announced("scheduledStart: 2026-03-28t02:30:00z\nscheduledEnd: 2026-03-29T03:00:00Z")))
	require.EqualError(t, err, `f: Maintenance m: spec.scheduledStart: "2026-03-28t02:30:00z" is not a time such as 2026-11-20T22:00:00Z`)
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const switchMaintenance = `
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: switches}
spec: {title: Switches, portalRef: main, scheduledStart: "2026-03-28T02:00:00Z", scheduledEnd: "2026-03-28T06:00:00Z"}
`

func TestThePhaseOfAMaintenance(t *testing.T) {
	isolate(t)
	maintenance := file(t, "maintenance.yaml", switchMaintenance)
	for at, want := range map[string]string{
		"2026-03-27T23:00:00Z":           `{"phase": "upcoming", "nextTransition": "2026-03-28T02:00:00Z", "requeueAfterSeconds": 10800}`,
		"2026-03-28T07:00:00.5+01:00":    `{"phase": "completed", "nextTransition": null, "requeueAfterSeconds": null}`,
		"2026-03-28T06:00:00Z":           `{"phase": "in_progress", "nextTransition": "2026-03-28T06:00:00Z", "requeueAfterSeconds": 1}`,
		"2026-03-28T06:00:00.000000001Z": `{"phase": "completed", "nextTransition": null, "requeueAfterSeconds": null}`,
	} {
		require.JSONEq(t, want, succeeds(t, "window", "phase", "-f", maintenance, "--at", at, "-o", "json"), at)
	}
	require.Equal(t, "Switches: upcoming until 2026-03-28T02:00:00Z, for 3h\n", succeeds(t, "window", "phase", "-f", maintenance, "--at", "2026-03-27T23:00:00Z"))
	require.Equal(t, "Switches: completed\n", succeeds(t, "window", "phase", "-f", maintenance, "--at", "2027-03-27T23:00:00Z"))
	require.Equal(t, "completed\n", succeeds(t, "window", "phase", "-f", maintenance, "-o", "name"), "now")
}

func TestAMaintenanceThatEndsBeforeItStartsIsRefused(t *testing.T) {
	isolate(t)
	got := drydockWith(t, strings.Replace(switchMaintenance, "T06:00", "T02:00", 1), "window", "phase", "-f", "-", "--at", "ignored")
	require.Equal(t, outcome{
		status: exitUsage, stderr: "error: stdin: Maintenance switches: spec.scheduledEnd: Invalid value: must be after scheduledStart\n",
	}, got)
}

const springWindow = `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: nightly, namespace: prod}
spec:
  timeZone: Europe/Berlin
  recurrence: FREQ=DAILY;BYHOUR=2;BYMINUTE=30
  endTime: "04:00"
  cutoff: 30m
  exclusions:
  - {name: freeze, scheduledStart: "2026-03-29T22:00:00Z", scheduledEnd: "2026-03-30T22:00:00Z"}
`

func TestThePreviewOfAWindow(t *testing.T) {
	isolate(t)
	window := file(t, "window.yaml", springWindow)
	args := []string{"window", "preview", "-f", window, "--from", "2026-03-28T00:00:00Z", "--to", "2026-03-31T00:00:00Z"}
	for _, zone := range []string{"UTC", "Asia/Tokyo"} {
		t.Setenv("TZ", zone)
		require.JSONEq(t, `{
			"occurrences": [
				{"start": "2026-03-28T01:30:00Z", "end": "2026-03-28T03:00:00Z", "localStart": "2026-03-28T02:30:00+01:00", "note": ""},
				{"start": "2026-03-29T01:30:00Z", "end": "2026-03-29T02:00:00Z", "localStart": "2026-03-29T03:30:00+02:00", "note": "02:30:00 does not exist that day: 03:30:00"}
			],
			"dropped": [{"start": "2026-03-30T00:30:00Z", "reason": "Excluded"}]
		}`, succeeds(t, append(args, "-o", "json")...))
	}
	require.Equal(t, `OPENS                            CLOSES                           FOR       NOTE
Sat 2026-03-28 02:30:00 +01:00   Sat 2026-03-28 04:00:00 +01:00   1h30m0s
Sun 2026-03-29 03:30:00 +02:00   Sun 2026-03-29 04:00:00 +02:00   30m0s     02:30:00 does not exist that day: 03:30:00
not at 2026-03-30T00:30:00Z: Excluded by freeze
`, succeeds(t, args...))
	require.Equal(t, "2026-03-28T01:30:00Z\n2026-03-29T01:30:00Z\n", succeeds(t, append(args, "-o", "name")...))
	require.Equal(t, "window prod/nightly does not open in this period\n",
		succeeds(t, "window", "preview", "-f", window, "--from", "2026-03-31T04:00:00Z", "--to", "2026-03-31T05:00:00Z"))
	require.NotEmpty(t, succeeds(t, "window", "preview", "-f", window), "from now on")
}

func TestWindowsAllowOrRefuseAStart(t *testing.T) {
	isolate(t)
	day := "---" + strings.NewReplacer("nightly", "day", "BYHOUR=2;BYMINUTE=30", "BYHOUR=12", "04:00", "14:00", "cutoff", "selector: {matchLabels: {env: prod}}\n  cutoff").Replace(springWindow)
	windows := file(t, "windows.yaml", springWindow+day)
	tests := []struct {
		name, at string
		args     []string
		status   int
		want     string
	}{
		{"open", "2026-03-28T02:00:00Z", nil, exitDone, `{"allowed": true, "reason": "Open", "until": "2026-03-28T03:00:00Z", "nextOpen": null}`},
		{"too late", "2026-03-28T02:30:00Z", nil, exitFailed, `{"allowed": false, "reason": "Cutoff", "until": null, "nextOpen": "2026-03-28T11:00:00Z"}`},
		{"too long", "2026-03-28T02:00:00Z", []string{"--needs", "2h"}, exitFailed, `{"allowed": false, "reason": "DoesNotFit", "until": null, "nextOpen": "2026-03-28T11:00:00Z"}`},
		{"too long for all", "2026-03-28T02:00:00Z", []string{"--needs", "3h"}, exitFailed, `{"allowed": false, "reason": "DoesNotFit", "until": null, "nextOpen": null}`},
		{"frozen", "2026-03-30T10:30:00Z", nil, exitFailed, `{"allowed": false, "reason": "Excluded", "until": null, "nextOpen": "2026-03-31T00:30:00Z"}`},
		{"closed", "2026-03-28T09:00:00Z", nil, exitFailed, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-03-28T11:00:00Z"}`},
		{"closed for the cluster; its short opening is only cutoff", "2026-03-28T11:30:00Z", []string{"--cluster-labels", "env=lab"}, exitFailed, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-03-31T00:30:00Z"}`},
		{"open for another cluster", "2026-03-28T11:30:00Z", []string{"--cluster-labels", "env=prod,site=a"}, exitDone, `{"allowed": true, "reason": "Open", "until": "2026-03-28T13:00:00Z", "nextOpen": null}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := drydock(t, append([]string{"window", "allows", "-f", windows, "--at", test.at, "-o", "json"}, test.args...)...)
			require.Equal(t, test.status, got.status, got.stderr)
			require.Empty(t, got.stderr)
			require.JSONEq(t, test.want, got.stdout)
		})
	}
	t.Run("for no cluster", func(t *testing.T) {
		got := drydockWith(t, strings.TrimPrefix(day, "---"), "window", "allows", "-f", "-", "--cluster-labels", "env=lab", "-o", "json")
		require.Equal(t, exitFailed, got.status)
		require.JSONEq(t, `{"allowed": false, "reason": "NoWindow", "until": null, "nextOpen": null}`, got.stdout)
	})
	t.Run("to people", func(t *testing.T) {
		require.Equal(t, "allowed: Open\nwindow prod/nightly closes at 2026-03-28T03:00:00Z\n", succeeds(t, "window", "allows", "-f", windows, "--at", "2026-03-28T02:00:00Z"))
		require.Equal(t, outcome{status: exitFailed, stdout: "not allowed: Closed\nwindow prod/day opens at 2026-03-28T11:00:00Z\n"},
			drydock(t, "window", "allows", "-f", windows, "--at", "2026-03-28T09:00:00Z"))
	})
}

func TestAnInvalidWindowIsRefused(t *testing.T) {
	isolate(t)
	window := file(t, "window.yaml", springWindow)
	tests := []struct {
		name, stdin string
		args        []string
		stderr      string
	}{
		{
			name: "with a rule that opens every second", stdin: strings.Replace(springWindow, "DAILY", "SECONDLY", 1), args: []string{"preview", "-f", "-"},
			stderr: `error: stdin: MaintenanceWindow prod/nightly: spec.recurrence: Invalid value: "FREQ=SECONDLY;BYHOUR=2;BYMINUTE=30": RRULE: FREQ=SECONDLY: a window opens hourly at most; give the minutes in BYMINUTE`,
		},
		{
			name: "backwards", args: []string{"preview", "-f", window, "--from", "2026-03-28T00:00:00Z", "--to", "2026-03-27T00:00:00Z"},
			stderr: "error: invalid range: 2026-03-27T00:00:00Z is not after 2026-03-28T00:00:00Z; set another --from and --to (see drydock window preview --help)",
		},
		{
			name: "over thousands of years", args: []string{"preview", "-f", window, "--from", "2026-03-28T00:00:00Z", "--to", "4026-03-27T00:00:00Z"},
			stderr: "error: window prod/nightly: too many occurrences: more than 20000 around 2026-03-24T22:00:00Z; set another --from and --to (see drydock window preview --help)",
		},
		{
			name: "with an invalid time", args: []string{"preview", "-f", window, "--from", "tomorrow"},
			stderr: `error: --from "tomorrow" is not a time such as 2026-11-20T22:00:00Z (see drydock window preview --help)`,
		},
		{
			name: "with a negative duration", args: []string{"allows", "-f", window, "--needs", "-1h"},
			stderr: "error: --needs -1h0m0s: must not be negative (see drydock window allows --help)",
		},
		{
			name: "with a time before all calendars", args: []string{"allows", "-f", window, "--at", "0001-01-01T00:00:00Z"},
			stderr: "error: invalid range: 0001-01-01T00:00:00Z: the year must be from 1970 to 9000; set --at to another time (see drydock window allows --help)",
		},
		{
			name: "with invalid cluster labels", args: []string{"allows", "-f", window, "--cluster-labels", "env"},
			stderr: `error: --cluster-labels "env" are not labels such as env=prod,site=a (see drydock window allows --help)`,
		},
		{
			name: "as a maintenance", args: []string{"phase", "-f", window},
			stderr: "error: " + window + ": MaintenanceWindow prod/nightly: is not a Maintenance",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, outcome{status: exitUsage, stderr: test.stderr + "\n"}, drydockWith(t, test.stdin, append([]string{"window"}, test.args...)...))
		})
	}
}

func TestAWindowCommandIsValidatedBeforeItIsSent(t *testing.T) {
	isolate(t)
	for name, tt := range map[string]struct {
		args   []string
		stderr string
	}{
		"an override without a reason":   {[]string{"window", "override", "prod/night", "--for", "2h"}, "--reason is required"},
		"an extension into a freeze":     {[]string{"window", "extend", "prod/night", "--until", "2026-12-02T05:00:00Z", "--force"}, "--reason is required with --force"},
		"an override without a duration": {[]string{"window", "override", "prod/night", "--for", "0s", "--reason", "CVE"}, "--for 0s: must be positive"},
		"an invalid end":                 {[]string{"window", "extend", "prod/night", "--until", "soon"}, "--until"},
		"an invalid name":                {[]string{"window", "status", "a/b/c"}, "is not the name of a window: give NAME, NAMESPACE/NAME or window/NAMESPACE/NAME"},
		"a contradicting namespace":      {[]string{"window", "end", "prod/night", "-n", "ops"}, `namespace "prod" contradicts -n ops`},
	} {
		t.Run(name, func(t *testing.T) {
			a := drydock(t, tt.args...)
			require.Equal(t, exitUsage, a.status)
			require.Contains(t, a.stderr, tt.stderr)
		})
	}
}

func readsAStoredWindow(t *testing.T, objects dynamic.Interface) {
	text, err := os.ReadFile("../docs/examples/maintenance-window.yaml")
	require.NoError(t, err)
	window := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, &window.Object))
	window.SetNamespace("default")
	stored, err := objects.Resource(drydockv1.GroupVersion.WithResource("maintenancewindows")).Namespace("default").Create(t.Context(), window, metav1.CreateOptions{})
	require.NoError(t, err)
	printed, err := yaml.Marshal(stored.Object)
	require.NoError(t, err)
	got := drydockWith(t, string(printed), "window", "preview", "-f", "-", "--from", "2026-12-01T00:00:00Z", "--to", "2026-12-06T00:00:00Z", "-o", "name")
	require.Equal(t, outcome{stdout: "2026-12-05T21:00:00Z\n2026-12-05T22:30:00Z\n"}, got)
}

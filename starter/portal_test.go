package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/portal"
)

// componentText returns an operational component of a portal.
func componentText(name, portal string) string {
	return fmt.Sprintf(`
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: %s, namespace: prod}
spec: {displayName: %s, group: Shop, portalRef: %s, status: operational}
---`, name, strings.ToUpper(name), portal)
}

// shopText returns two components and a maintenance from that time on, of one of them and of a missing one.
func shopText(start time.Time) string {
	return componentText("web", "main") + componentText("db", "main") + fmt.Sprintf(`
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: switches, namespace: prod}
spec: {title: New switches, portalRef: main, components: [db, rack], affectedStatus: degraded, scheduledStart: %q, scheduledEnd: %q}
`, start.UTC().Format(time.RFC3339), start.Add(time.Hour).UTC().Format(time.RFC3339))
}

func TestAnInvalidPortalIsRefusedBeforeAnyChange(t *testing.T) {
	isolate(t)
	shop := shopText(time.Date(2026, 3, 28, 2, 0, 0, 0, time.UTC))
	for name, tt := range map[string]struct {
		text, message string
		args          []string
	}{
		"an end before the start":      {text: strings.Replace(shop, "T03:00", "T01:00", 1), message: "error: stdin: Maintenance prod/switches: spec.scheduledEnd: Invalid value: must be after scheduledStart\n"},
		"a link with a script":         {text: strings.Replace(shop, "group: Shop", "group: Shop, link: 'javascript:x'", 1), message: "Component prod/web: spec.link: "},
		"an object of another kind":    {text: validRollout, message: "error: ClusterGroupUpgrade november is neither a Component nor a Maintenance\n"},
		"an object that appears twice": {text: componentText("web", "main") + componentText("web", "other"), message: "error: Component prod/web appears twice\n"},
		"a contradicting namespace":    {text: shop, args: []string{"-n", "test"}, message: "error: namespace \"prod\" contradicts -n test"},
		"no objects":                   {text: "", message: "error: stdin: holds no objects\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := drydockWith(t, tt.text, append([]string{"portal", "apply", "-f", "-"}, tt.args...)...)
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, tt.message)
			require.Empty(t, got.stdout)
		})
	}
	require.Equal(t, outcome{status: exitUsage, stderr: "error: \"a/b\" is not the name of a portal: give NAME or portal/NAME (see drydock portal status --help)\n"}, drydock(t, "portal", "status", "a/b"))
	require.Contains(t, drydock(t, "portal", "delete", "main").stderr, "nothing to delete")
}

func TestAPortalIsPrintedAsATable(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := portal.Portal{Name: "main"}
	spec := sreportalv1.ComponentSpec{DisplayName: "Web", Group: "Shop", PortalRef: "main", Status: sreportalv1.StatusOperational}
	component := sreportalv1.Component{Spec: spec}
	component.Name = "web"
	maintenance := sreportalv1.Maintenance{Spec: sreportalv1.MaintenanceSpec{Title: "New switches", PortalRef: "main", Components: []string{"web"}}}
	maintenance.Name = "switches"
	maintenance.Spec.ScheduledStart.Time, maintenance.Spec.ScheduledEnd.Time = noon.Add(3*time.Hour), noon.Add(5*time.Hour)
	p.Apply(portal.ApplyRequest{Components: []sreportalv1.Component{component}, Maintenances: []sreportalv1.Maintenance{maintenance}}, noon)
	p.Advance(noon.Add(4 * time.Hour))
	_, _ = p.Declare(portal.ObjectRequest{Incident: &sreportalv1.Incident{
		ObjectMeta: metav1.ObjectMeta{Name: "dns"}, Spec: sreportalv1.IncidentSpec{
			Title: "No names", PortalRef: "main", Severity: sreportalv1.SeverityMajor, Components: []string{"web"},
			Updates: []sreportalv1.IncidentUpdate{{Timestamp: metav1.NewTime(noon.Add(3 * time.Hour)), Phase: sreportalv1.IncidentIdentified, Message: "cache empty"}},
		},
	}}, noon.Add(4*time.Hour))
	status := portalStatus{p.View()}
	require.Equal(t, `portal main: partial_outage

GROUP   COMPONENT   STATUS           FOR   BECAUSE OF               OPERATIONAL IN 30 DAYS
Shop    web         partial_outage   0s    incident dns, switches   75.00%

INCIDENT   TITLE      SEVERITY   PHASE        STARTED                RESOLVED   COMPONENTS
dns        No names   major      identified   2026-11-21T15:00:00Z              web

MAINTENANCE   TITLE          PHASE         STARTS                 ENDS                   COMPONENTS
switches      New switches   in_progress   2026-11-21T15:00:00Z   2026-11-21T17:00:00Z   web`, status.frame(noon.Add(4*time.Hour), frameStyle{}))
	require.Contains(t, status.lines(noon), statusLine{"component web", "component web is partial_outage because of incident dns, switches"})
	require.Contains(t, status.lines(noon), statusLine{"incident dns", "incident dns, No names, is identified: cache empty"})
	require.Contains(t, status.lines(noon), statusLine{"maintenance switches", "maintenance switches, New switches, is in progress until 2026-11-21T17:00:00Z"})
}

// showsOnPortals: window prod/night, which opens soon, is announced before the portal has any content.
func (s *stage) showsOnPortals(t *testing.T) {
	const zulu = "20060102T150405Z"
	opens := time.Now().Truncate(time.Second).Add(3 * time.Second)
	window := file(t, "window.yaml", fmt.Sprintf(`
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: night, namespace: prod}
spec:
  {timeZone: UTC, recurrence: "RDATE:%s,%s", duration: 1h, title: Nightly, portalRef: main, components: [web]}
`, opens.UTC().Format(zulu), opens.AddDate(0, 0, 1).UTC().Format(zulu)))
	succeeds(t, "window", "create", "-f", window)
	awaitOutput(t, func(v portal.View) bool { return len(v.Upcoming) > 0 }, "portal", "status", "main")
	watch := begin(t, "portal", "status", "main", "--watch")
	watch.prints(t, "Nightly, is upcoming")

	shop := file(t, "shop.yaml", shopText(opens))
	applied := drydock(t, "portal", "apply", "-f", shop, "--reason", "grand opening")
	require.Equal(t, exitDone, applied.status)
	// On a slow machine, the window has opened.
	require.Regexp(t, "^component web added\ncomponent db added\nmaintenance switches added\nportal main: (operational|maintenance|degraded); see `drydock portal status main`\n$", applied.stdout)
	require.Equal(t, "warning: portal main: maintenance switches: spec.components: the portal does not have rack yet\n", applied.stderr)
	watch.prints(t, "component web is maintenance because of prod/night/"+opens.UTC().Format(zulu))
	watch.prints(t, "component db is degraded because of switches")
	watch.stop()
	require.Equal(t, exitFailed, watch.end(t).status)
	v := parsed[portal.View](t, "portal", "status", "main")
	require.Equal(t, sreportalv1.StatusDegraded, v.Status)
	require.Equal(t, []string{"rack"}, v.InProgress[1].Unknown)
	for _, c := range v.Components {
		t.Logf("%s changed %s after the start", c.Name, c.Since.Sub(opens))
	}

	// A cancelled opening that has not started leaves no trace.
	require.Eventually(t, func() bool {
		runs, err := history.Read(t.Context(), s.client, "portal/main")
		return err == nil && slices.ContainsFunc(runs[0].Events, func(e *historypb.HistoryEvent) bool {
			return strings.Contains(e.GetWorkflowExecutionSignaledEventAttributes().GetInput().String(), "begun")
		})
	}, patience, tick)
	succeeds(t, "window", "end", "prod/night")
	returned := awaitOutput(t, func(v portal.View) bool { return v.Components[1].Status == sreportalv1.StatusOperational }, "portal", "status", "main")
	require.True(t, returned.Completed[0].Cancelled)
	require.Contains(t, succeeds(t, "portal", "cancel", "main", "switches"), "maintenance switches cancelled, and ends now\nportal main: operational;")
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: cancelMaintenance portal main: maintenance: switches is cancelled already\n",
	}, drydock(t, "portal", "cancel", "main", "switches"))

	moved := file(t, "moved.yaml", componentText("web", "other")+componentText("api", "main"))
	require.Len(t, parsed[portalAnswers](t, "portal", "apply", "-f", moved).Items, 2)
	awaitOutput(t, func(v portal.View) bool { return len(v.Components) == 2 && v.Components[0].Name == "api" }, "portal", "status", "main")
	require.Contains(t, drydock(t, "portal", "apply", "-f", file(t, "late.yaml", `
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: late, namespace: prod}
spec: {title: Late, portalRef: main, components: [api], scheduledStart: "2026-03-28T02:00:00Z", scheduledEnd: "2026-03-28T03:00:00Z"}
`)).stderr, "warning: portal main: maintenance late ")
	succeeds(t, "portal", "delete", "main", "--component", "api", "--maintenance", "switches")
	require.Len(t, parsed[portal.View](t, "portal", "status", "portal/main").Components, 1)
	require.Contains(t, succeeds(t, "portal", "delete", "other", "--all"), "component web deleted\nportal other: unknown;")
	prints(t, `main    operational\n`, "portal", "list")

	require.NoError(t, s.client.TerminateWorkflow(t.Context(), "portal/main", "", "by mistake"))
	succeeds(t, "portal", "apply", "-f", file(t, "web.yaml", componentText("web", "main")))
	awaitOutput(t, func(v portal.View) bool { return len(v.Upcoming) == 1 && v.Upcoming[0].Window == "prod/night" }, "portal", "status", "main")
	require.Contains(t, drydock(t, "portal", "status", "none").stderr, "error: portal none not found: see `drydock portal list`")
}

package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/charttest"
)

// alerts returns the alerts of the chart.
func alerts(t *testing.T) (found []alert) {
	t.Helper()
	text, err := os.ReadFile("files/alerts.yaml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, group := range file.Groups {
		found = append(found, group.Rules...)
	}
	require.NotEmpty(t, found)
	return found
}

type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// dashboard is what the tests need of a dashboard of Grafana.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID                 int
		Title, Description string
		GridPos            struct{ X, Y, W, H int }
		Targets            []struct{ Expr string }
	}
}

func dashboards(t *testing.T) (found []dashboard) {
	t.Helper()
	files, err := filepath.Glob("files/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(text, &d), file)
		found = append(found, d)
	}
	return found
}

// Each alert has a page, with its severity in the index, and each page has an alert.
func TestEachAlertHasARunbook(t *testing.T) {
	index, err := os.ReadFile("../../docs/runbooks/README.md")
	require.NoError(t, err)
	pages := map[string]bool{"README.md": true}
	for _, alert := range alerts(t) {
		page := alert.Alert + ".md"
		pages[page] = true
		require.Equal(t, "https://drydock.dev/docs/runbooks/"+page, alert.Annotations["runbook_url"])
		require.NotEmpty(t, alert.Annotations["summary"])
		require.Contains(t, string(index), "| ["+alert.Alert+"]("+page+") | "+alert.Labels["severity"]+" |")
		text, err := os.ReadFile("../../docs/runbooks/" + page)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "# "+alert.Alert+"\n"), page)
	}
	entries, err := os.ReadDir("../../docs/runbooks")
	require.NoError(t, err)
	for _, entry := range entries {
		require.True(t, pages[entry.Name()], "%s has no alert", entry.Name())
	}
	text, err := charttest.Template(t.Context(), "--values", "deploy/chart/testdata/production.yaml", "--set", "crds.install=false")
	require.NoError(t, err)
	require.Contains(t, text, "runbook_url: https://runbooks.example.com/drydock/DrydockWorkerMissing.md")
}

// promtool has each alert fire. An alert that no test expects would never have fired.
func TestEachAlertFires(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool")
	}
	const tests = "testdata/alerts.test.yaml"
	output, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", tests).CombinedOutput()
	require.NoError(t, err, "apt-get install prometheus\n%s", output)
	text, err := os.ReadFile(tests)
	require.NoError(t, err)
	for _, alert := range alerts(t) {
		require.Contains(t, string(text), `labels: '{alertname="`+alert.Alert+`"`)
	}
}

// A metric that does not exist gives no alert and an empty panel. The end-to-end tests check that the documented ones exist.
func TestAlertsAndDashboardsUseDocumentedMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	requireDocumented := func(expression string) {
		metrics := regexp.MustCompile(`\b(?:drydock|temporal|rest|process)_\w+`).FindAllString(expression, -1)
		require.NotEmpty(t, metrics, expression)
		for _, metric := range metrics {
			require.Contains(t, string(page), "`"+strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")+"`")
		}
	}
	for _, alert := range alerts(t) {
		requireDocumented(alert.Expr)
	}
	for _, d := range dashboards(t) {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				requireDocumented(target.Expr)
			}
		}
	}
}

func TestPanelsOfDashboardsDoNotOverlap(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		require.False(t, uids[d.UID], "the UID of %s is unique", d.Title)
		uids[d.UID] = true
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, panel := range d.Panels {
			require.False(t, ids[panel.ID], "%s: %s", d.Title, panel.Title)
			ids[panel.ID] = true
			require.NotEmpty(t, panel.Description, "%s: %s", d.Title, panel.Title)
			require.NotEmpty(t, panel.Targets, "%s: %s", d.Title, panel.Title)
			at := panel.GridPos
			require.LessOrEqual(t, at.X+at.W, 24, "%s: %s", d.Title, panel.Title)
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					require.Empty(t, cells[[2]int{x, y}], "%s: %s", d.Title, panel.Title)
					cells[[2]int{x, y}] = panel.Title
				}
			}
		}
	}
}

// The sidecar of Grafana writes each key of the ConfigMap to a file.
func TestDashboardsAreRenderedUnchanged(t *testing.T) {
	objects, err := charttest.Render(t.Context(), "--set", "monitoring.dashboards.enabled=true", "--set", "crds.install=false")
	require.NoError(t, err)
	for _, object := range objects {
		if object.GetName() != "drydock-dashboards" {
			continue
		}
		require.Equal(t, "1", object.GetLabels()["grafana_dashboard"])
		for _, name := range []string{"fleet.json", "workers.json"} {
			text, err := os.ReadFile("files/dashboards/" + name)
			require.NoError(t, err)
			require.True(t, string(text) == object.Object["data"].(map[string]any)["drydock-"+name], name)
		}
		return
	}
	t.Fatal("no ConfigMap is rendered")
}

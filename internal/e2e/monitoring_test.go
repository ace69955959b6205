package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
)

const (
	chartFiles = "../../deploy/chart/files"
	runbooks   = "../../docs/runbooks"
)

// A real Prometheus scrapes the worker while a requestor has forgotten a node, and then while a rollout is blocked and a window is open. Then each panel of the
// dashboards has data, each alert has the metrics that it needs, and the commands of the runbooks work.
func TestMonitoringShowsWhatTheFleetDoes(t *testing.T) {
	reserve(t, "spoke-6")
	spoke := theFleet.Cluster("spoke-6")
	prometheus := startPrometheus(t)
	configure(t, spoke, maintenancev1.MaintenanceOperatorConfigSpec{
		MaxParallelOperations: new(intstr.FromInt32(3)), MaxUnavailable: new(intstr.FromInt32(3)), MaxNodeMaintenanceTimeSeconds: 1,
	})
	createWindow(t, "observed", 2*time.Hour, time.Now().Add(-time.Minute))
	t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "window", "delete", "observed") })

	succeeds(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--name", "forgotten", "--wait")
	prometheus.requireData(t, `drydock_waits{kind="maintenance", reason="Stale", blocked="true"} > 0`)
	succeeds(t, "node", "cancel", "forgotten", "--cluster", spoke.Name)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))

	release := deployBlocked(t, spoke)
	startRollout(t, rollout("observed", "", 60, spoke.Name))
	awaitStatus(t, "observed", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterAt(s, 0).Reason == "DisruptionBudget" })
	prometheus.requireData(t, panelExpressions(t)...)
	prometheus.requireData(t, alertMetrics(t)...)
	prometheus.requireData(
		t,
		`drydock_waits{kind="rollout", reason="DisruptionBudget", blocked="true"} > 0`,
		`drydock_evictions_total{result="refused-by-budget"} > 0`,
		`3600 < drydock_window_end_timestamp_seconds{window="default/observed"} - time() < 7200`,
		fmt.Sprintf(`sum(drydock_slots{cluster=%q, state=~"used|free"}) == 3 and on () drydock_slots{cluster=%[1]q, state="used"} > 0`, spoke.Name),
	)
	prometheus.requireRulesEvaluate(t)
	runCommandsOfRunbooks(t, spoke)

	release()
	succeeds(t, "upgrade", "status", "observed", "--watch")
	prometheus.requireData(t, `drydock_rollouts{state="Completed"} > 0`)
}

// panelExpressions are the queries of each panel of the dashboards together, as Grafana sends them with all clusters selected. Each of them must also return
// something by itself, which may be no number: a quantile of what has not happened lately.
func panelExpressions(t *testing.T) (found []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartFiles, "dashboards/*.json"))
	require.NoError(t, err)
	variables := strings.NewReplacer("$__rate_interval", "1m", "$cluster", ".*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var dashboard struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		require.NoError(t, json.Unmarshal(text, &dashboard))
		for _, panel := range dashboard.Panels {
			var targets []string
			for _, target := range panel.Targets {
				expression := "(" + variables.Replace(target.Expr) + ")"
				targets, found = append(targets, expression+" >= 0"), append(found, "count"+expression) // a comparison drops what is no number
			}
			found = append(found, strings.Join(targets, " or "))
		}
	}
	require.NotEmpty(t, found)
	return found
}

// alertMetrics are the metrics that alerts need.
func alertMetrics(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFiles, "alerts.yaml"))
	require.NoError(t, err)
	var found []string
	for _, expression := range regexp.MustCompile(`(?m)^\s+expr: (.+)$`).FindAllStringSubmatch(string(text), -1) {
		found = append(found, regexp.MustCompile(`\b(?:drydock|temporal|rest)_\w+`).FindAllString(expression[1], -1)...)
	}
	require.NotEmpty(t, found)
	return found
}

// runCommandsOfRunbooks runs what the runbooks say to look at.
func runCommandsOfRunbooks(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	require.NoError(t, err)
	names := strings.NewReplacer("ROLLOUT", "default/observed", "CLUSTER", spoke.Name, "NODE", "worker-1", "WINDOW", "default/observed", "REASON", "DisruptionBudget")
	ran := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, command := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			line := names.Replace(command[1])
			if ran[line] {
				continue
			}
			ran[line] = true
			args, ours := strings.CutPrefix(line, "drydock ")
			require.True(t, ours, "%s: %s", page, line)
			if strings.HasPrefix(args, "doctor") { // other tests have what it warns of
				require.Contains(t, drydock(t, strings.Fields(args)...).out, "task queue drydock", line)
				continue
			}
			require.NotEmpty(t, succeeds(t, strings.Fields(args)...), line)
		}
	}
	require.Greater(t, len(ran), 8)
}

// prometheusServer is a running Prometheus.
type prometheusServer struct{ url string }

// startPrometheus starts Debian's Prometheus, with the alerts, which scrapes the worker.
func startPrometheus(t *testing.T) prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	require.NoError(t, err, "apt-get install prometheus")
	alerts, err := filepath.Abs(filepath.Join(chartFiles, "alerts.yaml"))
	require.NoError(t, err)
	dir, address := t.TempDir(), loopback(t)
	config := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
- job_name: drydock
  static_configs: [{targets: [%q]}]
`, alerts, theFleet.WorkerHealth), 0o600))
	server, err := theFleet.Add(devstack.Program{
		Name: "prometheus", Path: program, ReadyURL: "http://" + address + "/-/ready",
		Args: []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address},
	})
	require.NoError(t, err)
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	return prometheusServer{"http://" + address}
}

// requireData requires that each query returns something, at some time.
func (p prometheusServer) requireData(t *testing.T, expressions ...string) {
	t.Helper()
	missing := expressions
	require.Eventually(t, func() bool {
		missing = slices.DeleteFunc(missing, func(expression string) bool {
			hasData, err := p.hasData(t.Context(), expression)
			return err == nil && hasData
		})
		return len(missing) == 0
	}, stateLimit, time.Second, "no data of %v", &missing)
}

// hasData reports whether a query returns something now.
func (p prometheusServer) hasData(ctx context.Context, expression string) (bool, error) {
	var answer struct {
		Result []struct{ Value [2]any }
	}
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return len(answer.Result) > 0, err
}

// requireRulesEvaluate requires that Prometheus can evaluate each alert.
func (p prometheusServer) requireRulesEvaluate(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var answer struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if !assert.NoError(c, p.get(t.Context(), "/api/v1/rules", &answer)) || !assert.NotEmpty(c, answer.Groups) {
			return
		}
		for _, rule := range answer.Groups[0].Rules {
			assert.Equal(c, "ok", rule.Health, "%s: %s", rule.Name, rule.LastError)
		}
	}, stateLimit, time.Second)
}

func (p prometheusServer) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

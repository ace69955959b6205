package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestClustersComeFromOneSourceOnly(t *testing.T) {
	tests := []struct {
		name string
		args []string
		err  string
	}{
		{
			name: "none",
			err:  "no clusters: set --clusters, --contexts with --hub-context, or, inside a cluster, --cluster",
		},
		{
			name: "two",
			args: []string{"--clusters", "clusters.yaml", "--hub-context", "hub"},
			err:  "--contexts and --hub-context exclude --clusters and --cluster",
		},
		{
			name: "an unused kubeconfig",
			args: []string{"--clusters", "clusters.yaml", "--kubeconfig", "kubeconfig"},
			err:  "--kubeconfig needs --contexts, --hub-context or --cluster: a clusters file names the kubeconfig of each cluster",
		},
		{
			name: "a missing file",
			args: []string{"--clusters", "no/such.yaml"},
			err:  "read the clusters file: open no/such.yaml: no such file or directory",
		},
		{
			name: "an invalid name",
			args: []string{"--cluster", "Spoke_1"},
			err:  `--cluster: "Spoke_1" cannot be a cluster's name: ` + kube.ValidateName("Spoke_1").Error(),
		},
		{
			name: "in-cluster outside a cluster",
			args: []string{"--cluster", "spoke-1"},
			err:  "--cluster: there is no ServiceAccount of a pod of cluster spoke-1: " + rest.ErrNotInCluster.Error(),
		},
		{
			name: "an invalid log level",
			args: []string{"--cluster", "spoke-1", "--log-level", "loud"},
			err:  `--log-level "loud" is not one of debug, info, warn, error`,
		},
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // the tests may run in a pod
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := NewCommand("unknown")
			cmd.SetArgs(tt.args)
			require.EqualError(t, cmd.ExecuteContext(t.Context()), tt.err)
		})
	}
}

func TestAWorkerInsideAClusterRunsOnlyItsActivities(t *testing.T) {
	o := NewOptions("unknown")
	require.Equal(t, "drydock", o.taskQueue())
	require.False(t, o.workerOptions(false, nil).DisableWorkflowWorker)
	o.cluster = "spoke-1"
	require.Equal(t, "drydock.spoke-1", o.taskQueue())
	require.True(t, o.workerOptions(false, nil).DisableWorkflowWorker)
}

func TestVersioningIsOffByDefault(t *testing.T) {
	o := NewOptions("unknown")
	require.Zero(t, o.workerOptions(false, nil).DeploymentOptions)
	o.deployment = "drydock"
	require.Zero(t, o.workerOptions(false, nil).DeploymentOptions, "a deployment without a build ID is not versioned")
	o.buildID = "1.2"
	versioning := o.workerOptions(false, nil).DeploymentOptions
	require.True(t, versioning.UseVersioning)
	require.Equal(t, "1.2", versioning.Version.BuildID)
	require.Equal(t, workflow.VersioningBehaviorPinned, versioning.DefaultVersioningBehavior)
}

func TestTheDocumentationListsExactlyTheFlags(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/configuration.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| flag | default | meaning |\n|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, flags []string
	for row := range strings.Lines(table) {
		for _, match := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			documented = append(documented, match[1])
		}
	}
	NewCommand("unknown").Flags().VisitAll(func(flag *pflag.Flag) { flags = append(flags, flag.Name) })
	require.ElementsMatch(t, flags, documented)
}

func TestAWorkerGetsReadyAndStops(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true}},
		Temporal: &devstack.TemporalOptions{},
	})
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	hub := stack.Cluster("hub")
	require.NoError(t, hub.APIServer.Stop())
	args := []string{"--address", stack.Temporal.Address, "--kubeconfig", hub.KubeconfigFile, "--hub-context", "hub", "--contexts", "hub", "--health-address"}
	w := begin(t, append(args, "127.0.0.1:0")...)
	address := w.awaitLog(t, `msg="worker started" .*health=(\S+)`)
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}

	status, _ := get("/healthz")
	require.Equal(t, http.StatusOK, status)
	status, body := get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status, "a worker without its hub plans no rollouts")
	require.Contains(t, body, "hub")
	becomes := func(wanted int, says string) {
		require.Eventually(t, func() bool {
			status, body = get("/readyz")
			return status == wanted && strings.Contains(body, says)
		}, patience, 50*time.Millisecond, "%d %q", wanted, says)
	}
	require.NoError(t, hub.APIServer.Start(t.Context()))
	becomes(http.StatusOK, "")
	require.NoError(t, hub.APIServer.Stop())
	becomes(http.StatusServiceUnavailable, "hub: ") // also if it was available before
	require.NoError(t, hub.APIServer.Start(t.Context()))
	becomes(http.StatusOK, "")
	_, body = get("/metrics")
	for _, metric := range []string{"temporal_worker_start_total", "rest_client_requests_total", "go_goroutines"} {
		require.True(t, strings.Contains(body, "\n"+metric), metric)
	}
	polled(t, stack.Temporal)

	require.ErrorContains(t, begin(t, append(args, address)...).end(t), "address already in use", "its controllers keep no worker that failed")

	w.stop()
	require.NoError(t, w.end(t))
	w.awaitLog(t, `(msg="worker stopped")`)
	_, err := http.Get("http://" + address + "/healthz")
	require.Error(t, err)
}

// polled waits until the task queue is polled for workflows and activities.
func polled(t *testing.T, server *devstack.Temporal) {
	t.Helper()
	options, err := temporal.Connection{Address: server.Address}.Options(nil, nil)
	require.NoError(t, err)
	c, err := temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	defer c.Close()
	for _, queueType := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		require.Eventually(t, func() bool {
			queue, err := c.DescribeTaskQueue(t.Context(), temporal.TaskQueue, queueType)
			return err == nil && len(queue.GetPollers()) > 0
		}, patience, 20*time.Millisecond)
	}
}

func TestAWorkerWithoutTemporalNamesTheAddress(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	clusters := filepath.Join(t.TempDir(), "clusters.yaml")
	require.NoError(t, os.WriteFile(clusters, []byte("{clusters: [{name: spoke-1, inClusterWorker: true}]}"), 0o600))
	w := begin(t, "--address", "127.0.0.1:1", "--clusters", clusters, "--health-address", "127.0.0.1:0")
	require.EqualError(t, w.end(t),
		"temporal at 127.0.0.1:1 does not answer (set --address, or TEMPORAL_ADDRESS): dial tcp 127.0.0.1:1: connect: connection refused")
}

// patience is the limit of waits on a busy machine.
const patience = 2 * time.Minute

// running is a running worker.
type running struct {
	log   *devstacktest.Buffer
	stop  context.CancelFunc
	ended chan error
}

func begin(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r := &running{log: &devstacktest.Buffer{}, stop: stop, ended: make(chan error, 1)}
	cmd := NewCommand("unknown")
	cmd.SetArgs(args)
	cmd.SetErr(r.log)
	go func() { r.ended <- cmd.ExecuteContext(ctx) }()
	return r
}

// awaitLog waits until the log matches, and returns the match of the first group.
func (r *running) awaitLog(t *testing.T, expression string) string {
	t.Helper()
	pattern := regexp.MustCompile(expression)
	var found []string
	require.Eventually(t, func() bool {
		found = pattern.FindStringSubmatch(r.log.String())
		return found != nil
	}, patience, 10*time.Millisecond, "%s in\n%s", expression, r.log)
	return found[1]
}

func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		require.Fail(t, "the worker does not end", r.log)
		return nil
	}
}

// Package e2e tests Drydock as users run it: the programs, the shipped RBAC and manifests, real Temporal and real Kubernetes. Tests read
// the state of a cluster from its API server.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

const (
	spokes      = 6
	spokesAlone = 3 // enough for tests that run one after the other
	workers     = 2
)

// theFleet is shared: starting one takes longer than most tests. Tests that run at the same time use different spokes.
var theFleet *fleet.Fleet

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	// Tests are limited by spokes, not cores: they mostly wait for timeouts, the sweeper, or their reservations.
	if err := flag.Set("test.parallel", strconv.Itoa(4*spokes)); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx := context.Background()
	count := spokes
	if selectedPart() == partAlone {
		count = spokesAlone
	}
	f, err := fleet.Start(ctx, fleet.Options{
		Spokes: count, Workers: workers, Temporal: devstack.TemporalOptions{
			PostgreSQL: devstacktest.OnPostgreSQL(),
			// upgrade-promote waits for the next poll of a worker.
			DynamicConfig: map[string]string{"matching.longPollExpirationInterval": `"10s"`},
		}, Output: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if code != 0 {
			showWorkerLog(f)
		}
		if err := f.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	theFleet = f
	if err := f.DeployDemoEverywhere(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code = m.Run(); code == 0 {
		if err := checkRights(f); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func showWorkerLog(f *fleet.Fleet) {
	log, err := os.ReadFile(f.Worker.LogFile)
	if err == nil {
		fmt.Fprintf(os.Stderr, "the last lines of the worker's log:\n%s\n", log[max(0, len(log)-8000):])
	}
}

// answer is the output and exit status of a drydock command.
type answer struct {
	out, err string
	code     int
}

// commandLimit ends a command that waits for a workflow.
const commandLimit = 8 * time.Minute

// stateLimit is how long a test waits for a state. It is long enough for a busy machine.
const stateLimit = 5 * time.Minute

// drydock runs a drydock command.
func drydock(t *testing.T, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := theFleet.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		require.NoError(t, err)
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeeds runs a drydock command that must succeed, and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	a := drydock(t, args...)
	// A busy worker may not answer a query in time. A query changes nothing.
	for range 10 {
		if !strings.HasPrefix(a.err, "error: get the status of ") || !strings.Contains(a.err, observe.ErrNoWorker.Error()) {
			break
		}
		a = drydock(t, args...)
	}
	require.Zero(t, a.code, "drydock %v: %s%s", args, a.out, a.err)
	return a.out
}

// startRollout writes a manifest and starts it.
func startRollout(t *testing.T, text string) {
	t.Helper()
	succeeds(t, "upgrade", "start", "-f", rolloutFile(t, text))
}

// startUnchecked starts the workflow of a rollout as `temporal workflow start` does: no worker checks the rollout before.
func startUnchecked(t *testing.T, text string) {
	t.Helper()
	object, err := manifest.LoadOne[*ranv1.ClusterGroupUpgrade](rolloutFile(t, text), nil)
	require.NoError(t, err)
	options := temporal.ClusterGroupUpgradeOptions(object.Namespace, object.Name, "")
	options.ID, options.TaskQueue = temporal.ClusterGroupUpgradeID(object.Namespace, object.Name), temporal.TaskQueue
	_, err = temporalClient(t).ExecuteWorkflow(t.Context(), options, temporal.ClusterGroupUpgrade, rolloutworkflow.Input{Object: *object})
	require.NoError(t, err)
}

func editRollout(t *testing.T, manifest string) {
	t.Helper()
	succeeds(t, "upgrade", "edit", "-f", rolloutFile(t, manifest))
}

// shortenTimeout gives a rollout the shortest timeout that it accepts: whole minutes, and longer than the time that it has used.
func shortenTimeout(t *testing.T, withTimeout func(minutes int) string) {
	t.Helper()
	for minutes := 1; ; minutes++ {
		edited := drydock(t, "upgrade", "edit", "-f", rolloutFile(t, withTimeout(minutes)))
		if edited.code == 0 {
			return
		}
		require.Contains(t, edited.err, "have been used already")
	}
}

func rolloutFile(t *testing.T, manifest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rollout.yaml")
	require.NoError(t, os.WriteFile(path, []byte(manifest), 0o600))
	return path
}

// awaitEnd waits for the end of a rollout and returns its status and the exit status of the command.
func awaitEnd(t *testing.T, name string) (ranv1.ClusterGroupUpgradeStatus, int) {
	t.Helper()
	code := drydock(t, "upgrade", "status", name, "--watch").code
	return status(t, name), code
}

func status(t *testing.T, name string) ranv1.ClusterGroupUpgradeStatus {
	t.Helper()
	status, err := queryStatus(t, name)
	require.NoError(t, err)
	return status
}

// queryStatus reads the status of a rollout once.
func queryStatus(t *testing.T, name string) (ranv1.ClusterGroupUpgradeStatus, error) {
	a := drydock(t, "upgrade", "status", name, "-o", "json")
	var rollout struct {
		Status ranv1.ClusterGroupUpgradeStatus `json:"status"`
	}
	if err := json.Unmarshal([]byte(a.out), &rollout); err != nil {
		return rollout.Status, fmt.Errorf("%w: %s", err, a.err)
	}
	return rollout.Status, nil
}

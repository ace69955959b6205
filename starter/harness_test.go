package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// outcome is the result of a command line.
type outcome struct {
	status         int
	stdout, stderr string
}

// drydock runs a command line like a user.
func drydock(t *testing.T, args ...string) outcome {
	t.Helper()
	return drydockWith(t, "", args...)
}

// drydockWith runs a command line with a standard input.
func drydockWith(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	got, _ := attempt(t, stdin, args...)
	return got
}

// attempt runs a command line with a standard input, again while a busy worker does not answer it in time. It returns how often that was.
func attempt(t *testing.T, stdin string, args ...string) (got outcome, attempts int) {
	t.Helper()
	for attempts = 1; ; attempts++ {
		var stdout, stderr bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}
		got = outcome{status: run(t.Context(), streams, false, args)}
		got.stdout, got.stderr = stdout.String(), stderr.String()
		ofHolds := len(args) > 0 && slices.Contains([]string{"hold", "release"}, args[0])
		late := strings.Contains(got.stderr, "no worker answers") && (ofHolds || strings.HasPrefix(got.stderr, "error: get the status of "))
		if !late || !workerRuns.Load() || attempts == 20 {
			return got, attempts
		}
	}
}

// workerRuns: a worker is running, so that a command whose query it does not answer in time is repeated. A query changes nothing. Neither does a repeated
// hold, and a repeated release finds nothing to release.
var workerRuns atomic.Bool

// succeeds runs a command line that must end with status 0 and without output on stderr, and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	got := drydock(t, args...)
	require.Equal(t, outcome{status: exitDone, stdout: got.stdout}, got)
	return got.stdout
}

// parsed runs a command line with -o json and decodes its output.
func parsed[T any](t *testing.T, args ...string) T {
	t.Helper()
	var object T
	require.NoError(t, json.Unmarshal([]byte(succeeds(t, append(args, "-o", "json")...)), &object))
	return object
}

// awaitOutput runs a command line with -o json until its output satisfies a condition. It ignores failures, such as timeouts of a busy worker.
func awaitOutput[T any](t *testing.T, wanted func(T) bool, args ...string) T {
	t.Helper()
	var object T
	require.Eventually(t, func() bool {
		got := drydock(t, append(args, "-o", "json")...)
		object = *new(T)
		return got.status == exitDone && json.Unmarshal([]byte(got.stdout), &object) == nil && wanted(object)
	}, patience, tick, "drydock %v: %+v", args, &object)
	return object
}

// prints runs a command line until its output matches.
func prints(t *testing.T, expression string, args ...string) {
	t.Helper()
	pattern, printed := regexp.MustCompile(expression), ""
	require.Eventually(t, func() bool {
		printed = drydock(t, args...).stdout
		return pattern.MatchString(printed)
	}, patience, tick, "drydock %v prints no %s: %s", args, expression, &printed)
}

// doctorSays runs drydock doctor until its output matches: a check fails that a busy server does not answer in time.
func doctorSays(t *testing.T, expressions []string, args ...string) (got outcome) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got = drydock(t, append([]string{"doctor"}, args...)...)
		for _, expression := range expressions {
			assert.Regexp(c, expression, got.stdout)
		}
	}, patience, tick)
	return got
}

// running is a running command line.
type running struct {
	stdout, stderr *devstacktest.Buffer
	stop           context.CancelFunc
	ended          chan int
}

// begin runs a command line in the background.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stdout: &devstacktest.Buffer{}, stderr: &devstacktest.Buffer{}, stop: stop, ended: make(chan int, 1)}
	go func() {
		r.ended <- run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: r.stdout, ErrOut: r.stderr}, false, args)
	}()
	t.Cleanup(stop)
	return r
}

// prints waits until the output holds a text.
func (r *running) prints(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.stdout.String(), text) }, patience, tick,
		"waiting for %q\nstdout: %s\nstderr: %s", text, r.stdout, r.stderr)
}

// end waits for the exit status.
func (r *running) end(t *testing.T) outcome {
	t.Helper()
	select {
	case status := <-r.ended:
		return outcome{status, r.stdout.String(), r.stderr.String()}
	case <-time.After(patience):
		require.Fail(t, "the command does not end", "stdout: %s\nstderr: %s", r.stdout, r.stderr)
		return outcome{}
	}
}

const (
	// patience is the limit of waits on a busy machine, including a retry after a minute because visibility lags.
	patience = 2 * time.Minute
	// tick is the interval of checks of a condition.
	tick = 20 * time.Millisecond
)

// file writes a file for a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// isolate unsets the variables and configuration of the user who runs the tests.
func isolate(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "TEMPORAL_") || strings.HasPrefix(name, "DRYDOCK_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	// No server listens here: a test that needs Temporal starts it.
	t.Setenv("TEMPORAL_ADDRESS", closedAddress)
}

const closedAddress = "127.0.0.1:1"

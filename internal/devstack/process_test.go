package devstack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAProcessThatExitsBeforeItIsReadyIsReportedWithItsLog(t *testing.T) {
	p, _ := shellProcess(t, `echo "cannot open the database"; exit 3`)
	p.ready = neverReady

	err := p.Start(t.Context())

	require.ErrorContains(t, err, "hub/server exited before it was ready (exit status 3)")
	require.ErrorContains(t, err, "cannot open the database")
}

func TestAProcessThatDoesNotBecomeReadyIsReportedWithTheReason(t *testing.T) {
	p, _ := shellProcess(t, `echo waiting for etcd; exec sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	p.ready = func(ctx context.Context) error {
		if log, _ := os.ReadFile(p.LogFile); len(log) > 0 {
			cancel()
		}
		return neverReady(ctx)
	}

	err := p.Start(ctx)

	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "start hub/server")
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, "waiting for etcd")
}

func TestAProcessThatExitsUnexpectedlyIsReportedWithItsLog(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	p, exits := shellProcess(t, `read -r _ < `+gate+`; echo "panic: nil map"; exit 2`)
	require.NoError(t, p.Start(t.Context()))

	require.NoError(t, os.WriteFile(gate, []byte("go\n"), 0o600))

	err := <-exits
	require.ErrorContains(t, err, "hub/server exited unexpectedly (exit status 2)")
	require.ErrorContains(t, err, "panic: nil map")
}

func TestAProcessMayBeStoppedAndStartedAgain(t *testing.T) {
	tests := []struct {
		name string
		stop func(*Process) error
	}{
		{"after SIGTERM", (*Process).Stop},
		{"after SIGKILL", (*Process).Kill},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, exits := shellProcess(t, `echo started; exec sleep 1000`)
			for range 2 {
				require.NoError(t, p.Start(t.Context()))
				require.ErrorContains(t, p.Start(t.Context()), "it is running")
				require.NoError(t, test.stop(p))
			}
			require.NoError(t, test.stop(p), "stopping a stopped process is no error")
			require.Empty(t, exits, "a requested exit is not reported")
		})
	}
}

func TestAProcessMayBeFrozen(t *testing.T) {
	gate, answer := filepath.Join(t.TempDir(), "gate"), filepath.Join(t.TempDir(), "answer")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	require.NoError(t, syscall.Mkfifo(answer, 0o600))
	p, exits := shellProcess(t, `exec 3<>`+gate+`; while read -r line <&3; do echo "$line" > `+answer+`; done`)
	require.ErrorContains(t, p.Freeze(), "it does not run")
	require.NoError(t, p.Start(t.Context()))
	answered := make(chan string, 1)
	ask := func(question string) {
		require.NoError(t, os.WriteFile(gate, []byte(question+"\n"), 0o600))
		go func() {
			content, _ := os.ReadFile(answer)
			answered <- string(content)
		}()
	}
	ask("awake")
	require.Equal(t, "awake\n", <-answered)

	require.NoError(t, p.Freeze())
	ask("asleep")
	require.Never(t, func() bool { return len(answered) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, p.Thaw())
	require.Equal(t, "asleep\n", <-answered)

	require.NoError(t, p.Freeze())
	require.NoError(t, p.Kill())
	require.Empty(t, exits)
}

func neverReady(context.Context) error { return errors.New("connection refused") }

// shellProcess returns a process that runs a script and is ready immediately, and a channel of its unexpected exits.
func shellProcess(t *testing.T, script string) (*Process, <-chan error) {
	t.Helper()
	group, err := newGroup("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.end()) })
	exits := make(chan error, 1)
	return &Process{
		Name:    "hub/server",
		LogFile: filepath.Join(t.TempDir(), "server.log"),
		path:    installedAt("/bin/sh"),
		args:    []string{"-c", script},
		group:   group,
		ready:   func(context.Context) error { return nil },
		exited:  func(err error) { exits <- err },
	}, exits
}

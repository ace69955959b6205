package devstack_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// parentVariable makes this test binary the parent process of a stack.
const parentVariable = "DEVSTACK_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		beParent()
		return
	}
	os.Exit(m.Run())
}

const parentIsUp = "up"

// beParent starts a stack, prints its progress, and waits for a signal, which it does not handle.
func beParent() {
	stack, err := devstack.Start(context.Background(), devstack.Options{
		Clusters: []devstack.ClusterOptions{hub()},
		Temporal: &devstack.TemporalOptions{},
		Output:   os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(parentIsUp)
	<-stack.Done()
}

func TestNothingOutlivesTheParent(t *testing.T) {
	devstacktest.NeedServers(t)
	tests := []struct {
		name   string
		after  string // the output of the parent before the signal
		signal syscall.Signal
	}{
		{"an interrupted parent", parentIsUp, syscall.SIGINT},
		{"a terminated parent", parentIsUp, syscall.SIGTERM},
		{"a killed parent", parentIsUp, syscall.SIGKILL},
		{"a parent that is killed while it starts the stack", "starting cluster hub", syscall.SIGKILL},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			parent, output, descendants := startParent(t)
			awaitLine(t, output, test.after)

			require.NoError(t, parent.Process.Signal(test.signal))

			require.ErrorContains(t, parent.Wait(), test.signal.String())
			require.NoError(t, descendants.SetReadDeadline(time.Now().Add(waitTimeout)))
			_, err := io.ReadAll(descendants)
			require.NoError(t, err, "a process of the stack is left")
			requireNoFilesLeft(t)
		})
	}
}

// startParent runs a parent. It returns the output of the parent, and a pipe that closes when its last descendant exits: each descendant inherits the
// other end.
func startParent(t *testing.T) (parent *exec.Cmd, output *bufio.Scanner, descendants *os.File) {
	t.Helper()
	descendants, inherited, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { descendants.Close() })
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	parent.Stderr = os.Stderr
	parent.ExtraFiles = []*os.File{inherited}
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	require.NoError(t, inherited.Close())
	return parent, bufio.NewScanner(stdout), descendants
}

func awaitLine(t *testing.T, output *bufio.Scanner, want string) {
	t.Helper()
	var lines []string
	for output.Scan() {
		if output.Text() == want {
			return
		}
		lines = append(lines, output.Text())
	}
	require.Failf(t, "the parent did not start", "its output: %q", lines)
}

// requireNoFilesLeft requires an empty directory for temporary files.
func requireNoFilesLeft(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, entries, "files of the stack are left")
}

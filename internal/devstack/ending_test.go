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

// parentVariable makes this test binary the parent of a stack, for a test that ends it.
const parentVariable = "DEVSTACK_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		beParent()
		return
	}
	os.Exit(m.Run())
}

const parentIsUp = "up"

// beParent starts a stack, says how far it is, and waits to be ended. It handles no signal.
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
		after  string // what the parent says before the signal
		signal syscall.Signal
	}{
		{"that is interrupted", parentIsUp, syscall.SIGINT},
		{"that is terminated", parentIsUp, syscall.SIGTERM},
		{"that is killed", parentIsUp, syscall.SIGKILL},
		{"that is killed while it starts the stack", "starting cluster hub", syscall.SIGKILL},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			parent, says, family := startParent(t)
			awaitLine(t, says, test.after)

			require.NoError(t, parent.Process.Signal(test.signal))

			require.ErrorContains(t, parent.Wait(), test.signal.String())
			require.NoError(t, family.SetReadDeadline(time.Now().Add(waitTimeout)))
			_, err := io.ReadAll(family)
			require.NoError(t, err, "a process of the stack is left")
			requireNoFilesLeft(t)
		})
	}
}

// startParent runs a parent. It returns what the parent says, and a pipe that ends with the last of its descendants:
// each inherits the other end.
func startParent(t *testing.T) (parent *exec.Cmd, says *bufio.Scanner, family *os.File) {
	t.Helper()
	family, inherited, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { family.Close() })
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	parent.Stderr = os.Stderr
	parent.ExtraFiles = []*os.File{inherited}
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	require.NoError(t, inherited.Close())
	return parent, bufio.NewScanner(stdout), family
}

func awaitLine(t *testing.T, says *bufio.Scanner, want string) {
	t.Helper()
	var said []string
	for says.Scan() {
		if says.Text() == want {
			return
		}
		said = append(said, says.Text())
	}
	require.Failf(t, "the parent did not start", "it said %q", said)
}

// requireNoFilesLeft holds when the directory for temporary files is empty.
func requireNoFilesLeft(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, entries, "files of the stack are left")
}

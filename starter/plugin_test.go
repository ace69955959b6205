package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/events"
)

// TestMain runs the program itself if the test binary is called by the name of the plugin.
func TestMain(m *testing.M) {
	if isPlugin(os.Args[0]) {
		main()
	}
	events.Timeout = time.Minute // for a busy API server
	os.Exit(m.Run())
}

// krew links the program as kubectl-drydock, and kubectl runs it by the path of that link.
func TestTheProgramIsAPluginByTheNameOfItsLink(t *testing.T) {
	isolate(t)
	program, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "kubectl-drydock")
	require.NoError(t, os.Symlink(program, link))
	help, err := exec.CommandContext(t.Context(), link, "upgrade", "status", "--help").Output()
	require.NoError(t, err)
	require.Contains(t, string(help), "Usage:\n  kubectl drydock upgrade status NAME [flags]\n")
	require.Contains(t, string(help), "\n  kubectl drydock upgrade status prod/november\n")
	refused, err := exec.CommandContext(t.Context(), link, "upgrade", "status").CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "error: NAME is missing (see kubectl drydock upgrade status --help)\n", string(refused))
}

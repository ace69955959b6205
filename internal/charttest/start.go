package charttest

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// startLimit is how long init containers may fail: what they need may not run yet.
const startLimit = 2 * time.Minute

// Start runs the containers of a rendered workload, and stops them after the test. An init container is repeated until it succeeds.
func (k Kubelet) Start(t *testing.T, objects []Object, kind, name string) {
	t.Helper()
	k.Dir = filepath.Join(k.Dir, name)
	pod, err := PodOf(objects, kind, name)
	require.NoError(t, err)
	for _, container := range pod.InitContainers {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			command, err := k.Command(t.Context(), pod, container)
			if assert.NoError(c, err) {
				output, err := command.CombinedOutput()
				assert.NoError(c, err, "%s", output)
			}
		}, startLimit, time.Second)
	}
	command, err := k.Command(context.Background(), pod, pod.Containers[0])
	require.NoError(t, err)
	StartProgram(t, kind+" "+name, command)
}

// StartProgram starts a program, and stops it after the test or earlier.
func StartProgram(t *testing.T, what string, command *exec.Cmd) (logs *devstacktest.Buffer, stop func()) {
	t.Helper()
	logs = &devstacktest.Buffer{}
	command.Stdout, command.Stderr = logs, logs
	require.NoError(t, command.Start())
	stop = sync.OnceFunc(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v\n%s", what, err, logs)
		}
	})
	t.Cleanup(stop)
	return logs, stop
}

package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/prepare/host"
)

// A process that is killed with SIGKILL loses its lock, and the next process removes what it left. Directories of living processes stay.
func TestDirectoriesOfKilledProcessesAreRemoved(t *testing.T) {
	if parent := os.Getenv("SCRATCH_PARENT"); parent != "" {
		scratch, err := host.NewScratch(parent, "work-")
		require.NoError(t, err)
		_, err = os.Stdout.WriteString(scratch.Path)
		require.NoError(t, err)
		select {}
	}
	parent := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(parent, "other"), 0o700))
	alive, err := host.NewScratch(parent, "work-")
	require.NoError(t, err)
	killed := startHolder(t, parent)
	require.DirExists(t, killed)
	next, err := host.NewScratch(parent, "work-")
	require.NoError(t, err)
	require.NoDirExists(t, killed)
	require.DirExists(t, alive.Path)
	require.DirExists(t, filepath.Join(parent, "other"))
	require.NoError(t, next.Keep(filepath.Join(parent, "final")))
	require.NoError(t, next.Close())
	require.DirExists(t, filepath.Join(parent, "final"))
	require.NoError(t, alive.Close())
	require.NoDirExists(t, alive.Path)
}

// startHolder starts a process with a directory and kills it. It returns the directory.
func startHolder(t *testing.T, parent string) string {
	t.Helper()
	holder := exec.Command(os.Args[0], "-test.run=TestDirectoriesOfKilledProcessesAreRemoved")
	holder.Env = append(os.Environ(), "SCRATCH_PARENT="+parent)
	output, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	buffer := make([]byte, 4096)
	read, err := output.Read(buffer)
	require.NoError(t, err)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	return string(buffer[:read])
}

func TestPathsThatAreNotMountedAreReachedThroughTheProcfsOfTheNode(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/kubelet"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc/1/root/var/lib/containerd"), 0o700))
	for path, want := range map[string]string{
		"/var/lib/kubelet": "/var/lib/kubelet", "/var/lib/containerd": "/proc/1/root/var/lib/containerd", "/var/lib/none": "/var/lib/none",
	} {
		require.Equal(t, root+want, host.Root(root).Path(path))
	}
}

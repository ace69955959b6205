package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

const examplesDir = "../../docs/examples"

// exampleProgram is a requestor of the documentation. It maintains both workers of a spoke, one after the other.
type exampleProgram struct {
	name, campaign string
	// stops: it stops its work when the maintenance is terminated.
	stops   bool
	command func(spoke *devstack.Cluster, campaign string, work ...string) *exec.Cmd
}

func examplePrograms(t *testing.T) []exampleProgram {
	t.Helper()
	program := filepath.Join(t.TempDir(), "requestor")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, examplesDir+"/requestor").CombinedOutput()
	require.NoError(t, err, "%s", built)
	return []exampleProgram{
		{"the Go program", "bios-go", true, func(spoke *devstack.Cluster, campaign string, work ...string) *exec.Cmd {
			return exec.Command(program, append([]string{"--cluster", spoke.Name, "--campaign", campaign, "--nodes", "worker-1,worker-2", "--"}, work...)...)
		}},
		{"the shell script", "bios-sh", false, func(spoke *devstack.Cluster, campaign string, work ...string) *exec.Cmd {
			return exec.Command(examplesDir+"/requestor.sh", append([]string{spoke.Name, campaign, "node/worker-1", "node/worker-2", "--"}, work...)...)
		}},
	}
}

// run starts a program as a user of the fleet does. The test ends the process and its children.
func (p exampleProgram) run(t *testing.T, spoke *devstack.Cluster, work ...string) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	cmd, output = p.command(spoke, p.campaign, work...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	drydock := theFleet.Command(t.Context())
	cmd.Env = append(slices.Clone(drydock.Env), "PATH="+filepath.Dir(drydock.Path)+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd, output
}

// kill kills a program and its children, as when its machine fails.
func kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

func TestTheRequestorExamplesWork(t *testing.T) {
	shared(t)
	for i, program := range examplePrograms(t) {
		t.Run(program.name+" resumes after a kill and after failed work", func(t *testing.T) {
			resumesAfterCrash(t, program, theFleet.Spokes[2*i])
		})
		t.Run(program.name+" requests a node again after its maintenance was terminated, and does not work on it before", func(t *testing.T) {
			requestsAgain(t, program, theFleet.Spokes[2*i+1])
		})
	}
}

func resumesAfterCrash(t *testing.T, program exampleProgram, spoke *devstack.Cluster) {
	reserve(t, spoke.Name)
	before, dir := len(actionsOf(t, spoke)), t.TempDir()

	// The work on the first node hangs, and its program is killed.
	hanging, _ := program.run(t, spoke, "sh", "-c", `touch "$0/started-$NODE"; exec sleep 600`, dir)
	require.Eventually(t, func() bool { return len(glob(t, dir, "started-*")) == 1 }, stateLimit, 100*time.Millisecond)
	kill(hanging)

	// The next run finds the node and starts again. One node fails and keeps its slot; the other one waits for it.
	failing, output := program.run(t, spoke, "sh", "-c", `touch "$0/failed-$NODE"; exit 3`, dir)
	require.Eventually(t, func() bool { return len(glob(t, dir, "failed-*")) == 1 }, stateLimit, 100*time.Millisecond, "%s", output)
	first := filepath.Base(glob(t, dir, "failed-*")[0])[len("failed-"):]
	require.FileExists(t, filepath.Join(dir, "started-"+first), "the second run resumes with the node of the first")
	awaitNodeStatus(t, spoke, program.campaign+"-"+first, func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodeRequestorFailed
	})
	kill(failing)

	// The last run succeeds on both nodes. Another run does nothing.
	done, output := program.run(t, spoke, "sh", "-c", `touch "$0/done-$NODE"`, dir)
	require.NoError(t, done.Wait(), "%s", output)
	require.Len(t, glob(t, dir, "done-*"), 2)
	again, output := program.run(t, spoke, "false")
	require.NoError(t, again.Wait(), "%s", output)

	require.NoError(t, theFleet.AwaitCleanup(context.Background(), spoke))
	count := fleet.Count(nil, actionsOf(t, spoke)[before:])
	require.Equal(t, 2, count[fleet.ActionCordon], "each node was cordoned once")
	require.Equal(t, 2, count[fleet.ActionUncordon])
}

func requestsAgain(t *testing.T, program exampleProgram, spoke *devstack.Cluster) {
	reserve(t, spoke.Name)
	program.campaign += "-again"
	dir := t.TempDir()

	// The work on the first node hangs while its maintenance is terminated. A program that starts work on a node twice is killed.
	hanging, output := program.run(t, spoke, "sh", "-c", `echo started >> "$0/started-$NODE"
		[ "$(cat "$0/started-$NODE")" = started ] || kill -9 $PPID
		[ "$(ls "$0")" != "started-$NODE" ] || exec sleep 600`, dir)
	require.Eventually(t, func() bool { return len(glob(t, dir, "started-*")) == 1 }, stateLimit, 100*time.Millisecond)
	started := glob(t, dir, "started-*")[0]
	first := filepath.Base(started)[len("started-"):]
	if !program.stops {
		kill(hanging)
	}
	terminate(t, temporal.NodeMaintenanceID(spoke.Name, "default", program.campaign+"-"+first))
	if program.stops {
		require.Error(t, hanging.Wait())
		require.Contains(t, output.String(), first+": workflow execution error")
		require.Contains(t, output.String(), "terminated")
		require.Len(t, glob(t, dir, "started-*"), 2, "the other node is still maintained")
	}
	once, err := os.ReadFile(started)
	require.NoError(t, err)
	require.Equal(t, "started\n", string(once))

	again, output := program.run(t, spoke, "sh", "-c", `touch "$0/done-$NODE"`, dir)
	require.NoError(t, again.Wait(), "%s", output)
	require.FileExists(t, filepath.Join(dir, "done-"+first))
	require.NoError(t, theFleet.AwaitCleanup(context.Background(), spoke))
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	return found
}

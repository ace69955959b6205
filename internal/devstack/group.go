package devstack

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// group is the process group of all servers of a stack. It ends with this process: its anchor and its guard read a pipe
// whose only other end is ours, so the kernel closes it when this process ends in any way (Ctrl-C, a panic, SIGKILL). The guard then kills the group and removes the stack's temporary directory. A parent-death signal would
// not do: it fires when the thread that forked ends, not the process.
type group struct {
	pgid   int
	anchor *exec.Cmd
	guard  *exec.Cmd
	pipe   *os.File
}

// The anchor keeps the group's id alive while servers come and go.
const anchorScript = `trap '' HUP INT TERM; read -r _`

// rm may lose a race against a dying server's last write, hence the second and third try.
const guardScript = `trap '' HUP INT TERM
read -r _
kill -s KILL -- "-$1" 2>/dev/null
[ -n "$2" ] || exit 0
rm -rf -- "$2" 2>/dev/null || { sleep 1; rm -rf -- "$2"; } || { sleep 5; rm -rf -- "$2"; }`

// newGroup starts a group whose guard removes temporary when the group ends; empty removes nothing.
func newGroup(temporary string) (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the stack's process group: %w", err)
	}
	defer read.Close()
	g := &group{pipe: write}
	if g.anchor, err = startWatcher(read, anchorScript); err != nil {
		write.Close()
		return nil, fmt.Errorf("start the stack's process group: %w", err)
	}
	g.pgid = g.anchor.Process.Pid
	if g.guard, err = startWatcher(read, guardScript, strconv.Itoa(g.pgid), temporary); err != nil {
		write.Close()
		_ = g.anchor.Wait() // it saw the pipe close
		return nil, fmt.Errorf("start the stack's guard: %w", err)
	}
	return g, nil
}

// startWatcher runs a script in a process group of its own, so that a signal to ours does not reach it.
func startWatcher(pipe *os.File, script string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "drydock-devstack"}, args...)...)
	cmd.Stdin = pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

// adopt makes a command start inside the group. It joins before it execs, and until then it holds the pipe open: there
// is no moment at which the guard could miss it.
func (g *group) adopt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.pgid}
}

// end kills the remaining processes of the group, removes the temporary directory, and returns when both are done.
func (g *group) end() error {
	g.pipe.Close()
	_ = g.anchor.Wait() // killed by the guard: its exit status says nothing
	if err := g.guard.Wait(); err != nil {
		return fmt.Errorf("clean up the stack's processes and directory: %w", err)
	}
	return nil
}

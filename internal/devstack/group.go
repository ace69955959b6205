package devstack

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// group is the process group of all servers of a stack. It ends with this process: its anchor and guard read a pipe whose other end only this process
// has, and the kernel closes that end however the process exits (Ctrl-C, a panic, SIGKILL). The guard then kills the group and removes the temporary
// directory of the stack. A parent-death signal does not work: it fires when the forking thread ends, not the process.
type group struct {
	pgid   int
	anchor *exec.Cmd
	guard  *exec.Cmd
	pipe   *os.File
}

// anchorScript keeps the process group in existence while servers start and stop.
const anchorScript = `trap '' HUP INT TERM; read -r _`

// guardScript kills the group. rm may race with the last write of a server, so it is retried.
const guardScript = `trap '' HUP INT TERM
read -r _
kill -s KILL -- "-$1" 2>/dev/null
[ -n "$2" ] || exit 0
rm -rf -- "$2" 2>/dev/null || { sleep 1; rm -rf -- "$2"; } || { sleep 5; rm -rf -- "$2"; }`

// newGroup starts a group whose guard removes the directory temporary at the end; empty: none.
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
		_ = g.anchor.Wait() // the pipe is closed
		return nil, fmt.Errorf("start the stack's guard: %w", err)
	}
	return g, nil
}

// startWatcher runs a script in its own process group, so that a signal to the group of this process does not reach it.
func startWatcher(pipe *os.File, script string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "drydock-devstack"}, args...)...)
	cmd.Stdin = pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

// adopt makes a command start in the group. The process joins the group before exec, and holds the pipe open until then, so the guard cannot miss it.
func (g *group) adopt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.pgid}
}

// end kills the remaining processes of the group, removes the temporary directory, and returns when both are done.
func (g *group) end() error {
	g.pipe.Close()
	_ = g.anchor.Wait() // the guard has killed it, so ignore its exit status
	if err := g.guard.Wait(); err != nil {
		return fmt.Errorf("clean up the stack's processes and directory: %w", err)
	}
	return nil
}

// Package chroot runs programs of images in a root of their own.
package chroot

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// User is that of the images that do not need root.
const User = 65532

// Command runs a program of a root as the user of the images, with no environment. Without root it does so in a user namespace.
func Command(ctx context.Context, root, program string, args ...string) *exec.Cmd {
	run := exec.CommandContext(ctx, program, args...)
	run.Dir, run.Env = "/", []string{}
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Getuid() == 0 {
		run.SysProcAttr.Credential = &syscall.Credential{Uid: User, Gid: User}
		return run
	}
	run.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	run.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: User, HostID: os.Getuid(), Size: 1}}
	run.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: User, HostID: os.Getgid(), Size: 1}}
	return run
}

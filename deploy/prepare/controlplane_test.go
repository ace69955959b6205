package main_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// controlPlane is the directories of a control-plane node, as OpenShift or kubeadm writes them, with its etcd.
type controlPlane struct {
	t    *testing.T
	root string
	etcd *etcdServer
}

// newControlPlane is that of OpenShift.
func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	c := newNode(t)
	const certs = "/etc/kubernetes/static-pod-resources/etcd-certs/"
	c.write(certs+"configmaps/etcd-all-bundles/server-ca-bundle.crt", c.etcd.files.ca)
	c.write(certs+"secrets/etcd-all-certs/etcd-peer-node-1.crt", c.etcd.files.certificate)
	c.write(certs+"secrets/etcd-all-certs/etcd-peer-node-1.key", c.etcd.files.key)
	for _, pod := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		for _, revision := range []string{"7", "8"} {
			c.write(fmt.Sprintf("/etc/kubernetes/static-pod-resources/%s-pod-%s/%s-pod.yaml", pod, revision, pod), "revision: "+revision)
		}
		c.write(fmt.Sprintf("/etc/kubernetes/manifests/%s-pod.yaml", pod), fmt.Sprintf("hostPath: {path: /etc/kubernetes/static-pod-resources/%s-pod-8}", pod))
	}
	c.write("/etc/machine-config-daemon/currentconfig", `{"spec": {"config": {"storage": {"files": [
		{"path": "/etc/chrony.conf"}, {"path": "/usr/local/bin/tool"}, {"path": "/var/lib/extra/file"}, {"path": "/var/lib/gone"}]}}}}`)
	c.write("/var/lib/extra/file", "extra")
	return c
}

// newNode has an etcd, and files of all kinds.
func newNode(t *testing.T) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, root: t.TempDir(), etcd: startEtcd(t, freeAddress(t))}
	c.write("/etc/chrony.conf", "server ntp")
	c.write("/usr/local/bin/tool", "#!/bin/sh")
	require.NoError(t, os.Chmod(c.path("/usr/local/bin/tool"), 0o755|os.ModeSetuid))
	require.NoError(t, os.Lchown(c.path("/etc/chrony.conf"), 993, 990))
	require.NoError(t, os.Chtimes(c.path("/etc/chrony.conf"), time.Time{}, time.Unix(1700000000, 123456789)))
	require.NoError(t, unix.Setxattr(c.path("/etc/chrony.conf"), "trusted.selinux-like", []byte("system_u:object_r:etc_t:s0\x00"), 0))
	require.NoError(t, os.Symlink("/usr/share/zoneinfo/UTC", c.path("/etc/localtime")))
	require.NoError(t, os.Link(c.path("/etc/chrony.conf"), c.path("/etc/hardlink")))
	c.write("/etc/empty", "")
	c.write("/etc/"+strings.Repeat("long-", 30)+"é", "name")
	require.NoError(t, os.Chmod(c.path("/etc/empty"), 0))
	c.write("/var/lib/kubelet/config.json", `{"auths": {}}`)
	volume := c.path("/var/lib/kubelet/pods/1/volumes/data")
	require.NoError(t, os.MkdirAll(volume, 0o750))
	require.NoError(t, unix.Mount("tmpfs", volume, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(volume, unix.MNT_DETACH)) })
	require.NoError(t, os.WriteFile(filepath.Join(volume, "in-a-volume"), []byte("x"), 0o600))
	require.NoError(t, syscall.Mkfifo(c.path("/var/lib/kubelet/fifo"), 0o600))
	listener, err := net.Listen("unix", c.path("/var/lib/kubelet/s"))
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	require.NoError(t, os.MkdirAll(c.path("/var/recovery"), 0o700))
	return c
}

// freeAddress is a loopback address whose ports of etcd are free.
func freeAddress(t *testing.T) string {
	t.Helper()
	for i := 1; i < 250; i++ {
		address := fmt.Sprintf("127.83.%d.%d", os.Getpid()%250, i)
		listener, err := net.Listen("tcp", address+":2379")
		if err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	t.Fatal("no free address")
	return ""
}

func (c *controlPlane) path(path string) string { return filepath.Join(c.root, path) }

func (c *controlPlane) write(path, text string) {
	c.t.Helper()
	require.NoError(c.t, os.MkdirAll(filepath.Dir(c.path(path)), 0o755))
	require.NoError(c.t, os.WriteFile(c.path(path), []byte(text), 0o600))
}

// recoveryOn mounts a small file system at the directory of backups.
func (c *controlPlane) recoveryOn(options string) {
	c.t.Helper()
	require.NoError(c.t, unix.Mount("tmpfs", c.path("/var/recovery"), "tmpfs", 0, options))
	c.t.Cleanup(func() { require.NoError(c.t, unix.Unmount(c.path("/var/recovery"), unix.MNT_DETACH)) })
}

// command is the program of the Job, which has not started.
func (c *controlPlane) command(env ...string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.Command(program, "launchBackup")
	command.Env = append([]string{"HOST_DIRECTORY=" + c.root, "NODE_NAME=node-1", "NODE_IP=" + c.etcd.address}, env...)
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	return command, output
}

// backUp makes a backup, and returns the log of the Job.
func (c *controlPlane) backUp(env ...string) string {
	c.t.Helper()
	command, output := c.command(env...)
	require.NoError(c.t, command.Run(), output)
	c.t.Logf("log of the Job:\n%s", output)
	return output.String()
}

// refused runs the Job of a backup that fails, and returns its log.
func (c *controlPlane) refused(env ...string) string {
	c.t.Helper()
	command, output := c.command(env...)
	require.Error(c.t, command.Run(), output)
	require.Equal(c.t, 1, command.ProcessState.ExitCode(), output)
	c.t.Logf("log of the Job:\n%s", output)
	return output.String()
}

// backups are the whole backups on the node, of which each file has its checksum.
func (c *controlPlane) backups() []string {
	c.t.Helper()
	backups, err := filepath.Glob(c.path("/var/recovery/backup-*"))
	require.NoError(c.t, err)
	for _, backup := range backups {
		check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = backup
		output, err := check.CombinedOutput()
		require.NoError(c.t, err, string(output))
	}
	return backups
}

// only is the one backup on the node. Nothing else is in its directory.
func (c *controlPlane) only() string {
	c.t.Helper()
	backups := c.backups()
	require.Len(c.t, backups, 1)
	entries, err := os.ReadDir(c.path("/var/recovery"))
	require.NoError(c.t, err)
	require.Len(c.t, entries, 1)
	return backups[0]
}

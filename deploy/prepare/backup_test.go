package main_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock.dev/drydock/internal/precache"
)

func TestABackupRestoresEveryFileAsItWas(t *testing.T) {
	c := newControlPlane(t)
	require.Contains(t, c.backUp(), "extras.tar.gz: left out /var/lib/gone of /etc/machine-config-daemon/currentconfig: ")
	backup := c.only()
	restored := t.TempDir()
	for _, archive := range []string{"etc", "usr-local", "kubelet", "extras"} {
		untar(t, filepath.Join(backup, archive+".tar.gz"), restored)
	}
	for _, tree := range []string{"etc", "usr/local", "var/lib/kubelet", "var/lib/extra/file"} {
		requireSameTree(t, filepath.Join(c.root, tree), filepath.Join(restored, tree))
	}
	require.NoFileExists(t, filepath.Join(restored, "var/lib/kubelet/pods/1/volumes/data/in-a-volume"))
	require.DirExists(t, filepath.Join(restored, "var/lib/kubelet/pods/1/volumes/data"))
	require.NoDirExists(t, filepath.Join(restored, "var/lib/gone"))
	info, err := os.Stat(backup)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm(), "backups have secrets")
}

// OpenShift's cluster-restore.sh takes the snapshot and the current revisions of the static pods.
func TestABackupHasWhatOpenShiftRestoresAClusterFrom(t *testing.T) {
	c := newControlPlane(t)
	c.backUp()
	snapshots, err := filepath.Glob(filepath.Join(c.only(), "cluster/snapshot_*.db"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	require.Contains(t, read(t, snapshots[0]), "the content of etcd")
	resources, err := filepath.Glob(filepath.Join(c.only(), "cluster/static_kuberesources_*.tar.gz"))
	require.NoError(t, err)
	require.Len(t, resources, 1)
	restored := t.TempDir()
	untar(t, resources[0], restored)
	for _, pod := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		require.FileExists(t, filepath.Join(restored, "static-pod-resources", pod+"-pod-8", pod+"-pod.yaml"))
		require.NoDirExists(t, filepath.Join(restored, "static-pod-resources", pod+"-pod-7"))
	}
}

func TestANodeOfKubeadmIsBackedUp(t *testing.T) {
	c := newNode(t)
	c.write("/etc/kubernetes/pki/etcd/ca.crt", c.etcd.files.ca)
	c.write("/etc/kubernetes/pki/etcd/server.crt", c.etcd.files.certificate)
	c.write("/etc/kubernetes/pki/etcd/server.key", c.etcd.files.key)
	c.backUp()
	entries, err := os.ReadDir(filepath.Join(c.only(), "cluster"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "the static pods are in /etc")
	require.NoFileExists(t, filepath.Join(c.only(), "extras.tar.gz"))
}

func TestAnOlderBackupIsRemovedWhenTheNextOneIsWhole(t *testing.T) {
	c := newControlPlane(t)
	c.backUp()
	first := c.only()
	c.etcd.stop()
	require.Contains(t, c.refused(), "error: etcd at https://"+c.etcd.address+":2379: dial tcp "+c.etcd.address+":2379: connect: connection refused")
	require.Equal(t, first, c.only(), "a backup that fails removes no other")
}

// The Job has all that the program needs.
func TestTheJobOfABackupRunsOnANode(t *testing.T) {
	c := newControlPlane(t)
	r := startRegistry(t)
	n := startNode(t, r)
	n.ip = c.etcd.address
	for _, tree := range []string{"/etc", "/usr/local", "/var/lib/kubelet", "/var/recovery"} {
		require.NoError(t, os.MkdirAll(n.path(tree), 0o755))
		require.NoError(t, unix.Mount(c.path(tree), n.path(tree), "", unix.MS_BIND|unix.MS_REC, ""))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(n.path(tree), unix.MNT_DETACH)) })
	}
	j := n.start(precache.Work{Kind: precache.Backup, Image: r.host + "/prepare:1", Timeout: time.Hour}.Job("backup-agent").Spec.Template.Spec, nil)
	require.Contains(t, requireSucceeded(t, j), "backup complete: /var/recovery/backup-")
	restored := t.TempDir()
	untar(t, filepath.Join(c.only(), "etc.tar.gz"), restored)
	requireSameTree(t, c.path("/etc"), filepath.Join(restored, "etc"))
}

// Killed at any moment, a run leaves the older backup or the new one whole. The next run removes what it left.
func TestAKilledBackupLeavesAWholeOne(t *testing.T) {
	c := newControlPlane(t)
	c.write("/etc/large", strings.Repeat("0123456789abcdef", 1<<20))
	c.backUp()
	for _, moment := range []string{
		".unfinished-*", ".unfinished-*/cluster/*.part", ".unfinished-*/cluster/snapshot_*.db", ".unfinished-*/etc.tar.gz", ".unfinished-*/kubelet.tar.gz",
		".unfinished-*/cluster/static_*", ".unfinished-*/SHA256SUMS", "backup-*", ".unfinished-backup-*",
	} {
		older := c.backups()
		require.NotEmpty(t, older)
		command, output := c.command()
		require.NoError(t, command.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			command.Wait()
		}()
		for !c.hasNew(moment, older) && !closed(ended) {
		}
		require.NoError(t, ignoreDone(command.Process.Kill()))
		<-ended
		require.NotEmpty(t, c.backups(), "killed when there was %s: %s", moment, output)
	}
	c.backUp()
	c.only()
}

// The deadline of the Job ends it with SIGTERM, here while it waits for the rest of a snapshot.
func TestATerminatedBackupIsRemoved(t *testing.T) {
	c := newControlPlane(t)
	stalled := c.stall()
	require.NoError(t, stalled.command.Process.Signal(syscall.SIGTERM))
	require.Error(t, stalled.command.Wait())
	require.Contains(t, stalled.output.String(), "error: snapshot of etcd: ")
	entries, err := os.ReadDir(c.path("/var/recovery"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Two rollouts may back up a cluster at the same time.
func TestBackupsAtTheSameTimeKeepEachOther(t *testing.T) {
	c := newControlPlane(t)
	c.backUp()
	first := c.only()
	stalled := c.stall()
	c.backUp()
	second := c.backups()
	require.NotContains(t, second, first)
	stalled.release()
	require.NoError(t, stalled.command.Wait(), stalled.output)
	both := c.backups()
	require.Subset(t, both, second)
	require.Len(t, both, 2)
	c.backUp()
	require.NotContains(t, both, c.only())
}

func TestADirectoryThatAPersonMadeIsKept(t *testing.T) {
	c := newControlPlane(t)
	const name = "/var/recovery/backup-of-may/etc.tar.gz"
	c.write(name, "")
	c.backUp()
	require.FileExists(t, c.path(name))
}

// stalledBackup waits for the rest of a snapshot until it is released.
type stalledBackup struct {
	command *exec.Cmd
	output  *bytes.Buffer
	release func()
}

func (c *controlPlane) stall() stalledBackup {
	c.t.Helper()
	kv, err := c.etcd.client(c.t)
	require.NoError(c.t, err)
	defer kv.Close()
	_, err = kv.Put(c.t.Context(), "/registry/large", strings.Repeat("0", 1<<20))
	require.NoError(c.t, err)
	endpoint, release := stallingProxy(c.t, c.etcd.address, 256<<10)
	command, output := c.command("ETCDCTL_ENDPOINTS=https://" + endpoint)
	require.NoError(c.t, command.Start())
	require.Eventually(c.t, func() bool { return c.hasNew(".unfinished-*/cluster/*.part", nil) }, time.Minute, time.Millisecond)
	return stalledBackup{command, output, release}
}

// hasNew reports whether there is a file of this name, except older ones.
func (c *controlPlane) hasNew(pattern string, older []string) bool {
	c.t.Helper()
	found, err := filepath.Glob(c.path("/var/recovery/" + pattern))
	require.NoError(c.t, err)
	for _, path := range found {
		if !strings.Contains(strings.Join(older, "\n"), path) {
			return true
		}
	}
	return false
}

func closed(ended chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func ignoreDone(err error) error {
	if err == os.ErrProcessDone {
		return nil
	}
	return err
}

func TestABackupThatDoesNotFitIsNotBegun(t *testing.T) {
	c := newControlPlane(t)
	c.write("/etc/large", strings.Repeat("0", 4<<20))
	c.recoveryOn("size=3m")
	require.Contains(t, c.refused(), "error: not enough space for a backup: /var/recovery has 3.0 MiB available, but ")
	require.Empty(t, c.backups())
}

// A disk that is full before its size says so: it has no inodes left.
func TestADiskThatFillsUpFailsABackup(t *testing.T) {
	c := newControlPlane(t)
	c.recoveryOn("size=100m,nr_inodes=6")
	require.Contains(t, c.refused(), "no space left on device")
	entries, err := os.ReadDir(c.path("/var/recovery"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestWhatABackupLacksIsNamed(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		with func(c *controlPlane)
		want string
	}{
		{"the address of the node", []string{"NODE_IP="}, nil, "the address of etcd is not known: the environment has neither NODE_IP nor ETCDCTL_ENDPOINTS"},
		{"a key", []string{"ETCDCTL_CERT=/cert"}, nil, "the environment has some of ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY; set all or none"},
		{"certificates", []string{"NODE_NAME=worker-1"}, nil, "node worker-1 has no certificates of etcd (/etc/kubernetes/static-pod-resources/etcd-certs/secrets/etcd-all-certs/etcd-peer-worker-1.crt, "},
		{"a manifest", nil, func(c *controlPlane) {
			require.NoError(c.t, os.Remove(c.path("/etc/kubernetes/manifests/kube-scheduler-pod.yaml")))
		}, "static pod kube-scheduler: open "},
		{"a revision", nil, func(c *controlPlane) { c.write("/etc/kubernetes/manifests/etcd-pod.yaml", "{}") }, "static pod etcd: /etc/kubernetes/manifests/etcd-pod.yaml names no directory static-pod-resources/etcd-pod-REVISION"},
		{"a directory", nil, func(c *controlPlane) { require.NoError(c.t, os.RemoveAll(c.path("/usr/local"))) }, "size of usr-local.tar.gz: lstat "},
		{"trust", nil, func(c *controlPlane) {
			c.write("/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/etcd-all-bundles/server-ca-bundle.crt", newCertificates(c.t, "127.0.0.1").ca)
		}, "certificate signed by unknown authority"},
		{"a machine configuration", nil, func(c *controlPlane) { c.write("/etc/machine-config-daemon/currentconfig", "[") }, "/etc/machine-config-daemon/currentconfig: unexpected end of JSON input"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newControlPlane(t)
			if test.with != nil {
				test.with(c)
			}
			require.Contains(t, c.refused(test.env...), test.want)
			require.Empty(t, c.backups())
		})
	}
}

// The restored etcd has the Job that made the backup, and runs it again. A file that a person forgot must not pass for a backup.
func TestARestoreInProgressIsNotOverwritten(t *testing.T) {
	c := newControlPlane(t)
	c.backUp()
	first := c.only()
	c.write("/var/recovery/progress", "")
	require.Contains(t, c.refused(), "error: no backup: /var/recovery/progress says that the node is being restored; remove it when that is done")
	require.Equal(t, []string{first}, c.backups())
}

func untar(t *testing.T, archive, directory string) {
	t.Helper()
	output, err := exec.Command("tar", "--extract", "--gzip", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--file", archive, "--directory", directory).CombinedOutput()
	require.NoError(t, err, string(output))
	require.Empty(t, string(output))
}

// requireSameTree compares all of two trees but sockets and what is mounted in the first one.
func requireSameTree(t *testing.T, want, got string) {
	t.Helper()
	compared := 0
	require.NoError(t, filepath.WalkDir(want, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(want, path)
		require.NoError(t, err)
		if info.Mode().Type() == fs.ModeSocket {
			return nil
		}
		if entry.Name() == "data" {
			return fs.SkipDir
		}
		requireSameFile(t, path, filepath.Join(got, name))
		compared++
		return nil
	}))
	require.NotZero(t, compared)
}

func requireSameFile(t *testing.T, want, got string) {
	t.Helper()
	a, err := os.Lstat(want)
	require.NoError(t, err)
	b, err := os.Lstat(got)
	require.NoError(t, err)
	require.Equal(t, a.Mode(), b.Mode(), got)
	as, bs := a.Sys().(*syscall.Stat_t), b.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{as.Uid, as.Gid}, []uint32{bs.Uid, bs.Gid}, got)
	if !a.IsDir() {
		require.Equal(t, as.Nlink, bs.Nlink, got)
		require.Equal(t, a.ModTime(), b.ModTime(), got)
	}
	switch a.Mode().Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(want)
		require.NoError(t, err)
		restored, err := os.Readlink(got)
		require.NoError(t, err)
		require.Equal(t, target, restored)
	case 0:
		require.Equal(t, read(t, want), read(t, got))
		require.Equal(t, attribute(want), attribute(got))
	}
}

func attribute(path string) string {
	buffer := make([]byte, 100)
	size, err := unix.Lgetxattr(path, "trusted.selinux-like", buffer)
	if err != nil {
		return err.Error()
	}
	return string(buffer[:size])
}

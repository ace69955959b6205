package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// node is a node with Debian's containerd. Its directories are below root, but for those that are the same for the runtime and the Jobs.
type node struct {
	t    *testing.T
	root string
	// ip is the address of the node.
	ip         string
	containers runtimeapi.RuntimeServiceClient
	images     runtimeapi.ImageServiceClient
}

// shared are directories of the node that are those of this machine: the runtime and the Jobs see them at the same path.
var shared = map[string]bool{"/tmp": true, "/var/tmp": true, "/proc": true}

const containerdConfig = `version = 2
root = "%[1]s/var/lib/containerd"
state = "%[1]s/run/state"
[grpc]
  address = "%[1]s/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/etc/containerd/certs.d"
`

// startNode starts a node whose pods have the pause container of a registry.
func startNode(t *testing.T, r *imageRegistry, prepare ...func(root string)) *node {
	t.Helper()
	containerd, err := exec.LookPath("containerd")
	require.NoError(t, err, "tests of precaching need Debian's containerd and runc, and run as root: apt-get install containerd runc")
	root, err := os.MkdirTemp("", "node-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	for _, step := range prepare {
		step(root)
	}
	n := &node{t: t, root: root, ip: "127.0.0.1"}
	n.write("/etc/containerd/config.toml", fmt.Sprintf(containerdConfig, root, r.host+"/pause:1"))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "run/containerd"), 0o755))
	log, err := os.Create(filepath.Join(root, "containerd.log"))
	require.NoError(t, err)
	server := exec.Command(containerd, "--config", filepath.Join(root, "etc/containerd/config.toml"))
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of containerd:\n%s", text)
		}
		require.NoError(t, server.Process.Kill())
		server.Wait()
	})
	connection, err := grpc.NewClient("unix://"+root+"/run/containerd/containerd.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	n.containers, n.images = runtimeapi.NewRuntimeServiceClient(connection), runtimeapi.NewImageServiceClient(connection)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := n.containers.Version(t.Context(), &runtimeapi.VersionRequest{})
		assert.NoError(c, err)
	}, time.Minute, 20*time.Millisecond)
	t.Cleanup(n.removePods)
	return n
}

// path is where a directory or file of the node is.
func (n *node) path(path string) string {
	if shared[path] {
		return path
	}
	return filepath.Join(n.root, path)
}

func (n *node) write(path, text string) {
	n.t.Helper()
	require.NoError(n.t, os.MkdirAll(filepath.Dir(n.path(path)), 0o755))
	require.NoError(n.t, os.WriteFile(n.path(path), []byte(text), 0o600))
}

// removePods removes all pods. A runtime refuses it while a container starts.
func (n *node) removePods() {
	ctx := context.WithoutCancel(n.t.Context())
	require.EventuallyWithT(n.t, func(c *assert.CollectT) {
		pods, err := n.containers.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		assert.NoError(c, err)
		for _, pod := range pods.GetItems() {
			_, err := n.containers.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.Id})
			assert.NoError(c, err)
			_, err = n.containers.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.Id})
			assert.NoError(c, err)
		}
	}, time.Minute, 20*time.Millisecond)
}

// has reports whether an image is on the node.
func (n *node) has(image string) bool {
	n.t.Helper()
	status, err := n.images.ImageStatus(n.t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	require.NoError(n.t, err)
	return status.Image != nil
}

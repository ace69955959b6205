package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

// job is a Job of precaching whose pod runs on a node, as a kubelet runs it.
type job struct {
	node       *node
	uid        string
	config     map[string]string
	directory  string
	sandbox    string
	container  string
	addedToEnv []*runtimeapi.KeyValue
}

// precache starts the Job that precaches a spec.
func (n *node) precache(r *imageRegistry, spec ranv1.PrecachingSpec, env ...string) *job {
	n.t.Helper()
	work := precache.Work{Kind: precache.Precaching, Image: r.host + "/prepare:1", Spec: &spec, Timeout: time.Hour}
	return n.start(work.Job("pre-cache").Spec.Template.Spec, work.Config(), env...)
}

// start runs the pod of a Job.
func (n *node) start(pod corev1.PodSpec, config map[string]string, env ...string) *job {
	n.t.Helper()
	j := &job{node: n, uid: uuid.NewString(), config: config, directory: n.t.TempDir()}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		j.addedToEnv = append(j.addedToEnv, &runtimeapi.KeyValue{Key: name, Value: []byte(value)})
	}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pre-cache-" + j.uid[:5], Namespace: precache.NamespacePrecaching, Uid: j.uid},
		LogDirectory: j.directory,
		Labels: map[string]string{
			"io.kubernetes.pod.name": "pre-cache-" + j.uid[:5], "io.kubernetes.pod.namespace": precache.NamespacePrecaching, "io.kubernetes.pod.uid": j.uid,
		},
		// There is no network for pods.
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/drydock-test", SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			Privileged: true, NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	container := pod.Containers[0]
	if !n.has(container.Image) {
		_, err := n.images.PullImage(n.t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: container.Image}})
		require.NoError(n.t, err)
	}
	created, err := n.containers.RunPodSandbox(n.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	require.NoError(n.t, err)
	j.sandbox = created.PodSandboxId
	run, err := n.containers.CreateContainer(n.t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: j.sandbox, SandboxConfig: sandbox, Config: j.containerConfig(pod, sandbox),
	})
	require.NoError(n.t, err)
	j.container = run.ContainerId
	_, err = n.containers.StartContainer(n.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: j.container})
	require.NoError(n.t, err)
	return j
}

func (j *job) containerConfig(pod corev1.PodSpec, sandbox *runtimeapi.PodSandboxConfig) *runtimeapi.ContainerConfig {
	container := pod.Containers[0]
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: container.Name},
		Image:    &runtimeapi.ImageSpec{Image: container.Image, UserSpecifiedImage: container.Image},
		Command:  container.Command, Args: container.Args,
		Envs:    append(j.environment(container.Env), j.addedToEnv...),
		LogPath: "log",
		Labels:  map[string]string{"io.kubernetes.container.name": container.Name, "io.kubernetes.pod.uid": j.uid},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			Privileged: *container.SecurityContext.Privileged, RunAsUser: &runtimeapi.Int64Value{Value: *container.SecurityContext.RunAsUser},
			NamespaceOptions: sandbox.Linux.SecurityContext.NamespaceOptions,
		}},
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume.VolumeSource
	}
	for _, mount := range container.VolumeMounts {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{ContainerPath: mount.MountPath, HostPath: j.volume(mount.Name, volumes[mount.Name]), Readonly: mount.ReadOnly})
	}
	return config
}

func (j *job) environment(variables []corev1.EnvVar) []*runtimeapi.KeyValue {
	fields := map[string]string{"spec.nodeName": "node-1", "metadata.uid": j.uid, "status.hostIP": j.node.ip}
	var environment []*runtimeapi.KeyValue
	for _, variable := range variables {
		value := variable.Value
		if variable.ValueFrom != nil {
			value = fields[variable.ValueFrom.FieldRef.FieldPath]
			require.NotEmpty(j.node.t, value, variable.Name)
		}
		environment = append(environment, &runtimeapi.KeyValue{Key: variable.Name, Value: []byte(value)})
	}
	return environment
}

// volume is the directory of a volume on this machine.
func (j *job) volume(name string, source corev1.VolumeSource) string {
	path := filepath.Join(j.directory, name)
	switch {
	case source.HostPath != nil && *source.HostPath.Type == corev1.HostPathFile:
		path = j.node.path(source.HostPath.Path)
		j.node.write(source.HostPath.Path, "")
		return path
	case source.HostPath != nil && *source.HostPath.Type == corev1.HostPathSocket:
		path = j.node.path(source.HostPath.Path)
		require.NoError(j.node.t, os.MkdirAll(filepath.Dir(path), 0o755))
		listener, err := net.Listen("unix", path)
		require.NoError(j.node.t, err)
		j.node.t.Cleanup(func() { listener.Close() })
		return path
	case source.HostPath != nil:
		path = j.node.path(source.HostPath.Path)
	case source.ConfigMap != nil:
		for key, value := range j.config {
			require.NoError(j.node.t, os.MkdirAll(path, 0o755))
			require.NoError(j.node.t, os.WriteFile(filepath.Join(path, key), []byte(value), 0o600))
		}
	}
	require.NoError(j.node.t, os.MkdirAll(path, 0o755))
	return path
}

// log is what the Job has written.
func (j *job) log() string {
	data, err := os.ReadFile(filepath.Join(j.directory, "log"))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(j.node.t, err)
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		// Time, stream, and whether the line is whole.
		if parts := strings.SplitN(line, " ", 4); len(parts) == 4 {
			text.WriteString(parts[3])
		}
	}
	return text.String()
}

// awaitLog waits until the log has a text.
func (j *job) awaitLog(text string) {
	j.node.t.Helper()
	require.EventuallyWithT(j.node.t, func(c *assert.CollectT) { assert.Contains(c, j.log(), text) }, time.Minute, 20*time.Millisecond)
}

// kill kills the program of the Job with SIGKILL.
func (j *job) kill() { j.stop(0) }

// terminate sends SIGTERM to the program of the Job, and waits for its end.
func (j *job) terminate() { j.stop(60) }

func (j *job) stop(timeout int64) {
	j.node.t.Helper()
	_, err := j.node.containers.StopContainer(j.node.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: j.container, Timeout: timeout})
	require.NoError(j.node.t, err)
}

// awaitReader waits until a second container is in the pod: one that reads an image.
func (j *job) awaitReader() {
	j.node.t.Helper()
	require.EventuallyWithT(j.node.t, func(c *assert.CollectT) {
		containers, err := j.node.containers.ListContainers(j.node.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: j.sandbox}})
		assert.NoError(c, err)
		assert.Len(c, containers.GetContainers(), 2)
	}, time.Minute, 20*time.Millisecond)
}

// await waits for the end of the Job and returns its exit code and log.
func (j *job) await() (exitCode int32, log string) {
	j.node.t.Helper()
	require.EventuallyWithT(j.node.t, func(c *assert.CollectT) {
		response, err := j.node.containers.ContainerStatus(j.node.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: j.container})
		if assert.NoError(c, err) && assert.Equal(c, runtimeapi.ContainerState_CONTAINER_EXITED, response.Status.State, j.log()) {
			exitCode = response.Status.ExitCode
		}
	}, 5*time.Minute, 20*time.Millisecond)
	j.node.t.Logf("log of the Job:\n%s", j.log())
	return exitCode, j.log()
}

// requireClean checks that the pod has only the container of the Job, and that nothing is left in the shared directories.
func (j *job) requireClean() {
	j.node.t.Helper()
	containers, err := j.node.containers.ListContainers(j.node.t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: j.sandbox}})
	require.NoError(j.node.t, err)
	require.Len(j.node.t, containers.Containers, 1)
	for directory := range shared {
		left, err := filepath.Glob(directory + "/drydock-precache-*")
		require.NoError(j.node.t, err)
		require.Empty(j.node.t, left)
	}
}

func requireSucceeded(t *testing.T, j *job) string {
	t.Helper()
	code, log := j.await()
	require.Zero(t, code, fmt.Sprintf("the Job failed: %s", log))
	return log
}

func requireFailed(t *testing.T, j *job) string {
	t.Helper()
	code, log := j.await()
	require.EqualValues(t, 1, code, log)
	return log
}

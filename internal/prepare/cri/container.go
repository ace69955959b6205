package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels by which the kubelet knows which pod a sandbox or container belongs to.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// containerName of the containers that Run starts.
const containerName = "image-reader"

// exitInterval is how often the state of a container is read. Runtimes before containerd 1.7 and CRI-O 1.26 have no events.
const exitInterval = 100 * time.Millisecond

// Pod is the pod of this program, by UID, or by name.
type Pod struct {
	UID  string
	Name string
}

// Run runs a program in the root file system of an image, as a container beside this one in the same pod, and waits for its end. A directory of the
// node is mounted at the same path in the container; the program is in it.
//
// The container is in this pod because the kubelet stops every sandbox of a pod that it does not know, within seconds. It leaves containers of a pod
// that it knows alone, and removes them with the pod, also if this program is killed.
func (r *Runtime) Run(ctx context.Context, pod Pod, image, directory string, command ...string) error {
	sandbox, config, err := r.sandbox(ctx, pod)
	if err != nil {
		return err
	}
	// If the context ends, the container must go. One that is being started cannot be removed.
	lasting := context.WithoutCancel(ctx)
	created, err := r.containers.CreateContainer(lasting, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config, Config: readerContainer(config, image, directory, command),
	})
	if err != nil {
		return fmt.Errorf("create a container of %s: %w", image, err)
	}
	_, err = r.containers.StartContainer(lasting, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId})
	if err == nil {
		err = r.awaitExit(ctx, created.ContainerId)
	}
	_, removed := r.containers.RemoveContainer(lasting, &runtimeapi.RemoveContainerRequest{ContainerId: created.ContainerId})
	if err = errors.Join(err, removed); err != nil {
		return fmt.Errorf("container of %s: %w", image, err)
	}
	return nil
}

func readerContainer(sandbox *runtimeapi.PodSandboxConfig, image, directory string, command []string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		// A name is taken until its container is removed.
		Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprintf("%s-%d", containerName, time.Now().UnixNano())},
		Image:    &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
		Command:  command,
		Labels: map[string]string{
			labelPodName: sandbox.Metadata.Name, labelPodNamespace: sandbox.Metadata.Namespace, labelPodUID: sandbox.Metadata.Uid, labelContainerName: containerName,
		},
		Mounts: []*runtimeapi.Mount{{ContainerPath: directory, HostPath: directory, SelinuxRelabel: true}},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			RunAsUser:        &runtimeapi.Int64Value{},
			ReadonlyRootfs:   true,
		}},
	}
}

func (r *Runtime) awaitExit(ctx context.Context, id string) error {
	ticker := time.NewTicker(exitInterval)
	defer ticker.Stop()
	for {
		response, err := r.containers.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return err
		}
		if status := response.Status; status.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			if status.ExitCode != 0 {
				return fmt.Errorf("its program ended with exit code %d (%s)", status.ExitCode, status.Reason)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// sandbox finds the sandbox of a pod, with its configuration.
func (r *Runtime) sandbox(ctx context.Context, pod Pod) (string, *runtimeapi.PodSandboxConfig, error) {
	selector := map[string]string{labelPodUID: pod.UID}
	if pod.UID == "" {
		selector = map[string]string{labelPodName: pod.Name}
	}
	response, err := r.containers.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: selector, State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return "", nil, fmt.Errorf("find the pod of this program: %w", err)
	}
	if len(response.Items) != 1 {
		return "", nil, fmt.Errorf("%s has %d pods with the labels %v, but one is expected: that of this program", r.Name, len(response.Items), selector)
	}
	id := response.Items[0].Id
	status, err := r.containers.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return "", nil, fmt.Errorf("status of the pod of this program: %w", err)
	}
	config, err := sandboxConfig(status)
	return id, config, err
}

// sandboxConfig is the configuration with which the kubelet created a sandbox. containerd needs it with each container, and reports it; CRI-O
// remembers it, and wants to see only whose it is.
func sandboxConfig(status *runtimeapi.PodSandboxStatusResponse) (*runtimeapi.PodSandboxConfig, error) {
	var info struct {
		Config *runtimeapi.PodSandboxConfig `json:"config"`
	}
	if text := status.Info["info"]; text != "" {
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return nil, fmt.Errorf("configuration of the pod of this program: %w", err)
		}
	}
	if info.Config != nil {
		return info.Config, nil
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: status.Status.Metadata, Labels: status.Status.Labels, Annotations: status.Status.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: status.Status.GetLinux().GetNamespaces().GetOptions(),
		}},
	}, nil
}

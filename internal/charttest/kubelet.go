package charttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/resource"

	"drydock.dev/drydock/internal/charttest/chroot"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// Kubelet runs containers as processes. As with a kubelet and the images of deploy/images, a process finds nothing in its root but its program, its mounted
// volumes and the token of its ServiceAccount, and runs as the user of the image.
type Kubelet struct {
	Cluster *devstack.Cluster
	// Programs is the directory with the programs of the images, by their names. Images is that of their OCI layouts, which are used instead if it is set.
	Programs, Images string
	// Dir has the roots of the containers, by their names. Volumes stay there.
	Dir string
}

const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Command prepares a container of a pod.
func (k Kubelet) Command(ctx context.Context, pod corev1.PodSpec, container corev1.Container) (*exec.Cmd, error) {
	root := filepath.Join(k.Dir, container.Name)
	image, err := k.install(path.Base(strings.Split(container.Image, ":")[0]), root)
	if err != nil {
		return nil, err
	}
	for _, mount := range container.VolumeMounts {
		if err := k.mount(ctx, pod, mount, filepath.Join(root, mount.MountPath)); err != nil {
			return nil, fmt.Errorf("volume %s of container %s: %w", mount.Name, container.Name, err)
		}
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		if err := k.mountToken(ctx, pod.ServiceAccountName, filepath.Join(root, accountDir)); err != nil {
			return nil, err
		}
	}
	environment, err := k.environment(ctx, container)
	if err != nil {
		return nil, err
	}
	run := chroot.Command(ctx, root, image.Entrypoint[0], container.Args...)
	run.Env = append(image.Env, environment...)
	return run, nil
}

// mount writes the volume of a mount to a directory. Only volumes of their own, such as emptyDir, can be written by the container.
func (k Kubelet) mount(ctx context.Context, pod corev1.PodSpec, mount corev1.VolumeMount, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, volume := range pod.Volumes {
		switch {
		case volume.Name != mount.Name:
		case volume.Secret != nil:
			secret, err := k.Cluster.Client.CoreV1().Secrets(kube.SystemNamespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return writeFiles(dir, secret.Data)
		case volume.ConfigMap != nil:
			config, err := k.Cluster.Client.CoreV1().ConfigMaps(kube.SystemNamespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			files := map[string][]byte{}
			for name, content := range config.Data {
				files[name] = []byte(content)
			}
			return writeFiles(dir, files)
		}
	}
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(dir, chroot.User, chroot.User)
}

// mountToken writes what a kubelet gives to the pods of a ServiceAccount.
func (k Kubelet) mountToken(ctx context.Context, account, dir string) error {
	config, err := k.Cluster.ServiceAccountConfig(ctx, kube.SystemNamespace, account)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(kube.SystemNamespace)})
}

// environment is that of the kubelet and of the container.
func (k Kubelet) environment(ctx context.Context, container corev1.Container) ([]string, error) {
	server, err := url.Parse(k.Cluster.Config.Host)
	if err != nil {
		return nil, err
	}
	found := []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			if value, err = k.valueFrom(ctx, *variable.ValueFrom, &container); err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", variable.Name, err)
			}
		}
		found = append(found, variable.Name+"="+value)
	}
	return found, nil
}

// valueFrom is the value of an environment variable of a container: from a Secret, or from the resources of the container.
func (k Kubelet) valueFrom(ctx context.Context, source corev1.EnvVarSource, container *corev1.Container) (string, error) {
	if source.ResourceFieldRef != nil {
		return resource.ExtractContainerResourceValue(source.ResourceFieldRef, container)
	}
	from := source.SecretKeyRef
	secret, err := k.Cluster.Client.CoreV1().Secrets(kube.SystemNamespace).Get(ctx, from.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(secret.Data[from.Key]), nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// install writes what an image has to the root of a container, with the link by which its program finds itself in /proc.
func (k Kubelet) install(name, root string) (v1.Config, error) {
	process := filepath.Join(root, "proc/self")
	if err := os.MkdirAll(process, 0o755); err != nil {
		return v1.Config{}, err
	}
	if err := os.Symlink("/"+name, filepath.Join(process, "exe")); err != nil && !errors.Is(err, os.ErrExist) {
		return v1.Config{}, err
	}
	if k.Images == "" {
		return v1.Config{Entrypoint: []string{"/" + name}, Env: []string{"PATH=/", "HOME=/", "USER=drydock"}}, copyProgram(filepath.Join(k.Programs, name), filepath.Join(root, name))
	}
	image, err := ImageOf(filepath.Join(k.Images, name), runtime.GOARCH)
	if err != nil {
		return v1.Config{}, err
	}
	if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, os.ErrNotExist) {
		if _, err := Unpack(image, root); err != nil {
			return v1.Config{}, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return v1.Config{}, err
	}
	return config.Config, nil
}

func copyProgram(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

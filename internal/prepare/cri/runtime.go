// Package cri uses the container runtime of a node through its socket, with the Container Runtime Interface that the kubelet uses.
package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"drydock.dev/drydock/internal/prepare/host"
)

// sockets of CRI-O and containerd.
var sockets = []string{"/run/crio/crio.sock", "/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"}

// largestMessage is the kubelet's limit.
const largestMessage = 16 << 20

// Runtime is the container runtime of a node.
type Runtime struct {
	Name       string
	connection *grpc.ClientConn
	images     runtimeapi.ImageServiceClient
	containers runtimeapi.RuntimeServiceClient
}

// Connect connects to the runtime at an endpoint such as unix:///host/run/crio/crio.sock; without one, to the first known socket that exists.
func Connect(ctx context.Context, root host.Root, endpoint string) (*Runtime, error) {
	if endpoint == "" {
		socket, err := findSocket(root)
		if err != nil {
			return nil, err
		}
		endpoint = "unix://" + socket
	}
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestMessage)))
	if err != nil {
		return nil, fmt.Errorf("container runtime at %s: %w", endpoint, err)
	}
	r := &Runtime{connection: connection, images: runtimeapi.NewImageServiceClient(connection), containers: runtimeapi.NewRuntimeServiceClient(connection)}
	version, err := r.containers.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("container runtime at %s: %w", endpoint, err), connection.Close())
	}
	r.Name = version.RuntimeName + " " + version.RuntimeVersion
	return r, nil
}

func findSocket(root host.Root) (string, error) {
	for _, socket := range sockets {
		path := root.Path(socket)
		if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
			return path, nil
		}
	}
	return "", fmt.Errorf("the node has no socket of a container runtime at %s", strings.Join(sockets, ", "))
}

// Close closes the connection.
func (r *Runtime) Close() error { return r.connection.Close() }

// Image is an image on the node.
type Image struct {
	Size   uint64
	Labels map[string]string
}

// Image returns an image on the node; nil if it is not there.
func (r *Runtime) Image(ctx context.Context, name string) (*Image, error) {
	response, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}, Verbose: true})
	if err != nil || response.Image == nil {
		return nil, err
	}
	// CRI-O and containerd both report the image's configuration here.
	var info struct {
		ImageSpec struct {
			Config struct {
				Labels map[string]string
			} `json:"config"`
		} `json:"imageSpec"`
	}
	if text := response.Info["info"]; text != "" {
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return nil, fmt.Errorf("configuration of the image: %w", err)
		}
	}
	return &Image{Size: response.Image.Size, Labels: info.ImageSpec.Config.Labels}, nil
}

// Login is what a registry wants to know. The zero value leaves it to the configuration of the runtime.
type Login struct {
	// Server is the registry, so that the runtime tells no other.
	Server             string
	Username, Password string
	IdentityToken      string
	RegistryToken      string
}

// Pull pulls an image.
func (r *Runtime) Pull(ctx context.Context, name string, login Login) error {
	request := &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}}
	if login != (Login{}) {
		request.Auth = &runtimeapi.AuthConfig{
			ServerAddress: login.Server, Username: login.Username, Password: login.Password, IdentityToken: login.IdentityToken, RegistryToken: login.RegistryToken,
		}
	}
	_, err := r.images.PullImage(ctx, request)
	return err
}

// ImageDirectory is the directory of the node in whose file system the images are.
func (r *Runtime) ImageDirectory(ctx context.Context) (string, error) {
	response, err := r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", err
	}
	for _, filesystem := range response.ImageFilesystems {
		if directory := filesystem.GetFsId().GetMountpoint(); directory != "" {
			return directory, nil
		}
	}
	return "", fmt.Errorf("%s does not say where it stores images", r.Name)
}

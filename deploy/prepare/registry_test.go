package main_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/precache/contract"
)

// user and password of the private images.
const user, password = "node", "secret"

// imageRegistry is a registry on this machine. Repositories that begin with private need a login.
type imageRegistry struct {
	t *testing.T
	// host and port.
	host string
	// down lets it refuse all requests.
	down atomic.Bool
	// onRequest is called before a request is served.
	onRequest atomic.Pointer[func(*http.Request)]
}

// startRegistry starts a registry with the image of the program, and that of pods' pause containers.
func startRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	r := &imageRegistry{t: t}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if hook := r.onRequest.Load(); hook != nil {
			(*hook)(request)
		}
		given, secret, _ := request.BasicAuth()
		switch {
		case r.down.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		// Some clients send a login only if the registry asks for one at its first address.
		case (request.URL.Path == "/v2/" || strings.HasPrefix(request.URL.Path, "/v2/private")) && (given != user || secret != password):
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "login required", http.StatusUnauthorized)
		default:
			images.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	r.push("pause:1", v1.Config{Entrypoint: []string{"/pause"}}, files{"pause": read(t, pause)})
	r.push("prepare:1", v1.Config{Entrypoint: []string{"/drydock-prepare"}}, files{
		"drydock-prepare": read(t, program), contract.PrecacheProgram[1:]: "-> /drydock-prepare",
	})
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// files of an image, by path. A content that begins with an arrow is a link.
type files map[string]string

// pipe is the content of a named pipe, which blocks each reader.
const pipe = "|"

// push pushes an image with these files, and returns its full name.
func (r *imageRegistry) push(tag string, config v1.Config, content files) string {
	r.t.Helper()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, path := range slices.Sorted(maps.Keys(content)) {
		header := &tar.Header{Name: path, Mode: 0o755, Size: int64(len(content[path])), Typeflag: tar.TypeReg}
		if target, link := strings.CutPrefix(content[path], "-> "); link {
			header.Typeflag, header.Linkname, header.Size = tar.TypeSymlink, target, 0
		}
		if content[path] == pipe {
			header.Typeflag, header.Size = tar.TypeFifo, 0
		}
		require.NoError(r.t, writer.WriteHeader(header))
		if header.Size > 0 {
			_, err := writer.Write([]byte(content[path]))
			require.NoError(r.t, err)
		}
	}
	require.NoError(r.t, writer.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	require.NoError(r.t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(r.t, err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: config, RootFS: rootFS(r.t, image)})
	require.NoError(r.t, err)
	reference, err := name.ParseReference(r.host + "/" + tag)
	require.NoError(r.t, err)
	require.NoError(r.t, remote.Write(reference, image, remote.WithAuth(&authn.Basic{Username: user, Password: password})))
	return reference.String()
}

func rootFS(t *testing.T, image v1.Image) v1.RootFS {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	return config.RootFS
}

// pushSmall pushes images with a file each.
func (r *imageRegistry) pushSmall(tags ...string) []string {
	r.t.Helper()
	var names []string
	for _, tag := range tags {
		names = append(names, r.push(tag, v1.Config{}, files{"content": tag}))
	}
	return names
}

// pushRelease pushes a release image with components: pairs of names and images.
func (r *imageRegistry) pushRelease(tag string, components ...string) string {
	r.t.Helper()
	var tags []string
	for i := 0; i < len(components); i += 2 {
		tags = append(tags, fmt.Sprintf(`{"name": %q, "from": {"kind": "DockerImage", "name": %q}}`, components[i], components[i+1]))
	}
	return r.push(tag, v1.Config{}, files{
		"release-manifests/image-references": fmt.Sprintf(`{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "spec": {"tags": [%s]}}`, strings.Join(tags, ",")),
	})
}

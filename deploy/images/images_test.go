package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/charttest/chroot"
	"drydock.dev/drydock/internal/gobuild"
)

const (
	root    = "../.."
	version = "v1.2.3-test"
)

// architecture is that of the images in tests: of this machine, or as `make test-emulated` sets it.
var architecture = cmp.Or(os.Getenv("IMAGE_ARCHITECTURE"), runtime.GOARCH)

func testBuilder(t *testing.T, out string) builder {
	t.Helper()
	return builder{
		Builder: gobuild.Builder{
			Root: root, Version: version, Created: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), SBOMTool: filepath.Join(root, "bin/tools/cyclonedx-gomod"),
		},
		out: out, revision: "0123abc", platforms: []v1.Platform{{OS: "linux", Architecture: architecture}},
	}
}

// TestImagesRunInAnEmptyRoot builds each image, and runs its program in a root that has only the files of the image, with its environment.
func TestImagesRunInAnEmptyRoot(t *testing.T) {
	out := t.TempDir()
	for _, image := range images {
		t.Run(image.source.Name, func(t *testing.T) {
			dir, err := testBuilder(t, out).build(t.Context(), image)
			require.NoError(t, err)
			built := tagged(t, dir)
			require.NoError(t, validate.Image(built))
			requireConfig(t, built, image)

			unpacked := t.TempDir()
			files := unpack(t, built, unpacked)
			wanted := []string{"etc", "etc/group", "etc/passwd", "etc/ssl", "etc/ssl/certs", rootsFile, image.source.Name}
			for _, link := range image.links {
				for name := strings.TrimPrefix(link, "/"); name != "."; name = filepath.Dir(name) {
					wanted = append(wanted, name)
				}
			}
			require.ElementsMatch(t, wanted, files, "it has nothing else")
			roots := x509.NewCertPool()
			pem, err := os.ReadFile(filepath.Join(unpacked, rootsFile))
			require.NoError(t, err)
			require.True(t, roots.AppendCertsFromPEM(pem))

			config, err := built.ConfigFile()
			require.NoError(t, err)
			command := append(emulator(t, unpacked), config.Config.Entrypoint[0], "--version")
			requireReadOnly(t, unpacked)
			run := chroot.Command(t.Context(), unpacked, command[0], command[1:]...)
			run.Env = config.Config.Env
			output, err := run.CombinedOutput()
			require.NoError(t, err, "%s", output)
			printed := string(output)
			require.Contains(t, printed, image.source.Name+" ")
			require.Contains(t, printed, version)
		})
	}
}

// emulator copies the emulator of the architecture into a root, and returns its path there; nil: this machine needs none.
func emulator(t *testing.T, root string) []string {
	t.Helper()
	if architecture == runtime.GOARCH {
		return nil
	}
	name := "qemu-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture] + "-static"
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, name), program, 0o755))
	return []string{"/" + name}
}

// tagged is the image under the tag of the version, found as container runtimes find it.
func tagged(t *testing.T, dir string) v1.Image {
	t.Helper()
	top, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := top.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, version, manifest.Manifests[0].Annotations[annotationRef])
	built, err := charttest.ImageOf(dir, architecture)
	require.NoError(t, err)
	digest, err := built.Digest()
	require.NoError(t, err)
	requireSBOM(t, top, manifest.Manifests[1:], digest)
	return built
}

// requireSBOM: the SBOM is an artifact whose subject is the image, as registries list it.
func requireSBOM(t *testing.T, top v1.ImageIndex, artifacts []v1.Descriptor, of v1.Hash) {
	t.Helper()
	require.Len(t, artifacts, 1)
	require.Equal(t, mediaTypeSBOM, artifacts[0].ArtifactType)
	artifact, err := top.Image(artifacts[0].Digest)
	require.NoError(t, err)
	manifest, err := artifact.Manifest()
	require.NoError(t, err)
	require.NotNil(t, manifest.Subject)
	require.Equal(t, of, manifest.Subject.Digest)
	layers, err := artifact.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	modules, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Contains(t, string(modules), `"bomFormat": "CycloneDX"`)
	require.Contains(t, string(modules), "pkg:golang/github.com/spf13/cobra@")
	require.Contains(t, string(modules), "pkg:golang/drydock.dev/drydock@"+version)
	require.NotContains(t, string(modules), "(devel)")
}

func requireConfig(t *testing.T, built v1.Image, image image) {
	t.Helper()
	config, err := built.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, image.user, config.Config.User)
	require.Equal(t, []string{"/" + image.source.Name}, config.Config.Entrypoint)
	require.Empty(t, config.Config.Cmd)
	require.Subset(t, config.Config.Env, []string{"HOME=/", "USER=drydock"}, "also another user has a name")
	require.Equal(t, architecture, config.Architecture)
	require.Equal(t, "linux", config.OS)
	require.Equal(t, version, config.Config.Labels["org.opencontainers.image.version"])
	require.Equal(t, "0123abc", config.Config.Labels["org.opencontainers.image.revision"])
	require.NotEmpty(t, config.Config.Labels["org.opencontainers.image.title"])
	size := int64(0)
	layers, err := built.Layers()
	require.NoError(t, err)
	for _, layer := range layers {
		compressed, err := layer.Size()
		require.NoError(t, err)
		size += compressed
	}
	t.Logf("%s: %d MiB compressed", image.source.Name, size>>20)
	require.Less(t, size, int64(image.limit)<<20, "compressed")
}

// unpack writes the files of an image to a directory, and returns their names.
func unpack(t *testing.T, built v1.Image, dir string) []string {
	t.Helper()
	headers, err := charttest.Unpack(built, dir)
	require.NoError(t, err)
	var names []string
	for _, header := range headers {
		names = append(names, header.Name)
		require.Zero(t, header.Uid+header.Gid, header.Name)
		require.False(t, header.Typeflag == tar.TypeReg && header.Mode&0o022 != 0, "%s can be written by others", header.Name)
	}
	return names
}

// requireReadOnly makes the directories of a root read-only.
func requireReadOnly(t *testing.T, dir string) {
	t.Helper()
	change := func(mode fs.FileMode) error {
		return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			return os.Chmod(path, mode)
		})
	}
	require.NoError(t, change(0o555))
	t.Cleanup(func() { _ = change(0o755) })
}

func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	out := t.TempDir()
	index := func() string {
		dir, err := testBuilder(t, out).build(t.Context(), images[0])
		require.NoError(t, err)
		content, err := os.ReadFile(filepath.Join(dir, "index.json"))
		require.NoError(t, err)
		return string(content)
	}
	require.Equal(t, index(), index())
}

func TestPushedImagesHaveTheirSBOM(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	b := testBuilder(t, t.TempDir())
	b.registry = strings.TrimPrefix(server.URL, "http://") + "/drydock"
	pushed, err := b.build(t.Context(), images[0])
	require.NoError(t, err)
	require.Equal(t, b.registry+"/drydock-worker:"+version, pushed)

	reference, err := name.ParseReference(pushed)
	require.NoError(t, err)
	pulled, err := remote.Image(reference, remote.WithPlatform(b.platforms[0]))
	require.NoError(t, err)
	require.NoError(t, validate.Image(pulled))
	digest, err := pulled.Digest()
	require.NoError(t, err)
	referrers, err := remote.Referrers(reference.Context().Digest(digest.String()))
	require.NoError(t, err)
	listed, err := referrers.IndexManifest()
	require.NoError(t, err)
	require.Len(t, listed.Manifests, 1)
	require.Equal(t, mediaTypeSBOM, listed.Manifests[0].ArtifactType)
}

func TestPlatformsThatAreNoneAreRefused(t *testing.T) {
	for _, platform := range []string{"linux", "windows/amd64", "linux/amd64/v1/x", ""} {
		cmd := newCommand()
		cmd.SetArgs([]string{fmt.Sprintf("--platforms=%q", platform)})
		cmd.SetOut(&bytes.Buffer{})
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "--platforms", platform)
	}
}

func TestOnlyOlderLayoutsAreReplaced(t *testing.T) {
	b := builder{out: t.TempDir()}
	dir := filepath.Join(b.out, images[0].source.Name)
	_, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	_, err = b.emptyLayout(images[0])
	require.NoError(t, err)
	require.NoDirExists(t, dir)
	require.NoError(t, os.WriteFile(dir, []byte("a program"), 0o755))
	_, err = b.emptyLayout(images[0])
	require.EqualError(t, err, dir+" exists and is no image layout: move it away, or set --out to another directory")
	require.FileExists(t, dir)
}

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"drydock.dev/drydock/internal/gobuild"
)

const (
	mediaTypeSBOM = "application/vnd.cyclonedx+json"
	// annotationRef has the tag of an image in a layout.
	annotationRef = "org.opencontainers.image.ref.name"
	source        = "https://drydock.dev/drydock"
)

// builder builds images. The same commit gives the same bytes.
type builder struct {
	gobuild.Builder
	out string
	// registry also gets the images, such as registry.example.com/drydock; empty: none does.
	registry  string
	revision  string
	platforms []v1.Platform
}

// build writes the layout of an image: an index with an image for each platform, and with the SBOM of each, which refers to it. It returns where the image is:
// the reference in the registry, or the directory.
func (b builder) build(ctx context.Context, image image) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sboms []mutate.IndexAddendum
	for _, platform := range b.platforms {
		program, err := b.compile(ctx, image, platform)
		if err != nil {
			return "", err
		}
		built, err := b.image(image, program, platform)
		if err != nil {
			return "", err
		}
		described, err := partial.Descriptor(built)
		if err != nil {
			return "", err
		}
		described.Platform = &platform
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: built, Descriptor: *described})
		sbom, err := b.sbom(ctx, program, *described)
		if err != nil {
			return "", err
		}
		sboms = append(sboms, sbom)
	}
	top := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	top = mutate.AppendManifests(top, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{annotationRef: b.Version}}})
	top = mutate.AppendManifests(top, sboms...)
	dir, err := b.emptyLayout(image)
	if err != nil {
		return "", err
	}
	if _, err := layout.Write(dir, top); err != nil || b.registry == "" {
		return dir, err
	}
	return b.push(ctx, image, index, sboms)
}

// emptyLayout removes an older layout of an image. It refuses to remove anything else.
func (b builder) emptyLayout(image image) (string, error) {
	dir := filepath.Join(b.out, image.source.Name)
	if _, err := layout.FromPath(dir); err != nil {
		if _, err := os.Lstat(dir); err == nil {
			return "", fmt.Errorf("%s exists and is no image layout: move it away, or set --out to another directory", dir)
		}
	}
	return dir, os.RemoveAll(dir)
}

// push sends an index to the registry, with the version as its tag, and then the SBOMs. It returns the reference.
func (b builder) push(ctx context.Context, image image, index v1.ImageIndex, sboms []mutate.IndexAddendum) (string, error) {
	tag, err := name.NewTag(b.registry + "/" + image.source.Name + ":" + b.Version)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return "", fmt.Errorf("push %s: %w", tag, err)
	}
	for _, sbom := range sboms {
		artifact := sbom.Add.(v1.Image)
		digest, err := artifact.Digest()
		if err != nil {
			return "", err
		}
		if err := remote.Write(tag.Context().Digest(digest.String()), artifact, options...); err != nil {
			return "", fmt.Errorf("push the SBOM of %s: %w", tag, err)
		}
	}
	return tag.String(), nil
}

// compile returns the path of the compiled program.
func (b builder) compile(ctx context.Context, image image, platform v1.Platform) (string, error) {
	program, err := filepath.Abs(filepath.Join(b.out, "programs", platform.OS+"-"+platform.Architecture, image.source.Name))
	if err != nil {
		return "", err
	}
	return program, b.Compile(ctx, image.source, platform.OS, platform.Architecture, program)
}

// layers has the files of an image: what is the same in all images, and the program.
func layers(image image, program string) ([][]file, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	files := []file{{path: image.source.Name, mode: 0o755, content: content}}
	for _, link := range image.links {
		files = append(files, file{path: strings.TrimPrefix(link, "/"), mode: 0o777, target: "/" + image.source.Name})
	}
	return [][]file{base(), files}, nil
}

func (b builder) image(image image, program string, platform v1.Platform) (v1.Image, error) {
	layers, err := layers(image, program)
	if err != nil {
		return nil, err
	}
	built := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, layer := range layers {
		compressed, err := b.layer(layer)
		if err != nil {
			return nil, err
		}
		if built, err = mutate.Append(built, mutate.Addendum{Layer: compressed, History: v1.History{Created: v1.Time{Time: b.Created}, CreatedBy: "make images"}}); err != nil {
			return nil, err
		}
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant, config.Created = platform.OS, platform.Architecture, platform.Variant, v1.Time{Time: b.Created}
	config.Config = v1.Config{
		User: image.user, Entrypoint: []string{"/" + image.source.Name}, WorkingDir: "/",
		// Temporal's telemetry does not start without HOME and USER. A user that etc/passwd does not have would have none.
		Env:    []string{"PATH=/", "SSL_CERT_FILE=/" + rootsFile, "HOME=/", "USER=drydock"},
		Labels: b.labels(image),
	}
	if built, err = mutate.ConfigFile(built, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(built, b.labels(image)).(v1.Image), nil
}

func (b builder) labels(image image) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       image.title,
		"org.opencontainers.image.description": image.description,
		"org.opencontainers.image.version":     b.Version,
		"org.opencontainers.image.created":     b.Created.Format(time.RFC3339),
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
	if b.revision != "" {
		labels["org.opencontainers.image.revision"] = b.revision
	}
	return labels
}

// sbom is the list of the modules in a program, as an artifact that refers to its image.
func (b builder) sbom(ctx context.Context, program string, of v1.Descriptor) (mutate.IndexAddendum, error) {
	modules, err := b.SBOM(ctx, program)
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mediaTypeSBOM)
	artifact, err = mutate.Append(artifact, mutate.Addendum{Layer: static.NewLayer(modules, mediaTypeSBOM)})
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	of.Platform = nil
	artifact = mutate.Subject(artifact, of).(v1.Image)
	return mutate.IndexAddendum{Add: artifact, Descriptor: v1.Descriptor{ArtifactType: mediaTypeSBOM}}, nil
}

// file is a file of a layer: with content, or with a target as a link.
type file struct {
	path    string
	mode    int64
	content []byte
	target  string
}

// layer packs files and their directories, which belong to root and cannot be written by others.
func (b builder) layer(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	known := map[string]bool{".": true}
	var directory func(string) error
	directory = func(name string) error {
		if known[name] {
			return nil
		}
		known[name] = true
		if err := directory(path.Dir(name)); err != nil {
			return err
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: b.Created})
	}
	for _, f := range files {
		if err := directory(path.Dir(f.path)); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: b.Created}
		if f.target != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.target
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

package charttest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// ImageOf returns the image for Linux and an architecture in an OCI layout of deploy/images, found as container runtimes find it.
func ImageOf(dir, architecture string) (v1.Image, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	platforms, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	listed, err := platforms.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, one := range listed.Manifests {
		if one.Platform.OS == "linux" && one.Platform.Architecture == architecture {
			return platforms.Image(one.Digest)
		}
	}
	return nil, fmt.Errorf("%s has no image for linux/%s", dir, architecture)
}

// Unpack writes the files of an image to a directory, and returns their headers.
func Unpack(image v1.Image, dir string) ([]*tar.Header, error) {
	packed := mutate.Extract(image)
	defer packed.Close()
	var headers []*tar.Header
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, nil
		}
		if err != nil {
			return nil, err
		}
		headers = append(headers, header)
		if err := unpackFile(archive, header, filepath.Join(dir, header.Name)); err != nil {
			return nil, err
		}
	}
}

func unpackFile(content io.Reader, header *tar.Header, path string) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	case tar.TypeReg:
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(header.Mode))
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	}
	return fmt.Errorf("%s has type %c", header.Name, header.Typeflag)
}

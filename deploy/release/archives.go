package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drydock.dev/drydock/internal/gobuild"
)

// archive writes the archive of a program for a platform, and its SBOM.
func (r release) archive(ctx context.Context, program gobuild.Program, platform string) error {
	system, architecture, _ := strings.Cut(platform, "/")
	dir, err := os.MkdirTemp("", "drydock-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	compiled := filepath.Join(dir, program.Name)
	if err := r.Compile(ctx, program, system, architecture, compiled); err != nil {
		return err
	}
	sbom, err := r.SBOM(ctx, compiled)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s_%s_%s_%s", program.Name, r.number, system, architecture)
	if err := r.write(name+".cdx.json", sbom); err != nil {
		return err
	}
	return r.compress(name+".tar.gz", func(files *tar.Writer) error {
		return errors.Join(r.add(files, program.Name, compiled, 0o755), r.add(files, "LICENSE", filepath.Join(r.Root, "LICENSE"), 0o644))
	})
}

// compress writes a compressed archive.
func (r release) compress(name string, fill func(*tar.Writer) error) error {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	files := tar.NewWriter(compressed)
	if err := fill(files); err != nil {
		return err
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		return err
	}
	return r.write(name, packed.Bytes())
}

// add adds a file to an archive.
func (r release) add(to *tar.Writer, name, path string, mode int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return r.addContent(to, name, file, info.Size(), mode)
}

// addContent adds a file to an archive, without anything of this machine.
func (r release) addContent(to *tar.Writer, name string, content io.Reader, size, mode int64) error {
	if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: r.Created, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := io.Copy(to, content)
	return err
}

func (r release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// packChart packs the chart again, with the registry of its images: Helm's package has the times and modes of the checkout.
func (r release) packChart() error {
	if r.chart == "" {
		return nil
	}
	file, err := os.Open(r.chart)
	if err != nil {
		return fmt.Errorf("--chart: %w", err)
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("--chart %s: %w", r.chart, err)
	}
	return r.compress(filepath.Base(r.chart), func(files *tar.Writer) error {
		for packed := tar.NewReader(content); ; {
			header, err := packed.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("--chart %s: %w", r.chart, err)
			}
			text, err := io.ReadAll(packed)
			if err != nil {
				return fmt.Errorf("--chart %s: %w", r.chart, err)
			}
			if header.Name == "drydock/values.yaml" && r.registry != "" {
				if text, err = r.setRegistry(text); err != nil {
					return fmt.Errorf("--chart %s: %w", r.chart, err)
				}
			}
			if err := r.addContent(files, header.Name, bytes.NewReader(text), int64(len(text)), 0o644); err != nil {
				return err
			}
		}
	})
}

// setRegistry sets image.registry in the values of the chart, which keep their comments.
func (r release) setRegistry(values []byte) ([]byte, error) {
	unset := []byte("\n  registry: \"\"\n")
	if bytes.Count(values, unset) != 1 {
		return nil, fmt.Errorf("values.yaml does not have one line%s", unset)
	}
	return bytes.Replace(values, unset, fmt.Appendf(nil, "\n  registry: %q\n", r.registry), 1), nil
}

// packImages packs each image layout into a file, which registries' tools read as an OCI archive.
func (r release) packImages() error {
	if r.images == "" {
		return nil
	}
	layouts, err := filepath.Glob(filepath.Join(r.images, "*", "oci-layout"))
	if err != nil || len(layouts) == 0 {
		return fmt.Errorf("--images %s: no image layout: %w", r.images, fs.ErrNotExist)
	}
	for _, layout := range layouts {
		dir := filepath.Dir(layout)
		file, err := os.Create(filepath.Join(r.out, fmt.Sprintf("%s_%s_image.tar", filepath.Base(dir), r.number)))
		if err != nil {
			return err
		}
		packed := tar.NewWriter(file)
		err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			return r.add(packed, filepath.ToSlash(name), path, 0o644)
		})
		if err == nil {
			err = packed.Close()
		}
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", dir, err)
		}
	}
	return nil
}

// checksums writes the checksums of all files so far, and returns them by name.
func (r release) checksums() (map[string]string, error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	sums, lines := map[string]string{}, []string{}
	for _, entry := range entries {
		sum, err := checksum(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return nil, err
		}
		sums[entry.Name()] = sum
		lines = append(lines, sum+"  "+entry.Name()+"\n")
	}
	return sums, r.write("checksums.txt", []byte(strings.Join(lines, "")))
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

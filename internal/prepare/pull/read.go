package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"drydock.dev/drydock/internal/prepare/content"
	"drydock.dev/drydock/internal/prepare/host"
)

// Commands of this program that run in the root file system of an image.
const (
	ReadReleaseCommand = "read-release"
	ReadCatalogCommand = "read-catalog"
)

// Files in the directory that this program shares with the container of an image.
const (
	programFile = "drydock-prepare"
	resultFile  = "result.json"
	errorFile   = "error"
)

// scratchDirectories are directories of the node that the Job mounts. Some nodes let no program run in some of them.
var scratchDirectories = []string{"/var/tmp", "/tmp", "/var/lib/containers"}

// catalog finds the wanted packages in an index image.
func (p *precaching) catalog(ctx context.Context, name string) ([]content.Bundle, error) {
	image, err := p.ensure(ctx, name)
	if err != nil {
		return nil, err
	}
	directory := image.Labels[content.CatalogLabel]
	if directory == "" {
		if image.Labels[content.DatabaseLabel] != "" {
			return nil, fmt.Errorf("%s is an SQLite database; migrate it to a file-based catalog (opm migrate)", name)
		}
		directory = "/configs"
	}
	arguments := []string{ReadCatalogCommand, directory}
	for _, wanted := range p.config.Packages {
		arguments = append(arguments, wanted.String())
	}
	var bundles []content.Bundle
	if err := p.read(ctx, name, &bundles, arguments...); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return bundles, nil
}

// read runs a command of this program in the root file system of an image. The Container Runtime Interface has no other way to files of an image, and
// the image may have no program of its own, such as tar or a shell.
func (p *precaching) read(ctx context.Context, image string, result any, command ...string) (err error) {
	directory, err := p.scratchDirectory()
	if err != nil {
		return err
	}
	scratch, err := host.NewScratch(p.root.Path(directory), "drydock-precache-")
	if err != nil {
		return fmt.Errorf("share a directory with a container: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	if err := copyProgram(filepath.Join(scratch.Path, programFile)); err != nil {
		return fmt.Errorf("share this program with a container: %w", err)
	}
	onNode := filepath.Join(directory, filepath.Base(scratch.Path))
	command = append([]string{filepath.Join(onNode, programFile), command[0], onNode}, command[1:]...)
	err = p.runtime.Run(ctx, p.settings.Pod, image, onNode, command...)
	if message, unread := os.ReadFile(filepath.Join(scratch.Path, errorFile)); unread == nil {
		return errors.New(string(message))
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(scratch.Path, resultFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, result)
}

func (p *precaching) scratchDirectory() (string, error) {
	for _, directory := range scratchDirectories {
		if host.AllowsPrograms(p.root.Path(directory)) {
			return directory, nil
		}
	}
	return "", fmt.Errorf("this program must be run in a container of an image, but the node lets no program run in any of %s (they are missing, or mounted noexec)", strings.Join(scratchDirectories, ", "))
}

func copyProgram(to string) error {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, program)
	return errors.Join(err, file.Close())
}

// ReadRelease reads the components of the release image in whose root file system it runs, and writes them to a shared directory.
func ReadRelease(shared string) error {
	return share(shared, func() (any, error) {
		file, err := os.Open(content.ReleaseFile)
		if err != nil {
			return nil, fmt.Errorf("it is no release image: %w", err)
		}
		defer file.Close()
		components, err := content.ReadRelease(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", content.ReleaseFile, err)
		}
		return components, nil
	})
}

// ReadCatalog reads the wanted packages in the index image in whose root file system it runs, and writes them to a shared directory.
func ReadCatalog(shared, directory string, wanted []content.Package) error {
	return share(shared, func() (any, error) {
		if _, err := os.Stat(directory); err != nil {
			return nil, fmt.Errorf("it has no file-based catalog: %w", err)
		}
		return content.ReadCatalog(os.DirFS(directory), wanted)
	})
}

// share writes a result or its error to a shared directory.
func share(directory string, read func() (any, error)) error {
	result, err := read()
	if err != nil {
		return errors.Join(err, os.WriteFile(filepath.Join(directory, errorFile), []byte(err.Error()), 0o600))
	}
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, resultFile), data, 0o600)
}

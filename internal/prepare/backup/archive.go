package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// archive is a compressed tar archive of trees of the node.
type archive struct {
	// name of the file in the backup.
	name  string
	trees []tree
}

// tree is a directory or file.
type tree struct {
	// base is the directory in this container to which names in the archive are relative.
	base string
	name string
}

// size is the size of the regular files.
func (a archive) size() (uint64, error) {
	var size uint64
	err := a.walk(func(_, _ string, info fs.FileInfo) error {
		if info.Mode().IsRegular() {
			size += uint64(info.Size())
		}
		return nil
	})
	return size, err
}

// walk visits all files of the archive, in the same order each time. Like tar with --one-file-system, it does not descend into other file systems:
// volumes of pods are mounted below the kubelet's directory. Files that are removed meanwhile are left out.
func (a archive) walk(visit func(path, name string, info fs.FileInfo) error) error {
	for _, tree := range a.trees {
		top, err := os.Lstat(filepath.Join(tree.base, tree.name))
		if err != nil {
			return err
		}
		err = filepath.WalkDir(filepath.Join(tree.base, tree.name), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(tree.base, path)
			switch {
			case err != nil:
				return err
			case stat(info).Dev != stat(top).Dev && info.IsDir():
				// The mount point itself belongs to this file system.
				if err := visit(path, name, info); err != nil {
					return err
				}
				return fs.SkipDir
			case stat(info).Dev != stat(top).Dev || info.Mode().Type() == fs.ModeSocket:
				return nil
			}
			return visit(path, name, info)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// archiveWriter writes files with owners, permissions, times, extended attributes and links.
type archiveWriter struct {
	*tar.Writer
	// links are the names of files that have several, by device and inode.
	links map[[2]uint64]string
	warn  func(format string, values ...any)
}

// writeArchive writes an archive into the backup, and to disk.
func (r *run) writeArchive(ctx context.Context, a archive) (err error) {
	file, err := os.OpenFile(filepath.Join(r.directory, a.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := archiveWriter{Writer: tar.NewWriter(compressed), links: map[[2]uint64]string{}, warn: r.printf}
	err = a.walk(func(path, name string, info fs.FileInfo) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.add(path, name, info); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return r.add(a.name)
}

func (w archiveWriter) add(path, name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return w.addRegular(path, name)
	}
	target := ""
	if info.Mode().Type() == fs.ModeSymlink {
		var err error
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := headerOf(path, name, target, info)
	if err != nil {
		return err
	}
	return w.WriteHeader(header)
}

func (w archiveWriter) addRegular(path, name string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header, err := headerOf(path, name, "", info)
	if err != nil {
		return err
	}
	if status := stat(info); status.Nlink > 1 {
		inode := [2]uint64{status.Dev, status.Ino}
		if first, written := w.links[inode]; written {
			header.Typeflag, header.Linkname, header.Size, header.PAXRecords = tar.TypeLink, first, 0, nil
			return w.WriteHeader(header)
		}
		w.links[inode] = name
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	written, err := io.CopyN(w, file, header.Size)
	if !errors.Is(err, io.EOF) {
		return err
	}
	// The header promises a size. tar pads, too.
	w.warn("%s shrank while it was copied: zeros replace its last %d bytes", name, header.Size-written)
	_, err = io.CopyN(w, zeros{}, header.Size-written)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// headerOf describes a file. Owners are numbers: the names of this container's users are not those of the node.
func headerOf(path, name, target string, info fs.FileInfo) (*tar.Header, error) {
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	header.Format, header.Name, header.Uname, header.Gname = tar.FormatPAX, name, "", ""
	if info.IsDir() {
		header.Name += "/"
	}
	header.PAXRecords, err = attributes(path)
	return header, err
}

// attributes are the extended attributes of a file, in the form that GNU tar reads with --xattrs.
func attributes(path string) (map[string]string, error) {
	names, err := readAttribute(func(buffer []byte) (int, error) { return unix.Llistxattr(path, buffer) })
	if err != nil || len(names) == 0 {
		return nil, attributeError("list", path, err)
	}
	records := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		value, err := readAttribute(func(buffer []byte) (int, error) { return unix.Lgetxattr(path, name, buffer) })
		if err == nil {
			records["SCHILY.xattr."+name] = string(value)
		} else if err := attributeError("read "+name, path, err); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// attributeError is nil if a file system has no extended attributes, or an attribute was removed meanwhile.
func attributeError(operation, path string, err error) error {
	if err == nil || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENODATA) {
		return nil
	}
	return &os.PathError{Op: operation + " of the extended attributes", Path: path, Err: err}
}

// readAttribute reads what may grow between the question for its size and the read.
func readAttribute(read func(buffer []byte) (int, error)) ([]byte, error) {
	for {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buffer := make([]byte, size)
		if size, err = read(buffer); !errors.Is(err, unix.ERANGE) {
			return buffer[:max(size, 0)], err
		}
	}
}

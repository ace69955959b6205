// Package host reads and writes the node of a Job through the directories that the Job mounts.
package host

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root is where the directories of the node are mounted.
type Root string

// Path returns where a path of the node is in this container. What is not mounted is reached through the node's procfs: the root directory of
// its first process is that of the node.
func (r Root) Path(path string) string {
	mounted, through := filepath.Join(string(r), path), filepath.Join(string(r), "proc/1/root", path)
	if !exists(mounted) && exists(through) {
		return through
	}
	return mounted
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Space is the size of a file system, in bytes.
type Space struct {
	Size uint64
	Used uint64
	// Available is what may be written. Some file systems reserve a part of what is not used.
	Available uint64
}

// SpaceAt returns the space of the file system of a path in this container.
func SpaceAt(path string) (Space, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	block := uint64(stat.Frsize)
	return Space{Size: stat.Blocks * block, Used: (stat.Blocks - stat.Bfree) * block, Available: stat.Bavail * block}, nil
}

// AllowsPrograms reports whether a directory exists and programs may be run in it.
func AllowsPrograms(directory string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(directory, &stat) == nil && stat.Flags&unix.ST_NOEXEC == 0 && stat.Flags&unix.ST_RDONLY == 0
}

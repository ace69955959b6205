package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Scratch is a directory for unfinished work. It is locked as long as its process lives, so that the next one can remove what a killed one left.
type Scratch struct {
	Path string
	lock *os.File
}

// NewScratch creates a directory in parent whose name begins with prefix, and removes those of processes that are gone.
func NewScratch(parent, prefix string) (*Scratch, error) {
	if err := removeUnlocked(parent, prefix); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	lock, locked, err := tryLock(path)
	if err == nil && !locked {
		err = fmt.Errorf("%s: another process has just begun to remove it; try again", path)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Scratch{Path: path, lock: lock}, nil
}

// Close removes and unlocks the directory.
func (s *Scratch) Close() error {
	return errors.Join(os.RemoveAll(s.Path), s.lock.Close())
}

// Keep gives the finished directory its final name, which must not exist. It is on disk then. Close does nothing afterwards.
func (s *Scratch) Keep(path string) error {
	if err := s.lock.Sync(); err != nil {
		return err
	}
	if err := os.Rename(s.Path, path); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// SyncDirectory writes the names in a directory to disk.
func SyncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func removeUnlocked(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		lock, locked, err := tryLock(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && !locked {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(path), lock.Close()); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	return nil
}

// tryLock locks a directory if no other process has.
func tryLock(path string) (*os.File, bool, error) {
	directory, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(directory.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return directory, true, nil
	}
	if closed := directory.Close(); closed != nil {
		return nil, false, closed
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
}

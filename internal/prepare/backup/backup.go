// Package backup backs up a control-plane node: etcd, and the files from which its control plane runs.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"drydock.dev/drydock/internal/precache/contract"
	"drydock.dev/drydock/internal/prepare/host"
)

// Settings of a run, from the environment.
type Settings struct {
	// Host is where the directories of the node are.
	Host host.Root
	// NodeName and NodeIP are those of the node.
	NodeName, NodeIP string
	// Etcd replaces what is found on the node.
	Etcd Etcd
}

const (
	// finished begins the names of whole backups, and unfinished those of others.
	finished   = "backup-"
	unfinished = ".unfinished-"
	// timeInName is how the names of whole backups tell when they were begun.
	timeInName = "20060102T150405.000Z"
	// progressFile exists while a person restores the node, as with TALM. A restored etcd has the Job of the backup, which then runs again.
	progressFile = "progress"
	// clusterDirectory of a backup has what OpenShift's cluster-restore.sh takes.
	clusterDirectory = "cluster"
	sumsFile         = "SHA256SUMS"
)

// run is a backup that is being written.
type run struct {
	settings Settings
	root     host.Root
	recovery string
	started  time.Time
	etcd     *etcdMember
	// directory of the unfinished backup.
	directory string
	sums      []string
	out       io.Writer
}

// Run writes a backup to the node, and then removes those that were there before. It reports its progress to out.
func Run(ctx context.Context, settings Settings, out io.Writer) error {
	r := &run{settings: settings, root: settings.Host, recovery: settings.Host.Path(contract.RecoveryDirectory), started: time.Now().UTC(), out: out}
	if _, err := os.Stat(filepath.Join(r.recovery, progressFile)); err == nil {
		return fmt.Errorf("no backup: %s/%s says that the node is being restored; remove it when that is done", contract.RecoveryDirectory, progressFile)
	}
	// Listed first: another run may end during this one, and its backup is not older.
	older, err := r.backups()
	if err != nil {
		return err
	}
	archives, err := r.archives()
	if err != nil {
		return err
	}
	if r.etcd, err = connectEtcd(ctx, settings); err != nil {
		return err
	}
	defer r.etcd.Close()
	if err := r.checkSpace(archives); err != nil {
		return err
	}
	scratch, err := host.NewScratch(r.recovery, unfinished)
	if err != nil {
		return err
	}
	r.directory = scratch.Path
	name := finished + r.started.Format(timeInName)
	err = r.write(ctx, archives)
	if err == nil {
		err = scratch.Keep(filepath.Join(r.recovery, name))
	}
	// After Keep there is no directory of this name.
	if closed := scratch.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := r.removeOlder(older); err != nil {
		return err
	}
	r.printf("backup complete: %s/%s", contract.RecoveryDirectory, name)
	return nil
}

func (r *run) printf(format string, values ...any) { fmt.Fprintf(r.out, format+"\n", values...) }

// write writes the whole backup into its directory, and to disk.
func (r *run) write(ctx context.Context, archives []archive) error {
	if err := os.Mkdir(filepath.Join(r.directory, clusterDirectory), 0o700); err != nil {
		return err
	}
	// The snapshot comes first: files that are newer than it are harmless, but not the reverse.
	snapshot := filepath.Join(clusterDirectory, "snapshot_"+r.stamp()+".db")
	if err := r.etcd.save(ctx, filepath.Join(r.directory, snapshot)); err != nil {
		return err
	}
	if err := r.add(snapshot); err != nil {
		return err
	}
	for _, a := range archives {
		if err := r.writeArchive(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	if err := writeSynced(filepath.Join(r.directory, sumsFile), strings.Join(r.sums, "")); err != nil {
		return err
	}
	return host.SyncDirectory(filepath.Join(r.directory, clusterDirectory))
}

// stamp is the time in the names of files, as OpenShift's cluster-backup.sh writes it.
func (r *run) stamp() string { return r.started.Format("2006-01-02_150405") }

// add adds a file of the backup to the checksums.
func (r *run) add(name string) error {
	sum, size, err := checksum(filepath.Join(r.directory, name))
	if err != nil {
		return err
	}
	r.sums = append(r.sums, fmt.Sprintf("%s  %s\n", sum, name))
	r.printf("%s: %d bytes", name, size)
	return nil
}

func writeSynced(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// checkSpace fails if the backup may not fit beside the older one, which stays until this one is whole.
func (r *run) checkSpace(archives []archive) error {
	required := uint64(r.etcd.size)
	for _, a := range archives {
		size, err := a.size()
		if err != nil {
			return fmt.Errorf("size of %s: %w", a.name, err)
		}
		required += size
	}
	// Files grow while they are copied.
	required += required / 10
	space, err := host.SpaceAt(r.recovery)
	if err != nil {
		return err
	}
	r.printf("%s: %s available, at most %s required", contract.RecoveryDirectory, humanize.IBytes(space.Available), humanize.IBytes(required))
	if space.Available < required {
		return fmt.Errorf("not enough space for a backup: %s has %s available, but %s are required beside what is there", contract.RecoveryDirectory, humanize.IBytes(space.Available), humanize.IBytes(required))
	}
	return nil
}

// backups are the names of the whole backups on the node. A directory with another form of name is a person's.
func (r *run) backups() ([]string, error) {
	entries, err := os.ReadDir(r.recovery)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		stamp, found := strings.CutPrefix(entry.Name(), finished)
		if _, err := time.Parse(timeInName, stamp); found && err == nil && entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// removeOlder removes whole backups, unless another run has done so.
func (r *run) removeOlder(names []string) error {
	for _, name := range names {
		switch err := r.remove(name); {
		case err == nil:
			r.printf("removed the older backup %s", name)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("remove an older backup: %w", err)
		}
	}
	return nil
}

// remove removes a whole backup. Killed half-way, it leaves an unfinished one, which the next run removes.
func (r *run) remove(name string) error {
	removed := filepath.Join(r.recovery, unfinished+name)
	if err := os.Rename(filepath.Join(r.recovery, name), removed); err != nil {
		return err
	}
	if err := host.SyncDirectory(r.recovery); err != nil {
		return err
	}
	return os.RemoveAll(removed)
}

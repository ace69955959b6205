package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	_ "modernc.org/sqlite" // the driver that Temporal uses, too

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/restored"
)

// databaseFile is the name of the database in the directory of --data. Its journal files have this name, and an ending.
const databaseFile = "temporal.db"

// restoredFile is in the directory of --data from a restore until every cluster is held, and has the reason of the hold.
const restoredFile = "restored"

func newBackupCommand() *cobra.Command {
	var data, to string
	cmd := &cobra.Command{
		Use:   "backup --data DIRECTORY --to FILE",
		Short: "Write a backup of the database, also while it is used",
		Example: `  # on a machine
  drydock-standalone backup --data ~/drydock --to drydock-backup.db

  # of a pod
  kubectl -n drydock-system exec drydock-0 -- /drydock-standalone backup --data /data --to - > drydock-backup.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "-" {
				return backUpTo(cmd.Context(), data, cmd.OutOrStdout())
			}
			if err := backUp(cmd.Context(), filepath.Join(data, databaseFile), to); err != nil {
				return fmt.Errorf("back up %s: %w", data, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is a backup of %s\n", to, data)
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "directory of the database (required)")
	cmd.Flags().StringVar(&to, "to", "", "the backup, which must not exist, or - for standard output (required)")
	requireFlags(cmd, "data", "to")
	return cmd
}

func newRestoreCommand() *cobra.Command {
	var data, from string
	cmd := &cobra.Command{
		Use:   "restore --data DIRECTORY --from FILE",
		Short: "Replace the database by a backup, while no process uses it",
		Long: `Replace the database by a backup, while no process uses it. The database that was there stays beside it.

A restored backup knows nothing of what happened after it: work that ended since then would continue from where it was. Therefore the next start holds
every cluster, as drydock hold --all --restored does, before anything continues. Cancel what is over, and then run drydock release --all.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			unlock, err := lock(data)
			if err != nil {
				return fmt.Errorf("--data: %w", err)
			}
			defer unlock()
			before, err := restore(cmd.Context(), from, data)
			if err != nil {
				return fmt.Errorf("restore %s: %w", from, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is restored from %s; the next start holds every cluster, until `drydock release --all`\n", data, from)
			if before != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "the database that was there is %s\n", before)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "directory of the database (required)")
	cmd.Flags().StringVar(&from, "from", "", "the backup (required)")
	requireFlags(cmd, "data", "from")
	return cmd
}

// backUp writes what a database has at one time. A file named as the backup is a whole one.
func backUp(ctx context.Context, database, to string) error {
	if _, err := os.Stat(to); err == nil {
		return fmt.Errorf("--to: %s exists", to)
	}
	unfinished := to + ".new"
	if err := remove(unfinished); err != nil {
		return err
	}
	opened, err := openExisting(database)
	if err != nil {
		return err
	}
	defer opened.Close()
	if _, err := opened.ExecContext(ctx, "VACUUM INTO ?", unfinished); err != nil {
		return err
	}
	if err := onDisk(unfinished); err != nil {
		return err
	}
	return place(unfinished, to)
}

// backUpTo writes a backup to a stream.
func backUpTo(ctx context.Context, data string, to io.Writer) error {
	temporary := filepath.Join(data, "backup-in-progress.db")
	defer func() { _ = remove(temporary) }()
	if err := errors.Join(remove(temporary), backUp(ctx, filepath.Join(data, databaseFile), temporary)); err != nil {
		return fmt.Errorf("back up %s: %w", data, err)
	}
	file, err := os.Open(temporary)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}

// restore replaces the database of a directory by a backup, and returns the name that the database got that was there. If it is killed, the database is the
// old one or the backup.
func restore(ctx context.Context, from, data string) (before string, err error) {
	database := filepath.Join(data, databaseFile)
	unfinished := database + ".restored"
	if err := remove(unfinished); err != nil {
		return "", err
	}
	if err := backUp(ctx, from, unfinished); err != nil {
		return "", err
	}
	if err := check(ctx, unfinished); err != nil {
		return "", errors.Join(fmt.Errorf("--from: %w", err), remove(unfinished))
	}
	switch _, err := os.Stat(database); {
	case errors.Is(err, os.ErrNotExist): // the journal of a database that was moved away would damage the restored one
		if err := errors.Join(remove(database+"-wal"), remove(database+"-shm")); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		if err := closeJournal(ctx, database); err != nil {
			return "", fmt.Errorf("the database that is there: %w; move it away, with the files %s-wal and %s-shm", err, databaseFile, databaseFile)
		}
		before = filepath.Join(filepath.Dir(database), "before-"+time.Now().UTC().Format("20060102T150405Z")+".db")
		if err := os.Link(database, before); err != nil {
			return "", err
		}
	}
	if err := writeRestored(data, "restored from the backup "+filepath.Base(from)); err != nil {
		return "", err
	}
	return before, place(unfinished, database)
}

func writeRestored(data, reason string) error {
	path := filepath.Join(data, restoredFile)
	if err := os.WriteFile(path+".new", []byte(reason), 0o600); err != nil {
		return err
	}
	if err := onDisk(path + ".new"); err != nil {
		return err
	}
	return place(path+".new", path)
}

// holdIfRestored holds every cluster if the database was restored and nothing has run on it since.
func holdIfRestored(ctx context.Context, data string, server client.Client, log *slog.Logger) error {
	path := filepath.Join(data, restoredFile)
	reason, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	notified, err := restored.Hold(ctx, server, emergency.Request{Actor: "drydock-standalone restore", Reason: string(reason)})
	if err != nil {
		return fmt.Errorf("hold every cluster after the restore: %w", err)
	}
	log.Warn("every cluster is held after the restore: cancel what is over, and then run drydock release --all", "workflows", notified)
	return remove(path)
}

// closeJournal writes the journal into the database that it belongs to. It would damage another one.
func closeJournal(ctx context.Context, database string) error {
	opened, err := openExisting(database)
	if err != nil {
		return err
	}
	var busy, frames, written int
	err = opened.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &written)
	if err == nil && busy != 0 {
		err = errors.New("another process uses it")
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	return errors.Join(remove(database+"-wal"), remove(database+"-shm"))
}

// openExisting opens a database that must exist. Statements wait while another process writes.
func openExisting(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: absolute, RawQuery: "_pragma=busy_timeout(30000)"}).String())
}

// check refuses a file that is damaged, or has other tables than Temporal's.
func check(ctx context.Context, path string) error {
	opened, err := openExisting(path)
	if err != nil {
		return err
	}
	defer opened.Close()
	var state string
	if err := opened.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&state); err != nil {
		return err
	}
	if state != "ok" {
		return errors.New("is damaged: " + state)
	}
	var namespaces int
	if err := opened.QueryRowContext(ctx, "SELECT count(*) FROM namespaces").Scan(&namespaces); err != nil {
		return fmt.Errorf("is no database of drydock-standalone: %w", err)
	}
	return nil
}

// onDisk returns when a file is on the disk.
func onDisk(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// place renames a file, also on the disk.
func place(path, to string) error {
	if err := os.Rename(path, to); err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// requireFlags marks flags of a command as required.
func requireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagRequired(name)
	}
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

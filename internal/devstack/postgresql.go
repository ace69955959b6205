package devstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// postgreSQL is a PostgreSQL server of the system, such as Debian's.
type postgreSQL struct {
	process *Process
	port    int
	data    string
	// programs is the directory of its programs.
	programs string
}

// postgresUser is its superuser, who needs no password.
const postgresUser = "temporal"

// newPostgreSQL prepares the server. Nothing runs yet.
func (s *Stack) newPostgreSQL() (*postgreSQL, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	port, err := s.ports.reserve()
	if err != nil {
		return nil, fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	p := &postgreSQL{port: port, data: filepath.Join(s.Dir, "postgresql"), programs: programs}
	p.process = s.process("", "postgresql", []string{
		"-D", p.data,
		"-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=",
		"-c", "max_connections=200", // each service of Temporal has two pools
		"-c", "fsync=off", // the data may be lost in a power failure
		"-c", "log_min_messages=warning",
	}, p.accepts)
	p.process.path = installedAt(filepath.Join(programs, "postgres"))
	p.process.shutdown = syscall.SIGINT // its fast shutdown does not wait for clients
	p.process.crash = syscall.SIGQUIT   // after its immediate shutdown, the next start recovers as after a crash, but no shared memory is left behind
	if p.process.user, err = postgresAccount(); err != nil {
		return nil, err
	}
	if p.process.user == nil {
		return p, os.Mkdir(p.data, 0o700)
	}
	return p, errors.Join(os.Chmod(s.Dir, 0o711), os.Mkdir(p.data, 0o700), os.Chown(p.data, int(p.process.user.Uid), int(p.process.user.Gid)))
}

// postgresPrograms is the directory of the newest PostgreSQL. Debian has one for each version, and none on PATH.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, errors.New("PostgreSQL is not installed: apt-get install postgresql"))
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// postgresAccount is the account that PostgreSQL runs as: it refuses to run as root.
func postgresAccount() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("run PostgreSQL as another user than root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}

// start creates the database files and starts the server.
func (p *postgreSQL) start(ctx context.Context) error {
	initialize := exec.CommandContext(ctx, filepath.Join(p.programs, "initdb"), "-D", p.data, "-U", postgresUser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	initialize.Dir, initialize.SysProcAttr = p.data, &syscall.SysProcAttr{Credential: p.process.user}
	if output, err := initialize.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(string(output), 15))
	}
	return p.process.Start(ctx)
}

// accepts reports an error while the server does not accept connections, as during the recovery after a crash.
func (p *postgreSQL) accepts(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, filepath.Join(p.programs, "pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(p.port)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// databases are those of Temporal, with the directories of their schemas.
var databases = map[string]string{"temporal": "postgresql/v12/temporal", "temporal_visibility": "postgresql/v12/visibility"}

// BackUp writes dumps of the databases to a directory, while Temporal runs: that of visibility last, so that it misses no workflow.
func (t *Temporal) BackUp(ctx context.Context, dir string) error {
	for _, database := range slices.Sorted(maps.Keys(databases)) {
		if _, err := t.postgres.run(ctx, "pg_dump", "-Fc", "-f", filepath.Join(dir, database+".dump"), database); err != nil {
			return err
		}
	}
	return nil
}

// Restore replaces the databases by the dumps of BackUp, while Temporal's services do not run.
func (t *Temporal) Restore(ctx context.Context, dir string) error {
	for database := range databases {
		if _, err := t.postgres.run(ctx, "pg_restore", "--clean", "--if-exists", "-d", database, filepath.Join(dir, database+".dump")); err != nil {
			return err
		}
	}
	return nil
}

// run runs a client program of PostgreSQL, and returns its output.
func (p *postgreSQL) run(ctx context.Context, program string, args ...string) (string, error) {
	args = append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", postgresUser}, args...)
	output, err := exec.CommandContext(ctx, filepath.Join(p.programs, program), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, lastLines(string(output), 15))
	}
	return strings.TrimSpace(string(output)), nil
}

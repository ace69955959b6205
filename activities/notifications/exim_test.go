package notifications

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// exim is Debian's Exim. It keeps the e-mails that it takes in its queue, and adds a header with their envelope.
type exim struct {
	// address of the server, by its IP address and by its name.
	address, named string
	// caFile has the certificate of its CA.
	caFile  string
	program string
	dir     string
	account *syscall.Credential
}

const eximConfig = `
spool_directory = DIR/spool
log_file_path = DIR/%slog
keep_environment =
queue_only = true
primary_hostname = mail.example.com
host_lookup =
acl_smtp_rcpt = recipient
acl_smtp_data = data
tls_certificate = DIR/certificate
tls_privatekey = DIR/key
OPTIONS

begin acl
recipient:
  deny local_parts = gone
       message = there is no such mailbox
  RECIPIENT
  accept
data:
  accept add_header = X-Envelope: $received_protocol $sender_helo_name $authenticated_id $sender_address $recipients

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{eq{$auth2}{drydock}}{eq{$auth3}{s3cret}}}}
  server_set_id = $auth2
  server_advertise_condition = ${if def:tls_in_cipher}
`

// The kinds of servers.
var (
	// withPassword requires TLS and a password.
	withPassword = []string{"OPTIONS", "tls_advertise_hosts = *", "RECIPIENT", "require authenticated = *"}
	// withoutTLS knows neither.
	withoutTLS = []string{"OPTIONS", "tls_advertise_hosts =", "RECIPIENT", ""}
)

// startExim accepts connections until the test ends, and starts an Exim for each, as inetd does.
func startExim(t *testing.T, kind []string, args ...string) *exim {
	t.Helper()
	devstacktest.NeedServers(t)
	if os.Getuid() != 0 {
		t.Skip("Exim only accepts connections if root starts it")
	}
	program, err := exec.LookPath("exim4")
	require.NoError(t, err, "apt-get install exim4-daemon-light")
	server := &exim{program: program, account: eximAccount(t)}
	server.dir, err = os.MkdirTemp("", "exim") // that of the test belongs to root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(server.dir) })
	authority, err := devstack.NewAuthority("mail")
	require.NoError(t, err)
	certificate, key, err := authority.Server()
	require.NoError(t, err)
	server.caFile = filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(server.caFile, authority.PEM(), 0o600))
	config := strings.NewReplacer(append([]string{"DIR", server.dir}, kind...)...).Replace(eximConfig)
	for name, content := range map[string]string{"config": config, "certificate": string(certificate), "key": string(key)} {
		require.NoError(t, os.WriteFile(filepath.Join(server.dir, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Chown(server.dir, int(server.account.Uid), int(server.account.Gid)))
	server.address, server.named = listen(t, func(connection *net.TCPConn) error {
		file, err := connection.File()
		if err != nil {
			return err
		}
		defer file.Close()
		exim := server.command(append(args, "-bs")...)
		exim.Stdin, exim.Stdout = file, file
		if err := exim.Start(); err != nil {
			return err
		}
		_ = exim.Wait() // an error if the client has closed the connection
		return nil
	})
	return server
}

// listen serves connections to a port of 127.0.0.1 and 127.0.0.2 until the test ends.
func listen(t *testing.T, serve func(*net.TCPConn) error) (address, named string) {
	t.Helper()
	port := 0
	for _, last := range []byte{1, 2} {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, last), Port: port})
		require.NoError(t, err)
		port = listener.Addr().(*net.TCPAddr).Port
		accept(t, listener, serve)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), net.JoinHostPort("localhost", strconv.Itoa(port))
}

// accept serves the connections to a listener until the test ends.
func accept(t *testing.T, listener *net.TCPListener, serve func(*net.TCPConn) error) {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			connection, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer connection.Close()
				if err := serve(connection); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func eximAccount(t *testing.T) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup("Debian-exim")
	require.NoError(t, err)
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	require.NoError(t, errors.Join(uidErr, gidErr))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (e *exim) command(args ...string) *exec.Cmd {
	command := exec.Command(e.program, append([]string{"-C", filepath.Join(e.dir, "config")}, args...)...)
	command.Dir, command.SysProcAttr = e.dir, &syscall.SysProcAttr{Credential: e.account}
	return command
}

// queued are the e-mails that the server has taken.
func (e *exim) queued(t *testing.T) []string {
	t.Helper()
	headers, err := filepath.Glob(filepath.Join(e.dir, "spool/input/*-H"))
	require.NoError(t, err)
	var emails []string
	for _, file := range headers {
		text, err := e.command("-Mvc", strings.TrimSuffix(filepath.Base(file), "-H")).Output()
		require.NoError(t, err)
		emails = append(emails, string(text))
	}
	return emails
}

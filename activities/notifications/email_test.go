package notifications

import (
	"bufio"
	"context"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
)

const (
	ann = "mailto:ann@example.com"
	id  = "rollouts/prod/november/run/3"
)

// through allows e-mails to example.com through a server with a password.
func through(t *testing.T, server *exim) *Activities {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("s3cret\n"), 0o600))
	return &Activities{Allowed: allow.List{Email: &allow.Email{
		Server: server.named, CAFile: server.caFile, Username: "drydock", PasswordFile: password,
		From: "Drydock (Hafen) <drydock@ops.example.com>", Recipients: []string{"*@example.com"},
	}}}
}

// inPlainText allows e-mails to example.com through a server without TLS and password.
func inPlainText(server string) *Activities {
	return &Activities{Allowed: allow.List{Email: &allow.Email{Server: server, TLS: allow.TLSNone, From: "drydock@ops.example.com", Recipients: []string{"*@example.com"}}}}
}

func emailOf(url string, fact notify.Fact, template *drydockv1.NotificationTemplate) notify.Notice {
	return notify.To(drydockv1.Notification{URL: url, Template: template}, id, fact)
}

// parsed is an e-mail that a server has taken, and its text.
func parsed(t *testing.T, email string) (*mail.Message, string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(email))
	require.NoError(t, err)
	require.Equal(t, "text/plain; charset=UTF-8", message.Header.Get("Content-Type"))
	require.Equal(t, "quoted-printable", message.Header.Get("Content-Transfer-Encoding"))
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	require.NoError(t, err)
	return message, strings.TrimSuffix(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n")
}

func subject(t *testing.T, message *mail.Message) string {
	t.Helper()
	text, err := (&mime.WordDecoder{}).DecodeHeader(message.Header.Get("Subject"))
	require.NoError(t, err)
	return text
}

func TestAnEmailIsSentWithSTARTTLSAndAPassword(t *testing.T) {
	server := startExim(t, withPassword)
	fact := blocked()
	fact.Message = ".\nZwölf pods " + strings.Repeat("wait ", 300) + "\n\n.hidden"
	notice := emailOf(ann+",bob@example.com", fact, nil)
	require.NoError(t, through(t, server).SendNotification(t.Context(), notice))

	queued := server.queued(t)
	require.Len(t, queued, 1)
	message, body := parsed(t, queued[0])
	require.Equal(t, "esmtpsa ops.example.com drydock drydock@ops.example.com ann@example.com, bob@example.com", message.Header.Get("X-Envelope"))
	require.Equal(t, fact.Message, body)
	require.Equal(t, "rollout prod/november: is blocked (DisruptionBudget)", subject(t, message))
	require.Equal(t, "<"+notice.ID+"@ops.example.com>", message.Header.Get("Message-Id"))
	require.Equal(t, "auto-generated", message.Header.Get("Auto-Submitted"))
	to, err := message.Header.AddressList("To")
	require.NoError(t, err)
	require.Equal(t, []*mail.Address{{Address: "ann@example.com"}, {Address: "bob@example.com"}}, to)
	from, err := message.Header.AddressList("From")
	require.NoError(t, err)
	require.Equal(t, "drydock@ops.example.com", from[0].Address)
	sent, err := message.Header.Date()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), sent, time.Hour)
}

func TestAnEmailIsSentWithImplicitTLS(t *testing.T) {
	server := startExim(t, withPassword, "-tls-on-connect")
	activities := through(t, server)
	activities.Allowed.Email.TLS = allow.TLSImplicit
	require.NoError(t, activities.SendNotification(t.Context(), emailOf(ann, blocked(), nil)))
	require.Contains(t, strings.Join(server.queued(t), ""), "X-Envelope: esmtpsa ops.example.com drydock ")
}

func TestAnEmailIsSentWithoutTLSOnlyIfThatIsConfigured(t *testing.T) {
	server := startExim(t, withoutTLS)
	activities := inPlainText(server.address)
	activities.Allowed.Email.TLS = ""
	require.ErrorContains(t, activities.SendNotification(t.Context(), emailOf(ann, blocked(), nil)), "STARTTLS")
	require.Empty(t, server.queued(t))
	activities.Allowed.Email.TLS = allow.TLSNone
	require.NoError(t, activities.SendNotification(t.Context(), emailOf(ann, blocked(), nil)))
	require.Contains(t, strings.Join(server.queued(t), ""), "X-Envelope: esmtp ops.example.com ")
}

func TestAnEmailThatTheServerRefusesIsRetried(t *testing.T) {
	server := startExim(t, withPassword)
	for name, tt := range map[string]struct {
		url    string
		change func(*allow.Email)
		says   string
	}{
		"its CA is not trusted":                {ann, func(e *allow.Email) { e.CAFile = "" }, "certificate signed by unknown authority"},
		"it has another name":                  {ann, func(e *allow.Email) { e.Server = strings.Replace(e.Server, "localhost", "127.0.0.2", 1) }, ", not 127.0.0.2"},
		"the password is wrong":                {ann, func(e *allow.Email) { e.Username = "eve" }, "SMTP AUTH failed: 535"},
		"there is no password":                 {ann, func(e *allow.Email) { e.Username = "" }, "550"},
		"the file of the password is missing":  {ann, func(e *allow.Email) { e.PasswordFile = "/nowhere" }, "allow.email: passwordFile: open /nowhere"},
		"the file of the CA has none":          {ann, func(e *allow.Email) { e.CAFile = e.PasswordFile }, "allow.email: caFile: "},
		"one of the recipients does not exist": {ann + ",gone@example.com", func(*allow.Email) {}, "there is no such mailbox"},
	} {
		t.Run(name, func(t *testing.T) {
			activities := through(t, server)
			tt.change(activities.Allowed.Email)
			err := activities.SendNotification(t.Context(), emailOf(tt.url, blocked(), nil))
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "s3cret")
			require.False(t, temporal.Final(err))
			require.Empty(t, server.queued(t), "nobody gets it")
		})
	}
}

func TestTextsOfOthersAddNoHeaderAndNoRecipient(t *testing.T) {
	server := startExim(t, withoutTLS)
	fact := blocked()
	fact.Name, fact.Message = "prod/x\r\nBcc: eve@example.com", "first\r\n.\r\nRCPT TO:<eve@example.com>\r\n\r\nBcc: eve@example.com"
	notice := emailOf(ann, fact, &drydockv1.NotificationTemplate{Title: "Über {{ .Name }}\r\n{{ .Message }}"})
	notice.ID = "a/b\r\nBcc: eve@example.com>"
	require.NoError(t, inPlainText(server.address).SendNotification(t.Context(), notice))
	queued := server.queued(t)
	require.Len(t, queued, 1)
	message, body := parsed(t, queued[0])
	require.Empty(t, message.Header["Bcc"])
	require.Equal(t, "Über prod/x Bcc: eve@example.com first . RCPT TO:<eve@example.com> Bcc: eve@example.com", subject(t, message))
	require.Equal(t, strings.ReplaceAll(fact.Message, "\r", ""), body)
	require.Equal(t, "esmtp ops.example.com  drydock@ops.example.com ann@example.com", message.Header.Get("X-Envelope"))
}

func TestAnEmailToOthersThanAllowedOpensNoConnection(t *testing.T) {
	address, _ := listen(t, func(*net.TCPConn) error { t.Error("a connection"); return nil })
	err := inPlainText(address).SendNotification(t.Context(), emailOf(ann+",eve@elsewhere.example", blocked(), nil))
	require.ErrorContains(t, err, "eve@elsewhere.example: not one of allow.email.recipients")
	require.False(t, temporal.Final(err), "the clusters file may be changed")
}

// A server that has taken an e-mail may fail before it says so, or before it says goodbye.
func TestAnEmailWhoseAnswerIsLostIsTheSameAgain(t *testing.T) {
	server := startExim(t, withoutTLS)
	lost := behindA(t, server.address, "250 OK id=", func() {})
	notice := emailOf(ann, blocked(), nil)
	require.Error(t, inPlainText(lost).SendNotification(t.Context(), notice))
	require.NoError(t, inPlainText(server.address).SendNotification(t.Context(), notice))
	ids := map[string]int{}
	for _, email := range server.queued(t) {
		message, _ := parsed(t, email)
		ids[message.Header.Get("Message-Id")]++
	}
	require.Equal(t, map[string]int{"<" + notice.ID + "@ops.example.com>": 2}, ids)

	noGoodbye := behindA(t, server.address, "221 ", func() {})
	require.NoError(t, inPlainText(noGoodbye).SendNotification(t.Context(), notice), "it has been sent")
}

func TestTheErrorOfATimeoutNamesTheStepOfTheDialog(t *testing.T) {
	server := startExim(t, withoutTLS)
	for _, tt := range []struct{ answer, step string }{
		{"220 ", "connecting"},
		{"250 Accepted", "sending SMTP RCPT TO command"},
		{"354 ", "sending SMTP DATA command"},
		{"250 OK id=", "closing SMTP DATA writer"},
	} {
		ctx, timeIsUp := context.WithCancel(t.Context())
		slow := behindA(t, server.address, tt.answer, timeIsUp)
		require.EqualError(t, inPlainText(slow).SendNotification(ctx, emailOf(ann, blocked(), nil)), "send an e-mail through "+slow+": "+tt.step+": context canceled")
	}
}

// behindA returns the address of a proxy of a server that does something instead of an answer that starts with a text, and then closes the connection.
func behindA(t *testing.T, server, answer string, instead func()) string {
	t.Helper()
	address, _ := listen(t, func(client *net.TCPConn) error {
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			return err
		}
		defer upstream.Close()
		go func() { _, _ = io.Copy(upstream, client) }()
		for lines := bufio.NewReader(upstream); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return nil
			}
			if strings.HasPrefix(line, answer) {
				instead()
				return nil
			}
			if _, err := io.WriteString(client, line); err != nil {
				return nil
			}
		}
	})
	return address
}

func TestAnUnresponsiveMailServerTimesOut(t *testing.T) {
	address, _ := listen(t, func(connection *net.TCPConn) error {
		_, _ = io.Copy(io.Discard, connection)
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := inPlainText(address).SendNotification(ctx, emailOf(ann, blocked(), nil))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "send an e-mail through "+address+": connecting: ")
}

package notifications

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/notify"
)

// Email is a notification as people get it.
type Email struct {
	// ID becomes part of the Message-ID. URL has the recipients.
	ID, URL string
	Text    notify.Text
}

// SendEmail sends an e-mail to all recipients of its URL, which the clusters file must allow, or to none of them. They may get one twice with the same
// Message-ID, if the answer of the mail server was lost. Every answer but a success is an error and is retried.
func SendEmail(ctx context.Context, allowed allow.List, email Email) error {
	recipients, through, err := allowed.RecipientsOf(email.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, notify.EmailTimeout)
	defer cancel()
	message, domain, err := messageOf(email, through.From, recipients)
	if err != nil {
		return fmt.Errorf("write the e-mail: %w", err)
	}
	client, err := clientOf(ctx, through, domain)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, message)
	if err == nil || message.IsDelivered() { // an error after the server has taken the message is none: a retry would send it again
		return nil
	}
	if ctx.Err() != nil { // the error is that the connection is closed
		err = fmt.Errorf("%s: %w", step(err), ctx.Err())
	}
	return fmt.Errorf("send an e-mail through %s: %w", through.Server, err)
}

// step names the step of the dialog with a mail server at which it failed.
func step(err error) string {
	if failed, ok := errors.AsType[*gomail.SendError](err); ok {
		return failed.Reason.String()
	}
	return "connecting"
}

// messageOf returns the message of an e-mail, and the domain of its sender.
func messageOf(email Email, sender string, recipients []string) (message *gomail.Msg, domain string, err error) {
	from, err := mail.ParseAddress(sender)
	if err != nil {
		return nil, "", err
	}
	_, domain = notify.SplitAddress(from.Address)
	message = gomail.NewMsg(gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP), gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(from)
	if err := message.To(recipients...); err != nil {
		return nil, "", err
	}
	message.Subject(email.Text.Title)
	message.SetDate()
	message.SetMessageIDWithValue(messageID(email.ID) + "@" + domain)
	message.SetGenHeader("Auto-Submitted", "auto-generated") // no answer of people who are absent (RFC 3834)
	message.SetBodyString(gomail.TypeTextPlain, email.Text.Body)
	return message, domain, nil
}

// messageID returns the ID of a notification with the characters that need no quotes (RFC 5322, section 3.2.3). Names have no others.
func messageID(id string) string { return strings.ReplaceAll(url.QueryEscape(id), "%2F", "/") }

// clientOf returns the client of a mail server, with its credentials and CAs. They are read each time, to notice new ones. Its connection closes with the
// context. Its name for the server is a domain, because many servers refuse names without a dot, as hosts have.
func clientOf(ctx context.Context, server allow.Email, domain string) (*gomail.Client, error) {
	host, _, err := net.SplitHostPort(server.Server)
	if err != nil {
		return nil, fmt.Errorf("allow.email: server: %w", err)
	}
	trusted, err := endpoint.TrustedCAs(server.CAFile)
	if err != nil {
		return nil, fmt.Errorf("allow.email: caFile: %w", err)
	}
	config := &tls.Config{ServerName: host, RootCAs: trusted, MinVersion: tls.VersionTLS12}
	options := []gomail.Option{
		gomail.WithHELO(domain), gomail.WithTimeout(notify.EmailTimeout), gomail.WithTLSConfig(config), gomail.WithoutNoop(), gomail.WithoutRset(), gomail.WithoutSMTPUTF8(),
	}
	var implicit *tls.Config
	switch server.Mode() {
	case allow.TLSImplicit:
		implicit = config
		options = append(options, gomail.WithSSL())
	case allow.TLSNone:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if server.Username != "" {
		password, err := credential("allow.email: passwordFile", server.PasswordFile)
		if err != nil {
			return nil, err
		}
		options = append(options, gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthPlain, gomail.SMTPAuthLogin),
			gomail.WithUsername(server.Username), gomail.WithPassword(string(password)))
	}
	return gomail.NewClient(host, append(options, gomail.WithDialContextFunc(dialer(ctx, server.Server, implicit)))...)
}

// dialer returns a function that connects to a server, with TLS from the start unless implicit is nil. The connection closes with ctx.
func dialer(ctx context.Context, server string, implicit *tls.Config) gomail.DialContextFunc {
	return func(dialing context.Context, _, _ string) (net.Conn, error) {
		plain, err := (&net.Dialer{}).DialContext(dialing, "tcp", server)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = plain.Close() })
		if implicit == nil {
			return plain, nil
		}
		return tls.Client(plain, implicit), nil
	}
}

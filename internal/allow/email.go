package allow

import (
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/notify"
)

// Email is the mail server through which notifications are sent, and who may get them.
type Email struct {
	// Server and port: smtp.example.com:587.
	Server string `json:"server"`
	// TLS of the connection. Absent: Implicit for port 465, else StartTLS.
	TLS TLSMode `json:"tls,omitempty"`
	// CAFile has CA certificates (PEM) of the server, in addition to those of the system. A relative path starts at the clusters file's directory.
	CAFile string `json:"caFile,omitempty"`
	// Username and the file with the password. Absent: without authentication.
	Username     string `json:"username,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	// From is the sender: drydock@example.com, or Drydock <drydock@example.com>.
	From string `json:"from"`
	// Recipients are addresses; *@example.com for all of a domain.
	Recipients []string `json:"recipients"`
}

// TLSMode is how a connection to a mail server is encrypted.
type TLSMode string

// The modes. Other connections than those of TLSNone fail if the server does not encrypt, or if no trusted CA signed its certificate.
const (
	// TLSStart: the connection starts without TLS, and STARTTLS is required.
	TLSStart TLSMode = "StartTLS"
	// TLSImplicit: the connection starts with TLS.
	TLSImplicit TLSMode = "Implicit"
	// TLSNone: everybody on the way can read and change the e-mails.
	TLSNone TLSMode = "None"
)

// Mode returns the mode of the connection to the server.
func (e Email) Mode() TLSMode {
	switch _, port := splitHost(e.Server); {
	case e.TLS != "":
		return e.TLS
	case port == "465":
		return TLSImplicit
	}
	return TLSStart
}

// RecipientsOf returns the addresses of a mailto URL, and the mail server for them.
func (l List) RecipientsOf(url string) ([]string, Email, error) {
	recipients, err := notify.Recipients(url)
	if err != nil {
		return nil, Email{}, err
	}
	if l.Email == nil {
		return nil, Email{}, fmt.Errorf("allow.email of the worker's clusters file has no mail server")
	}
	for _, recipient := range recipients {
		if !slices.ContainsFunc(l.Email.Recipients, func(pattern string) bool { return matchesAddress(pattern, recipient) }) {
			return nil, Email{}, fmt.Errorf("%s: not one of allow.email.recipients of the worker's clusters file", recipient)
		}
	}
	return recipients, *l.Email, nil
}

// matchesAddress reports whether an address is that of a pattern. Mail servers may see a difference between a and A before the @, but none that matters here.
func matchesAddress(pattern, address string) bool {
	if domain, all := strings.CutPrefix(pattern, "*@"); all {
		_, found := notify.SplitAddress(address)
		return strings.EqualFold(found, domain)
	}
	return strings.EqualFold(pattern, address)
}

func (e Email) check(at *field.Path) field.ErrorList {
	var invalid field.ErrorList
	_, port := splitHost(e.Server)
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 || len(checkHostPattern(nil, e.Server)) > 0 || strings.HasPrefix(e.Server, "*") {
		invalid = append(invalid, field.Invalid(at.Child("server"), e.Server, "must be a host and a port, such as smtp.example.com:587"))
	}
	if known := []TLSMode{TLSStart, TLSImplicit, TLSNone}; e.TLS != "" && !slices.Contains(known, e.TLS) {
		invalid = append(invalid, field.NotSupported(at.Child("tls"), e.TLS, known))
	}
	switch {
	case e.Username != "" && e.PasswordFile == "":
		invalid = append(invalid, field.Required(at.Child("passwordFile"), "the file with the password of "+e.Username))
	case e.PasswordFile != "" && e.Username == "":
		invalid = append(invalid, field.Required(at.Child("username"), "the password is of a user"))
	case e.Username != "" && e.TLS == TLSNone:
		invalid = append(invalid, field.Forbidden(at.Child("username"), "without TLS everybody on the way could read the password"))
	}
	if from, err := mail.ParseAddress(e.From); err != nil || notify.CheckAddress(from.Address) != nil {
		invalid = append(invalid, field.Invalid(at.Child("from"), e.From, "must be an e-mail address, such as drydock@example.com or Drydock <drydock@example.com>"))
	}
	if len(e.Recipients) == 0 {
		invalid = append(invalid, field.Required(at.Child("recipients"), "the addresses that may get e-mails; *@example.com for all of a domain"))
	}
	for i, recipient := range e.Recipients {
		if err := checkRecipient(recipient); err != nil {
			invalid = append(invalid, field.Invalid(at.Child("recipients").Index(i), recipient, err.Error()))
		}
	}
	return invalid
}

// checkRecipient checks an address, or the pattern of all addresses of a domain.
func checkRecipient(pattern string) error {
	address := pattern
	if domain, all := strings.CutPrefix(pattern, "*@"); all {
		address = "any@" + domain
	}
	if strings.Contains(address, "*") {
		return errors.New("may have a * only as in *@example.com, for all addresses of a domain")
	}
	return notify.CheckAddress(address)
}

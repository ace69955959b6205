package notify

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxRecipients limits the addresses of one e-mail.
const maxRecipients = 20

// EmailTimeout limits the dialog with a mail server. Servers may let unknown clients wait, and may examine an e-mail before they answer that they have taken it
// (RFC 5321, section 4.5.3.2.6). After a timeout it is sent again.
const EmailTimeout = 5 * time.Minute

// IsEmail reports whether the receiver with a URL gets e-mails.
func IsEmail(url string) bool { return strings.HasPrefix(url, "mailto:") }

// Recipients returns the addresses of a mailto URL (RFC 6068), such as mailto:ann@example.com,bob@example.com.
func Recipients(url string) ([]string, error) {
	list := strings.Split(strings.TrimPrefix(url, "mailto:"), ",")
	if len(list) > maxRecipients {
		return nil, fmt.Errorf("has %d addresses: at most %d are allowed", len(list), maxRecipients)
	}
	var recipients []string
	for _, escaped := range list {
		address, err := unescape(escaped)
		if err == nil {
			err = CheckAddress(address)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w; write mailto: and addresses, joined by commas", escaped, err)
		}
		recipients = append(recipients, address)
	}
	return recipients, nil
}

func unescape(escaped string) (string, error) {
	if strings.ContainsAny(escaped, "?&") {
		return "", errors.New("must have no fields of a header: use the template")
	}
	return url.PathUnescape(escaped)
}

// CheckAddress returns an error unless a text is an e-mail address without a name, quotes, and characters that need an extension of SMTP.
func CheckAddress(text string) error {
	address, err := mail.ParseAddress(text)
	if err != nil || address.Address != text || strings.ContainsFunc(text, func(char rune) bool { return char > '~' }) {
		return errors.New("is not an e-mail address such as ann@example.com")
	}
	if _, domain := SplitAddress(text); len(validation.IsDNS1123Subdomain(strings.ToLower(domain))) > 0 {
		return fmt.Errorf("%s is not the name of a domain", domain)
	}
	return nil
}

// SplitAddress returns the parts of an address before and after its last @.
func SplitAddress(address string) (local, domain string) {
	at := strings.LastIndex(address, "@")
	return address[:max(at, 0)], address[at+1:]
}

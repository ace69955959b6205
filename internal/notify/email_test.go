package notify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/notify"
)

func TestAMailtoURLHasTheAddressesOfAnEmail(t *testing.T) {
	for url, recipients := range map[string][]string{
		"mailto:ann@example.com":                      {"ann@example.com"},
		"mailto:ann@example.com,on-call+a@b.example":  {"ann@example.com", "on-call+a@b.example"},
		"mailto:ann%2Bdrydock@example.com":            {"ann+drydock@example.com"},
		"mailto:o'neil!#$%25@example.com":             {"o'neil!#$%@example.com"},
		"mailto:" + list(20):                          strings.Split(list(20), ","),
		"mailto:" + list(21):                          nil,
		"mailto:":                                     nil,
		"mailto:ann":                                  nil,
		"mailto:ann@example.com,":                     nil,
		"mailto:ann@example.com, bob@example.com":     nil,
		"mailto:Ann <ann@example.com>":                nil,
		"mailto:<ann@example.com>":                    nil,
		`mailto:"a b"@example.com`:                    nil,
		"mailto:ann@[127.0.0.1]":                      nil,
		"mailto:ann@-example.com":                     nil,
		"mailto:jörg@example.com":                     nil,
		"mailto:ann@bücher.example":                   nil,
		"mailto:ann@example.com?subject=x":            nil,
		"mailto:ann@example.com%0d%0aBcc:eve@a.b":     nil,
		"mailto:ann@example.com%0d%0a.%0d%0aRCPT TO:": nil,
		"mailto:ann%00@example.com":                   nil,
		"mailto:ann@example.com%zz":                   nil,
		"mailto:a@b.c%2Cd@e.f":                        nil,
	} {
		found, err := notify.Recipients(url)
		require.Equal(t, recipients, found, url)
		require.Equal(t, recipients != nil, err == nil, "%s: %v", url, err)
	}
}

// list returns so many addresses.
func list(length int) string {
	var all []string
	for i := range length {
		all = append(all, fmt.Sprintf("a%d@example.com", i))
	}
	return strings.Join(all, ",")
}
